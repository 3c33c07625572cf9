"""The leases of a run: the driver holds and renews one for each query with work, and ends it."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from threading import Condition, Thread

from statemaint.errors import LeaseHeldError, StatemaintError
from statemaint.execute.lease import QUIET, RENEWALS, Lease, acquire, end_earlier, renewed_once
from statemaint.execute.store_record import adopt_announcements
from statemaint.maintain.run import end_run
from statemaint.records.claims import Holder
from statemaint.report.run import Emptied
from statemaint.spark.fleet import AT_A_TIME, Target, tried

_log = logging.getLogger(__name__)
_LOOK_AGAIN = 1.0


class Renewals:
    """Renews many leases, each three times within its seconds, by a few threads for all of them."""

    def __init__(self) -> None:
        self._held: set[Lease] = set()
        self._due: list[tuple[float, int, Lease]] = []  # a heap, by time; equal times by number
        self._numbers = count()
        self._threads: list[Thread] = []
        self._changed = Condition()
        self._closed = False

    def add(self, lease: Lease) -> None:
        with self._changed:
            self._held.add(lease)
            self._push(lease)
            if len(self._threads) < AT_A_TIME:
                thread = Thread(target=self._work, name="statemaint-leases", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def drop(self, lease: Lease) -> None:
        """Renews a lease no more: its run ends it."""
        with self._changed:
            self._held.discard(lease)

    def close(self) -> None:
        """Ends all threads; none renews anything afterwards."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _push(self, lease: Lease) -> None:
        at = time.monotonic() + lease.seconds / RENEWALS
        heappush(self._due, (at, next(self._numbers), lease))

    def _work(self) -> None:
        while lease := self._next():
            held = renewed_once(lease.renew, "lease")
            with self._changed:
                if held and lease in self._held:
                    self._push(lease)

    def _next(self) -> Lease | None:
        """Returns the next lease once it is due; `None` after the end."""
        with self._changed:
            while not self._closed:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                elif (lease := heappop(self._due)[2]) in self._held:
                    return lease
            return None


class Leases:
    """The leases that a run has taken so far, by query, renewed until `close`."""

    def __init__(
        self,
        holders: Mapping[Target, Holder],
        pause: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.holders, self._renewals = holders, Renewals()
        self._pause, self._clock = pause, clock
        self.leases: dict[str, Lease] = {}
        self.refused: dict[str, StatemaintError] = {}

    def begin(self) -> None:
        """Ends the leases of an earlier attempt at the run, which may be at work."""
        repeated = [target for target, holder in self.holders.items() if holder.attempt > 1]
        errors = tried(lambda target: end_earlier(target.open(), self.holders[target]), repeated)
        self.refused |= {target.query: error for target, error in errors.items()}

    def take(self, targets: Iterable[Target], *, wait: float = 0.0) -> None:
        """Takes the leases of queries; the errors of the others are in `refused`.

        It waits `wait` seconds for leases that other runs hold, for all together, and always the
        few seconds in which the tasks of a run that has ended may be at work.
        """
        waited, missing, began = 0.0, list(targets), float("inf")
        while True:
            errors = tried(self._take, missing)
            began = min(began, self._clock())  # once each has been tried
            self.refused |= {target.query: error for target, error in errors.items()}
            missing = [target for target, error in errors.items() if waited < _longest(error, wait)]
            if not missing:
                return
            self._pause(_LOOK_AGAIN)
            waited = self._clock() - began

    def _take(self, target: Target) -> None:
        storage = target.open()
        lease = acquire(storage, self.holders[target])
        self._renewals.add(lease)
        self.refused.pop(target.query, None)
        self.leases[target.query] = lease
        adopt_announcements(storage, lease)  # its units would not see what a run has announced

    def end(self, codes: Mapping[Target, int], run: str) -> dict[Target, Emptied]:
        """Ends the runs of queries: their trash, their ledger, their units, their leases.

        Returns what was deleted from the trash of each query whose run was ended.
        """
        emptied: dict[Target, Emptied] = {}

        def end(target: Target) -> None:
            self._renewals.drop(self.leases.pop(target.query))
            storage, holder, code = target.open(), self.holders[target], codes[target]
            emptied[target] = end_run(
                storage, holder, sound=not code, units=True, run=run, exit_code=code
            )

        errors = tried(end, [target for target in codes if target.query in self.leases])
        for target, error in errors.items():
            _log.warning("%s: the lease is left to expire: %s", target.query, error)
        return emptied

    def close(self) -> None:
        """Stops renewing leases: the remaining ones expire."""
        self._renewals.close()


def _longest(error: StatemaintError, wait: float) -> float:
    """Returns the seconds to wait for a lease that was refused; 0 if no time would help."""
    if not isinstance(error, LeaseHeldError):
        return 0.0
    return max(wait, QUIET + _LOOK_AGAIN) if error.ended else wait
