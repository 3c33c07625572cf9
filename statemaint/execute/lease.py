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
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from threading import Event, Lock, Thread
from typing import Any

from statemaint.errors import (
    AlreadyExistsError,
    LeaseHeldError,
    LeaseLostError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from statemaint.listing import Entry
from statemaint.storage import Storage

FOLDER = "_statemaint/lease"
# How long a maintainer that died keeps others out. A live one renews three times as often.
SECONDS = 60.0
_RENEWALS = 3
_DIGITS = 10

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
        except (StorageError, LeaseLostError) as error:
            # Whoever is about to delete asks `must_hold`, which says it again where it matters.
            _log.warning("the lease is not renewed: %s", error)


def acquire(storage: Storage, run: str, *, seconds: float = SECONDS) -> "Lease":
    """Returns the lease of a checkpoint; see `leased`."""
    if not storage.exclusive:
        raise UnsupportedError(
            storage.root,
            "a storage where two writers can both create a file (it ignores If-None-Match)",
            "one that refuses the second, since two maintainers could run at once",
        )
    current = newest(storage)
    now = storage.now()
    if current and current.run == run and current.deadline > now:
        return Lease(storage, current, seconds).renewed()
    if current and current.deadline > now:
        raise LeaseHeldError(storage.root, current.owner, current.run, current.deadline)
    if current and current.deadline:
        _log.warning(
            "%s: took over the lease of %s (run %s), which ended without being released",
            storage.root, current.owner, current.run,
        )  # fmt: skip
    claim = Claim(current.number + 1 if current else 1, run, me(), now + seconds)
    lease = Lease(storage, claim, seconds)
    try:
        lease.create()
    except AlreadyExistsError:  # somebody was quicker: they hold it, or are our run
        return acquire(storage, run, seconds=seconds)
    _forget_before(storage, claim.number - 1)
    return lease


def newest(storage: Storage) -> Claim | None:
    """Returns the lease of the highest number, whether or not it has ended."""
    numbers = sorted(_numbers(storage))
    if not numbers:
        return None
    try:
        return _parsed(storage, numbers[-1])
    except NotFoundError:  # taken over and cleared away since it was listed
        return newest(storage)


def newest_number(storage: Storage) -> int:
    """Returns the highest number that a lease ever had; 0 where there was none.

    Raises:
        StorageError: when the storage fails.
    """
    return max(_numbers(storage), default=0)


def _numbers(storage: Storage) -> Iterator[int]:
    for entry in storage.list(FOLDER):
        stem = entry.name.removesuffix(".json")
        if entry.name.endswith(".json") and stem.isascii() and stem.isdecimal():
            yield int(stem)


def _parsed(storage: Storage, number: int) -> Claim:
    """Returns what a lease's file says; one that cannot be read counts as held for a while."""
    path = path_of(number)
    try:
        found: dict[str, Any] = json.loads(storage.read(path))
        return Claim(number, str(found["run"]), str(found["owner"]), float(found["deadline"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        modified = storage.stat(path).modified or storage.now()
        return Claim(number, "", "an unreadable lease file", modified + SECONDS)


def _forget_before(storage: Storage, number: int) -> None:
    """Deletes old leases, the oldest first: `must_hold` relies on that order."""
    for old in sorted(one for one in _numbers(storage) if one < number):
        storage.delete(path_of(old))


class Fence:
    """What work under a lease asks before it deletes; this one is never in the way."""

    number = 0

    def must_hold(self) -> None:
        """Makes sure, by asking the storage, that no other run holds the lease (S8).

        Raises:
            LeaseLostError: when another run does.
            StorageError: when the storage fails.
        """

    def check(self) -> None:
        """Does the same, but asks the storage only where the lease may have ended by now."""


class Lease(Fence):
    """A lease that was acquired; threads may share it.

    Attributes:
        seconds: how long it lasts without being renewed.
        number: the fencing number.
        skew: seconds by which the storage stamped its file later than its clock said; below zero
            where earlier.
    """

    def __init__(self, storage: Storage, claim: Claim, seconds: float) -> None:
        self._storage, self._claim, self.seconds = storage, claim, seconds
        self.number, self.skew = claim.number, 0.0
        self._lock, self._released = Lock(), False

    def create(self) -> None:
        """Makes the lease's file.

        Raises:
            AlreadyExistsError: when its number is taken.
            StorageError: when the storage fails.
        """
        self._stamped(self._storage.write(self._claim.path, [self._claim.content]))

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
            if self._released:
                return
            self._must_be_newest()
            claim = replace(self._claim, deadline=self._storage.now() + self.seconds)
            self._stamped(self._storage.write(claim.path, [claim.content], overwrite=True))
            self._claim = claim

    def _stamped(self, entry: Entry) -> None:
        if entry.modified is not None:
            self.skew = entry.modified - self._storage.now()

    def must_hold(self) -> None:
        """Makes sure, by asking the storage, that no other run holds the lease (S8)."""
        self._must_be_newest()
        if self._overdue:
            self.renew()

    def check(self) -> None:
        """Does the same, but asks the storage only where the lease may have ended by now."""
        if self._overdue:
            self.must_hold()

    @property
    def _overdue(self) -> bool:
        return self._storage.now() >= self._claim.deadline

    def _must_be_newest(self) -> None:
        # The next number first: old numbers go in order, so where the next one has come and gone
        # again, ours is gone too.
        try:
            self._storage.stat(path_of(self._claim.number + 1))
        except NotFoundError:
            try:
                self._storage.stat(self._claim.path)
            except NotFoundError:
                raise LeaseLostError(self._storage.root, self._claim.number) from None
            return
        raise LeaseLostError(self._storage.root, self._claim.number)

    def release(self) -> None:
        """Ends it, so that the next run need not wait; never an error."""
        with self._lock:
            self._released = True
            try:
                self._must_be_newest()
                claim = replace(self._claim, deadline=0.0)
                self._storage.write(claim.path, [claim.content], overwrite=True)
            except (StorageError, LeaseLostError) as error:
                _log.warning("the lease ends by itself: %s", error)
