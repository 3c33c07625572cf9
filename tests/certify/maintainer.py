"""One run of maintenance that can be stopped anywhere, for a while or for good."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from statemaint.errors import StatemaintError, StorageError
from statemaint.maintain import maintain
from statemaint.report.run import Report
from tests.certify.judge import Loss
from tests.certify.seat import Seat
from tests.certify.world import Doer, Trouble, World
from tests.support.faults import Crash


class Stop(Enum):
    """How a maintainer is stopped at a point."""

    NEVER = auto()
    CRASH = auto()
    FAIL = auto()
    PAUSE = auto()
    TROUBLE = auto()


@dataclass(frozen=True, slots=True)
class Halt:
    """Where a maintainer is stopped: after so many points, or so many of one verb.

    A `trouble` that begins there stays; the maintainer goes on as it can.
    """

    stop: Stop
    after: int = 0
    verb: str = ""
    trouble: Trouble | None = None


ON = Halt(Stop.NEVER)
RELYING = {"delete", "move", "linked"}
"""Where a maintainer has looked at its base for the last time before it deletes."""
HERE = Halt(Stop.CRASH, -1)
"""The end of a maintainer that is paused, at the very point where it stands."""


Work = Callable[[Seat, Doer], Report | None]


def _maintain(storage: Seat, doer: Doer) -> Report:
    return maintain(storage, doer.policy, request=doer.request, run=doer.run, workers=doer.workers)


class Maintainer:
    """One run of maintenance, in a thread of its own where it may be paused.

    Only one thread runs at a time: whoever hands the baton over waits until it comes back.
    """

    def __init__(
        self, world: World, doer: Doer, tally: Counter[str], work: "Work | None" = None
    ) -> None:
        self.doer, self._tally, self._work = doer, tally, work or _maintain
        self._storage = Seat(world, doer, self._gate)
        self._world = world
        self._left, self._halt = 0, ON
        self._mine, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self.points = 0
        self.at = ""
        self.report: Report | None = None
        self.error: BaseException | None = None
        self.done = False

    @property
    def relies(self) -> bool:
        """Returns whether it is between its last look at a file and what relies on it."""
        return self.at in RELYING or len(self._storage.turn.all) > 1

    @property
    def alone(self) -> bool:
        """Returns whether it has come to its end without a pause, and was not killed."""
        return self.done and self._thread is None and not isinstance(self.error, Crash)

    def stands_still(self) -> None:
        late, frozen = self.at in RELYING, self.at == "publish"
        self._storage.stood_still(late=late, frozen=frozen)

    @property
    def operations(self) -> int:
        return sum(self._storage.requests.values())

    def start(self, halt: "Halt") -> None:
        """Runs to the end, or to the point at which it is to be stopped."""
        self._halt, self._left, stop = halt, halt.after, halt.stop
        if stop is not Stop.PAUSE:
            self._run()
            return
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._wait()

    def resume(self, halt: "Halt") -> None:
        """Lets a paused run go on."""
        self._halt, self._left = halt, halt.after
        self._mine.release()
        self._wait()

    def _wait(self) -> None:
        self._theirs.acquire()
        if self.done and self._thread:
            self._thread.join()
        self._told()

    def _told(self) -> None:
        """Raises what the judge has found, even if the run that did it has not ended yet."""
        if self._world.lost:
            raise self._world.lost
        if isinstance(self.error, Loss):
            raise self.error

    def _run(self) -> None:
        try:
            self.report = self._work(self._storage, self.doer)
        except (Crash, StatemaintError) as error:
            self.error = error
        except BaseException as error:  # noqa: BLE001 -- told to the thread that waits
            self.error = error if isinstance(error, Loss) else Loss(f"a fault of ours: {error!r}")
        self.done = True
        if self._thread:
            self._theirs.release()
        else:
            self._told()

    def _gate(self, verb: str, path: str) -> None:
        self.points += 1
        if self._world.lost or self.done:
            return
        if self._halt.stop is Stop.NEVER or self._halt.verb not in ("", verb):
            return
        self._left -= 1
        if self._left < 0:
            self._stopped(verb, path)

    def _stopped(self, verb: str, path: str) -> None:
        stop, trouble, self._halt = self._halt.stop, self._halt.trouble, ON
        self._tally[f"{stop.name.lower()} at {verb}"] += 1
        self.at = verb
        if stop is Stop.PAUSE:
            self._theirs.release()
            self._mine.acquire()
            if self._halt == HERE:
                self._stopped(verb, path)
        elif stop is Stop.CRASH:
            raise Crash
        elif stop is Stop.TROUBLE:
            self._world.trouble = trouble
        else:
            raise StorageError(path, "the storage fails")
