"""One maintainer per checkpoint: a lease with an owner, a deadline and a fencing number (S8).

    _statemaint/lease/<number>.json     the lease of that number, replaced by its owner only

Numbers only grow, and each is created at most once: whoever creates the next number holds the
lease, and every earlier holder can see that it does not. So all that a storage must be able to do
is to refuse a file that is there already.

The tasks of one run share its lease: they work on different partitions.
"""

import json
import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from threading import Event, Lock, Thread
from typing import Any

from statemaint.errors import (
    AlreadyExistsError,
    CodecError,
    LeaseHeldError,
    LeaseLostError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from statemaint.storage import Storage

FOLDER = "_statemaint/lease"
# How long a maintainer that died keeps others out. A live one renews three times as often.
SECONDS = 60.0
_RENEWALS = 3
# Each is lost to another run only, or to what is no lease.
_MOST_ATTEMPTS = 20
# No claim lasts longer than this beyond its file's time, whatever a clock that was wrong says.
_LONGEST, _ORDINARY = 3600.0, 600.0
_DIGITS = 10
_LAST = 10**_DIGITS - 1
_END_OF_TIME = 250_000_000_000.0  # the year 9892: what lies beyond is no time
_NAME = re.compile(rf"{FOLDER}/([0-9]{{{_DIGITS}}})\.json")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a lease's file says.

    Attributes:
        number: the fencing number.
        run: the run that holds it.
        owner: the process that made it, for a person.
        deadline: when it ends unless it is renewed, by the storage's clock; 0 once released.
    """

    number: int
    run: str
    owner: str
    deadline: float

    @property
    def path(self) -> str:
        """Returns where it is kept."""
        return path_of(self.number)

    @property
    def content(self) -> bytes:
        """Returns its file."""
        return json.dumps(asdict(self)).encode() + b"\n"


def path_of(number: int) -> str:
    """Returns where the lease of a number is kept."""
    return f"{FOLDER}/{number:0{_DIGITS}d}.json"


def me() -> str:
    """Returns what names this process to a person."""
    return f"{socket.gethostname()}:{os.getpid()}"


@contextmanager
def leased(
    storage: Storage, run: str, *, seconds: float = SECONDS, keep: bool = False
) -> Iterator["Lease"]:
    """Holds a checkpoint's lease as long as the block runs, renewing it from another thread.

    Args:
        storage: where the checkpoint lives.
        run: who asks; a run that holds the lease already shares it.
        seconds: how long it lasts without being renewed.
        keep: leave it to the run's other tasks when the block ends.

    Raises:
        LeaseHeldError: when another run holds it.
        UnsupportedError: when the storage cannot make a file for one of several writers only.
        StorageError: when the storage fails.
    """
    lease = acquire(storage, run, seconds=seconds)
    done = Event()
    beat = Thread(target=_beat, args=(lease, done), name="statemaint-lease", daemon=True)
    beat.start()
    try:
        yield lease
    finally:
        done.set()
        beat.join()
        if not keep:
            lease.release()


def _beat(lease: "Lease", done: Event) -> None:
    while not done.wait(lease.seconds / _RENEWALS):
        try:
            lease.renew()
        except StorageError as error:
            # Whoever is about to delete asks `must_hold`, which says it again where it matters.
            _log.warning("the lease is not renewed: %s", error)
        except LeaseLostError as error:
            _log.warning("the lease is not renewed: %s", error)
            return


def acquire(storage: Storage, run: str, *, seconds: float = SECONDS) -> "Lease":
    """Returns the lease of a checkpoint; see `leased`."""
    if not storage.exclusive:
        raise UnsupportedError(
            storage.root,
            "a storage where two writers can both create the same file",
            "one that refuses the second (hard links on a disk, If-None-Match on S3), or two "
            "maintainers could run at once",
        )
    for _ in range(_MOST_ATTEMPTS):
        try:
            return _acquired(storage, run, seconds)
        except (AlreadyExistsError, LeaseLostError) as error:
            lost = error  # another run was quicker: it holds the lease, or ours does
    raise StorageError(
        FOLDER, f"no lease can be taken, something that is no lease may have its name: {lost}"
    )


def _acquired(storage: Storage, run: str, seconds: float) -> "Lease":
    current = newest(storage)
    now = storage.now()
    if current and current.deadline > now and current.run != run:
        raise LeaseHeldError(storage.root, current.owner, current.run, current.deadline)
    if current and current.deadline > now:
        return Lease(storage, current, seconds).renewed()
    return Lease(storage, _next(storage, current, run, now + seconds), seconds).created()


def _next(storage: Storage, current: Claim | None, run: str, deadline: float) -> Claim:
    if current and current.number == _LAST:
        raise StorageError(
            current.path, "no lease can follow its number; delete the file if no maintainer runs"
        )
    if current and current.deadline and current.run != run:
        _log.warning(
            "%s: took over the lease of %s (run %s), which ended without being released",
            storage.root, current.owner, current.run,
        )  # fmt: skip
    return Claim(current.number + 1 if current else 1, run, me(), deadline)


def newest(storage: Storage) -> Claim | None:
    """Returns the lease of the highest number, whether or not it has ended.

    Raises:
        StorageError: when the storage fails, or lists what it does not have.
    """
    number = 0
    for _ in range(_MOST_ATTEMPTS):
        if not (number := newest_number(storage)):
            return None
        try:
            return _parsed(storage, number)
        except NotFoundError:  # taken over and cleared away since it was listed
            continue
    raise StorageError(path_of(number), "it is listed, and cannot be read")


def newest_number(storage: Storage) -> int:
    """Returns the highest number that a lease ever had; 0 where there was none.

    Raises:
        StorageError: when the storage fails.
    """
    return max(_numbers(storage), default=0)


def _numbers(storage: Storage) -> Iterator[int]:
    for entry in storage.list(FOLDER):
        if found := _NAME.fullmatch(entry.path):
            yield int(found[1])


def _parsed(storage: Storage, number: int) -> Claim:
    """Returns what a lease's file says; one that cannot be read counts as held for a while."""
    path = path_of(number)
    try:
        found: dict[str, Any] = json.loads(storage.read(path))
        claim = Claim(number, str(found["run"]), str(found["owner"]), _time(found["deadline"]))
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, CodecError):
        return Claim(number, "", "an unreadable lease file", _since(storage, path) + SECONDS)
    if claim.deadline <= storage.now() + _ORDINARY:
        return claim
    return replace(claim, deadline=min(claim.deadline, _since(storage, path) + _LONGEST))


def _since(storage: Storage, path: str) -> float:
    """Returns when a lease's file was written, by the storage's clock."""
    modified = storage.stat(path).modified
    return storage.now() if modified is None else modified


def _time(found: Any) -> float:
    time = float(found)
    if not 0 <= time < _END_OF_TIME:
        raise ValueError(found)
    return time


def _forget_before(storage: Storage, number: int) -> None:
    """Deletes old leases, the oldest first: `must_hold` relies on that order."""
    for old in sorted(one for one in _numbers(storage) if one < number):
        storage.delete(path_of(old))


class Fence:
    """What work under a lease asks before it deletes; this one is never in the way."""

    @property
    def number(self) -> int:
        """Returns the fencing number; 0 without a lease."""
        return 0

    def must_hold(self) -> None:
        """Makes sure, by asking the storage, that no other run holds the lease (S8).

        Raises:
            LeaseLostError: when another run does.
            StorageError: when the storage fails.
        """

    def check(self) -> bool:
        """Does the same, but asks the storage only where the lease may have ended by now.

        Returns:
            Whether it asked.
        """
        return False


class Lease(Fence):
    """A lease that was acquired; threads may share it.

    As long as its deadline has not passed, nobody can have taken it. Once it has, somebody may be
    about to, so it goes on under a new number only, which one of them gets.

    Attributes:
        seconds: how long it lasts without being renewed.
        skew: seconds by which the storage stamped its file later than its clock said; below zero
            where earlier.
    """

    def __init__(self, storage: Storage, claim: Claim, seconds: float) -> None:
        self._storage, self._claim, self.seconds = storage, claim, seconds
        self.skew = 0.0
        self._lock, self._released = Lock(), False

    @property
    def number(self) -> int:
        """Returns the fencing number; it grows where the lease had ended before it was renewed."""
        return self._claim.number

    def created(self) -> "Lease":
        """Makes the lease's file, clears old ones away, and returns itself.

        Raises:
            AlreadyExistsError: when its number is taken.
            LeaseLostError: when its number was taken, and cleared away since.
            StorageError: when the storage fails.
        """
        self._write(self._claim, overwrite=False)
        _forget_before(self._storage, self._claim.number - 1)
        return self

    def renewed(self) -> "Lease":
        """Returns itself, renewed."""
        self.renew()
        return self

    def renew(self) -> None:
        """Moves the deadline on.

        Raises:
            LeaseLostError: when another run holds the lease now.
            StorageError: when the storage fails.
        """
        with self._lock:
            if not self._released:
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
        """Takes the next number, unless another run has it by now."""
        try:
            self._write(claim, overwrite=False)
        except AlreadyExistsError:
            self._must_be_newest()
            return
        self._claim = claim
        _forget_before(self._storage, claim.number - 1)

    def _write(self, claim: Claim, *, overwrite: bool) -> None:
        """Writes the lease's file, and makes sure that its number is still the newest.

        A run that was paused just before could bring a number back that was cleared away.
        """
        entry = self._storage.write(claim.path, [claim.content], overwrite=overwrite)
        if entry.modified is not None:
            self.skew = entry.modified - self._storage.now()
        latest = newest_number(self._storage)
        if latest != claim.number:
            _forget_before(self._storage, latest)
            raise self._lost()

    def must_hold(self) -> None:
        """Makes sure, by asking the storage, that no other run holds the lease (S8)."""
        with self._lock:
            self._must_be_newest()
            while self._overdue:  # again where it was paused meanwhile
                self._renew()

    def check(self) -> bool:
        """Does the same, but asks the storage only where the lease may have ended by now."""
        asked = self._overdue
        if asked:
            self.must_hold()
        return asked

    @property
    def _overdue(self) -> bool:
        return self._storage.now() >= self._claim.deadline

    def _must_be_newest(self) -> None:
        # The next number first: old numbers go in order, so where the next one has come and gone
        # again, ours is gone too.
        while following := self._following():
            if following.run != self._claim.run:
                raise self._lost()
            self._claim = following  # another task of this run took it
        try:
            self._storage.stat(self._claim.path)
        except NotFoundError:
            raise self._lost() from None

    def _following(self) -> Claim | None:
        try:
            return _parsed(self._storage, self._claim.number + 1)
        except NotFoundError:
            return None

    def _lost(self) -> LeaseLostError:
        self._claim = replace(self._claim, deadline=0.0)  # from now on every check asks
        return LeaseLostError(self._storage.root, self._claim.number)

    def release(self) -> None:
        """Ends it, so that the next run need not wait; never an error."""
        with self._lock:
            self._released = True
            try:
                self._must_be_newest()
                self._write(replace(self._claim, deadline=0.0), overwrite=True)
            except (StorageError, LeaseLostError) as error:
                _log.warning("the lease ends by itself: %s", error)
