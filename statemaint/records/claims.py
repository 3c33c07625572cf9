"""The files of the lease: one for each number; the highest number counts (see `lease`).

    _statemaint/lease/<number>.json     the claim of that number, replaced only by its holder

A claim marked as ended was never held: it shows every task that works under a lower number that
the lease has ended.
"""

import json
import os
import re
import socket
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from secrets import token_hex

from statemaint.errors import CodecError, NotFoundError, StorageError, WrongKindError
from statemaint.listing import Entry, valid_time
from statemaint.storage import Storage

FOLDER = "_statemaint/lease"
# How long a dead maintainer blocks others. A live one renews its lease three times as often.
SECONDS = 60.0
# An attempt is lost only to another run, or to a file that is not a lease.
MOST_ATTEMPTS = 20
_FIRST_WAIT, _LONGEST_WAIT = 0.01, 0.5
# A claim ends at most this long after its file's time, even if a wrong clock set its deadline.
_LONGEST, _ORDINARY = 3600.0, 600.0
# How long a claim stays after the next number was written. A listing is not of one moment: it may
# miss a claim that is deleted while it runs, and those that are created, but not one that stays.
STAYS = 60.0
_DIGITS = 10
LAST = 10**_DIGITS - 1
_NAME = re.compile(rf"{FOLDER}/([0-9]{{{_DIGITS}}})\.json")


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lease: one run, or all tasks of a run that were handed the same holder."""

    name: str  # readable; two attempts at one run have the same name
    attempt: int = 1
    # Unique to this holder across processes, DAGs and installations.
    nonce: str = field(default_factory=lambda: token_hex(16))

    def follows(self, other: "Holder") -> bool:
        return self.name == other.name and self.attempt > other.attempt


@dataclass(frozen=True, slots=True)
class Claim:
    """The content of one lease file."""

    number: int
    holder: Holder
    owner: str  # the process that made it, in readable form
    deadline: float  # when it ends unless it is renewed, by the storage's clock; 0 once released
    ended: bool = False  # it only marks the end of the lease; no run gets one before its deadline

    @property
    def path(self) -> str:
        return path_of(self.number)

    @property
    def content(self) -> bytes:
        run, attempt, nonce = self.holder.name, self.holder.attempt, self.holder.nonce
        held = {"number": self.number, "run": run, "attempt": attempt, "nonce": nonce}
        until = {"owner": self.owner, "deadline": self.deadline, "ended": self.ended}
        return json.dumps({**held, **until}).encode() + b"\n"

    def is_of(self, holder: Holder) -> bool:
        return self.holder == holder and not self.ended


def path_of(number: int) -> str:
    return f"{FOLDER}/{number:0{_DIGITS}d}.json"


def me() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def newest(storage: Storage, *, taken: int = 0) -> Claim | None:
    """Returns the claim of the highest number, ended or not; `taken` counts even if unlisted."""
    number = 0
    for wait in waits():
        if not (number := max(newest_number(storage), taken)):
            return None
        try:
            return claim_of(storage, number)
        except NotFoundError:  # taken over and deleted since it was listed
            wait()
    raise StorageError(path_of(number), "it is listed, and cannot be read")


def waits() -> Iterator[Callable[[], None]]:
    """Yields, for each attempt, the pause after it: seven seconds in all.

    A listing may be older than the last write: of a cached one, or of a server whose listings lag.
    """
    seconds = _FIRST_WAIT
    for _ in range(MOST_ATTEMPTS):
        yield partial(pause, seconds)
        seconds = min(2 * seconds, _LONGEST_WAIT)


def pause(seconds: float) -> None:
    time.sleep(seconds)


def newest_number(storage: Storage) -> int:
    """Returns the highest number that any claim has had; 0 if there was none."""
    return max(_entries(storage), default=0)


def forget_before(storage: Storage, number: int) -> None:
    """Deletes old claims, the oldest first: `Lease.must_hold` relies on that order.

    A claim stays until the next one is `STAYS` seconds older than the newest, so that every listing
    has the highest number of the moment in which it began, or a higher one.
    """
    entries = _entries(storage)
    newest = max((entry.modified or 0.0 for entry in entries.values()), default=0.0)
    for old, following in pairwise(sorted(entries)):
        written = entries[following].modified
        if old >= number or written is None or written > newest - STAYS:
            return
        storage.delete(path_of(old))


def take_back(storage: Storage, number: int) -> None:
    """Deletes a claim that was created again after it and the next had been deleted."""
    numbers = sorted(_entries(storage))
    if number + 1 not in numbers and number < max(numbers, default=0):
        for old in numbers[: bisect_right(numbers, number)]:
            storage.delete(path_of(old))


def claim_of(storage: Storage, number: int) -> Claim:
    """Returns the claim of an existing number; an unreadable one counts as held for a while."""
    path = path_of(number)
    try:
        fields = json.loads(storage.read(path))
        run, owner, until = str(fields["run"]), str(fields["owner"]), valid_time(fields["deadline"])
        # Earlier builds wrote neither attempt nor nonce; their leases are never shared.
        holder = Holder(run, int(fields.get("attempt", 0)), str(fields.get("nonce", "")))
        claim = Claim(number, holder, owner, until, fields.get("ended") is True)
    except WrongKindError as error:
        why = f"no lease can be taken, something that is not a lease has its name: {error.detail}"
        raise StorageError(path, why) from error
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, CodecError):
        until = _since(storage, path) + SECONDS
        return Claim(number, Holder("", 0, ""), "an unreadable lease file", until)
    now = storage.now()
    if claim.ended and claim.deadline <= now:
        return replace(claim, deadline=0.0)
    if claim.deadline <= now + _ORDINARY:
        return claim
    return replace(claim, deadline=min(claim.deadline, _since(storage, path) + _LONGEST))


def _entries(storage: Storage) -> dict[int, Entry]:
    found = ((_NAME.fullmatch(entry.path), entry) for entry in storage.list(FOLDER))
    return {int(match[1]): entry for match, entry in found if match}


def _since(storage: Storage, path: str) -> float:
    modified = storage.stat(path).modified
    return storage.now() if modified is None else modified
