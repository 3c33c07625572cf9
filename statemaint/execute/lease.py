"""One maintainer per checkpoint: a lease with an owner, a deadline and a fencing number (S8).

Numbers only grow, and each is created at most once (see `claims`): the run that creates the next
number holds the lease, and every earlier holder can see that it does not. A storage only has to
refuse to create a file that exists.

The tasks of one run work on different partitions and share its lease: they are handed one holder.
A shared lease is ended by taking the next number as a mark. Every task that is still at work sees
the mark before its next page of deletions, and within `TRUSTED` seconds in any case. No other run
gets the lease before `QUIET` seconds have passed.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Event, Lock, Thread

from statemaint.errors import (
    AlreadyExistsError,
    LeaseHeldError,
    LeaseLostError,
    NotExclusiveError,
    NotFoundError,
    StorageError,
)
from statemaint.execute.fence import TRUSTED, Fence
from statemaint.records import claims
from statemaint.records.claims import SECONDS, Claim, Holder, waits
from statemaint.scan.identity import check_links
from statemaint.storage.base import Check, Storage

RENEWALS = 3
# How long a lease stays closed after it was ended under tasks that may be at work. Longer than
# `TRUSTED` by the possible difference of two clocks in whole seconds, and by a request's duration.
QUIET = 5.0

_log = logging.getLogger(__name__)


@contextmanager
def leased(
    storage: Storage, holder: Holder, *, seconds: float = SECONDS, keep: bool = False
) -> Iterator["Lease"]:
    """Holds a checkpoint's lease while the block runs, renewing it from another thread.

    With `keep` it is left to the tasks that share it when the block ends. `LeaseLostError` is
    raised when a later attempt at the holder's run has begun.
    """
    lease = acquire(storage, holder, seconds=seconds)
    try:
        with renewing(lease.renew, lease.seconds, "lease"):
            yield lease
    finally:
        if not keep:
            lease.release()


@contextmanager
def renewing(renew: Check, seconds: float, what: str) -> Iterator[None]:
    """Renews, three times within its seconds, what the block relies on, from another thread."""
    done = Event()
    arguments = (renew, seconds, what, done)
    beat = Thread(target=_beat, args=arguments, name=f"statemaint-{what}", daemon=True)
    beat.start()
    try:
        yield
    finally:
        done.set()
        beat.join()


def _beat(renew: Check, seconds: float, what: str, done: Event) -> None:
    while not done.wait(seconds / RENEWALS) and renewed_once(renew, what):
        pass


def renewed_once(renew: Check, what: str) -> bool:
    """Renews something, as far as the storage lets it; returns whether it is still held."""
    try:
        renew()
    except (StorageError, LeaseLostError) as error:
        # Every deletion calls `must_hold` first, which raises this again if it matters.
        _log.warning("the %s is not renewed: %s", what, error)
        return not isinstance(error, LeaseLostError)
    return True


def acquire(storage: Storage, holder: Holder, *, seconds: float = SECONDS) -> "Lease":
    check_links(storage)
    if not storage.exclusive:
        raise NotExclusiveError(storage.root, storage.obstacle)
    taken = 0
    for wait in waits():
        current = claims.newest(storage, taken=taken)
        result = _acquired(storage, current, holder, seconds)
        if isinstance(result, Lease):
            return result
        if isinstance(lost := result, AlreadyExistsError):
            taken = current.number + 1 if current else 1  # it exists, whatever a listing shows
        wait()
    raise _no_lease(lost)


def _no_lease(why: Exception) -> StorageError:
    detail = f"no lease can be taken, something that is not a lease may have its name: {why}"
    return StorageError(claims.FOLDER, detail)


def _acquired(
    storage: Storage, current: Claim | None, holder: Holder, seconds: float
) -> "Lease | AlreadyExistsError | LeaseLostError":
    now = storage.now()
    if current and current.holder.follows(holder):
        why = f"attempt {current.holder.attempt} at its run has begun"
        raise LeaseLostError(storage.root, current.number, why)
    held = _must_be_free(storage, current, holder)
    try:
        if current and held:
            lease = Lease(storage, current, seconds)
            lease.renew()
            return lease
        return Lease(storage, _next(storage, current, holder, now + seconds), seconds).created()
    except (AlreadyExistsError, LeaseLostError) as error:
        return error  # another run or task was quicker: it holds the lease, or shares it


def check_free(storage: Storage, holder: Holder) -> None:
    """Makes sure, before a run of several tasks reads anything, that no other has the lease."""
    _must_be_free(storage, claims.newest(storage), holder)


def _must_be_free(storage: Storage, current: Claim | None, holder: Holder) -> bool:
    if current is None or current.deadline <= storage.now():
        return False
    if not current.is_of(holder):
        run, until = current.holder.name, current.deadline
        raise LeaseHeldError(storage.root, current.owner, run, until, ended=current.ended)
    return True


def _next(storage: Storage, current: Claim | None, holder: Holder, deadline: float) -> Claim:
    if current and current.number == claims.LAST:
        raise StorageError(
            current.path, "no lease can follow its number; delete the file if no maintainer runs"
        )
    if current and current.deadline and current.holder != holder:
        _log.warning(
            "%s: took over the lease of %s (run %s), which ended without being released",
            storage.root, current.owner, current.holder.name,
        )  # fmt: skip
    return Claim(current.number + 1 if current else 1, holder, claims.me(), deadline)


def end_earlier(storage: Storage, holder: Holder) -> None:
    """Ends a lease left by an earlier attempt at the holder's run, whether or not it is alive.

    A task of that attempt stops before its next page of deletions, and gets no lease as long as no
    other run has had one since. The lease of any other run is not ended. The first attempt sends no
    request.
    """
    taken = 0
    if holder.attempt == 1:
        return
    for wait in waits():
        current = claims.newest(storage, taken=taken)
        if current is None or not holder.follows(current.holder):
            return
        if current.ended or current.number == claims.LAST:
            return
        mark = _mark(storage, current.number + 1, holder)
        try:
            storage.write(mark.path, [mark.content])
        except AlreadyExistsError as error:  # the earlier attempt continued, or another run has it
            lost, taken = error, mark.number
            wait()
        else:
            _log.warning(
                "%s: ended the lease of %s, attempt %d at run %s; this is attempt %d",
                storage.root, current.owner, current.holder.attempt, holder.name, holder.attempt,
            )  # fmt: skip
            return
    raise _no_lease(lost)


def _mark(storage: Storage, number: int, holder: Holder) -> Claim:
    return Claim(number, holder, claims.me(), storage.now() + QUIET, ended=True)


class Lease(Fence):
    """An acquired lease; threads may share it.

    Before its deadline it can only be ended, by a task that shares it or for a later attempt at its
    run. After the deadline another run may be about to take it, so it continues only under a new
    number, which one of the two gets. It lasts `seconds` without being renewed.
    """

    def __init__(self, storage: Storage, claim: Claim, seconds: float) -> None:
        self._storage, self._claim, self.seconds = storage, claim, seconds
        self.skew = 0.0  # how much later its file's time may be than the storage's clock: seconds
        self._lock, self._over = Lock(), False
        self._confirmed_at = float("-inf")
        self._looks = self._confirmed = 0  # the last look that began, the last that confirmed it

    @property
    def number(self) -> int:
        """Returns the fencing number; it grows if the deadline passed before a renewal."""
        return self._claim.number

    def created(self) -> "Lease":
        self._write(self._claim, overwrite=False)
        claims.forget_before(self._storage, self._claim.number - 1)
        return self

    def renew(self) -> None:
        with self._lock:
            if not self._over:
                self._must_be_newest()
                self._renew()

    def _renew(self) -> None:
        claim = replace(self._claim, deadline=self._storage.now() + self.seconds)
        self._write(claim, overwrite=True)
        if self._overdue:
            self._go_on(replace(claim, number=claim.number + 1))
        else:
            self._claim = claim

    def _go_on(self, claim: Claim) -> None:
        try:
            self._write(claim, overwrite=False)
        except AlreadyExistsError:
            self._must_be_newest()
            return
        self._claim = claim
        claims.forget_before(self._storage, claim.number - 1)

    def _write(self, claim: Claim, *, overwrite: bool) -> None:
        """Writes the lease's file, and makes sure that its number is still the newest.

        A run that was paused just before the write could recreate a deleted number. Another run may
        delete it again before the write has ended, which then misses its file.
        """
        before = self._storage.now()
        try:
            entry = self._storage.write(claim.path, [claim.content], overwrite=overwrite)
        except NotFoundError:
            raise self._lost() from None
        now = self._storage.now()
        if entry.modified is not None:  # the larger one: in between the process may have slept
            self.skew = max(entry.modified - before, entry.modified - now, key=abs)
        latest = self._listed(claim)
        if latest < claim.number and not overwrite:
            raise self._unlisted(claim)
        if latest != claim.number:
            claims.take_back(self._storage, claim.number)
            raise self._lost()
        self._confirmed_at = now

    def _listed(self, claim: Claim) -> int:
        """Returns the highest number of a listing that shows a claim; lower if none does in time.

        Without the claim's own file, a listing is older than that, and shows no other run either.
        """
        for wait in waits():
            latest = claims.newest_number(self._storage)
            if latest >= claim.number or not self._exists(claim):
                break
            wait()
        return latest

    def _exists(self, claim: Claim) -> bool:
        with suppress(NotFoundError):
            self._storage.stat(claim.path)
            return True
        return False

    def _unlisted(self, claim: Claim) -> Exception:
        """Takes back a claim that no listing shows, so that it blocks no run; returns the error."""
        if not self._exists(claim):
            return self._lost()
        self._storage.write(claim.path, [replace(claim, deadline=0.0).content], overwrite=True)
        detail = (
            "it was written, and seconds later the storage's listings do not show it, so whether "
            "another run works is unknown; nothing was done. Run again, and find out why its "
            "listings lag: a cache, a gateway, or replication"
        )
        return StorageError(claim.path, detail)

    def must_hold(self) -> None:
        # Threads that wait share a request that began after they came: it is as good as their own.
        looks = self._looks
        with self._lock:
            if self._confirmed <= looks or not self.is_fresh:
                self._must_still_hold()

    def check(self) -> None:
        if not self.is_fresh:
            with self._lock:
                if not self.is_fresh:
                    self._must_still_hold()

    def _must_still_hold(self) -> None:
        self._must_be_newest()
        while self._overdue:  # again if the process was paused meanwhile
            self._renew()

    @property
    def is_fresh(self) -> bool:
        return not self._overdue and self._storage.now() - self._confirmed_at < TRUSTED

    @property
    def _overdue(self) -> bool:
        return self._storage.now() >= self._claim.deadline

    def _must_be_newest(self) -> None:
        # The next number first: old numbers are deleted in order, so if the next one was created
        # and deleted again, ours is deleted too.
        now = self._storage.now()
        self._looks += 1
        while following := self._claim_at(self._claim.number + 1):
            if not following.is_of(self._claim.holder):
                raise self._lost()
            self._claim = following  # another task of this run took it
        mine = self._claim_at(self._claim.number)
        if mine is None or not mine.is_of(self._claim.holder):
            raise self._lost()  # another run's, if all was deleted and numbers began again
        self._confirmed_at, self._confirmed = now, self._looks

    def _claim_at(self, number: int) -> Claim | None:
        with suppress(NotFoundError):
            return claims.claim_of(self._storage, number)
        return None

    def _lost(self) -> LeaseLostError:
        self._claim = replace(self._claim, deadline=0.0)  # from now on every check asks the storage
        return LeaseLostError(self._storage.root, self._claim.number)

    def release(self) -> None:
        """Lets the next run in immediately; for a lease that is not shared. Never an error."""
        self._leave(self._release)

    def end(self) -> None:
        """Ends the lease for all tasks that share it, at work or not; never an error."""
        self._leave(self._end)

    def _release(self) -> None:
        self._write(replace(self._claim, deadline=0.0), overwrite=True)

    def _leave(self, how: Check) -> None:
        with self._lock:
            self._over = True
            try:
                self._must_be_newest()
                how()
            except (StorageError, LeaseLostError) as error:
                _log.warning("the lease ends by itself: %s", error)

    def _end(self) -> None:
        try:
            claim = self._claim
            self._write(_mark(self._storage, claim.number + 1, claim.holder), overwrite=False)
        except AlreadyExistsError:  # a task of this run continued under it, or another run has it
            self._must_be_newest()
            self._end()
