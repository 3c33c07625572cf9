"""One attempt at a time works on a unit, and every attempt has its outcome (S8, S15).

Spark runs a task again when its executor is lost, and twice at the same time when it seems slow.
All attempts share the run's lease, so the fencing number does not tell them apart. Each unit
therefore has its own lease, by the same code as the checkpoint's, with a holder for every
attempt. An attempt that finds the unit held waits: Spark takes the first attempt that ends, and
kills the others, so no attempt may end before there is an outcome. It then returns that outcome.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from statemaint.errors import LeaseHeldError, LeaseLostError, NotFoundError
from statemaint.execute.fence import and_then
from statemaint.execute.lease import Lease, leased
from statemaint.listing import Entry
from statemaint.records.claims import Holder
from statemaint.records.runs import UNITS, read_document, unit_folder, write_document
from statemaint.storage import ReadOnly, Storage
from statemaint.storage.base import Check, Chunks, Moved, Moves
from statemaint.workers import nothing

# How long a lost executor blocks the next attempt. A live attempt renews three times as often.
SECONDS = 30.0
_LOOK_AGAIN = 1.0

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class UnitClaim:
    """The claim of one unit of one run."""

    storage: Storage
    run: str
    unit: str
    seconds: float = SECONDS  # how long a claim lasts without being renewed
    pause: Callable[[float], object] = time.sleep  # before it looks again at another's unit
    # Whether rows are an outcome to store; otherwise the next attempt works again.
    counts: Callable[[Rows], bool] = lambda _: True

    @property
    def folder(self) -> str:
        return unit_folder(self.run, self.unit)

    def outcome(self) -> Rows | None:
        with suppress(NotFoundError, ValueError):
            rows: Rows = read_document(self.storage, f"{self.folder}/outcome.json")
            return rows
        return None

    def once(
        self, work: Callable[["LeaseGuardedStorage"], Rows], *, again: Check = nothing
    ) -> Rows:
        """Returns the outcome of a unit's work, which is done by one attempt at a time.

        `work` gets the storage to work on, which stops it once the unit is lost; the outcome is
        then the other attempt's. `again` precedes each further claim, to end one of an ended run.
        """
        outcome = self.outcome()
        while outcome is None:
            try:
                return self._alone(work)
            except LeaseHeldError:
                self.pause(_LOOK_AGAIN)
            except _UnitLostError:
                pass
            outcome = self.outcome()
            if outcome is None:
                again()
        return outcome

    def _alone(self, work: Callable[["LeaseGuardedStorage"], Rows]) -> Rows:
        place, holder = SubdirectoryStorage(self.storage, self.folder), Holder(self.unit)
        with leased(place, holder, seconds=self.seconds) as lease:
            if (outcome := self.outcome()) is not None:  # the attempt before has ended meanwhile
                return outcome
            try:
                rows = work(LeaseGuardedStorage(self.storage, lease))
                if self.counts(rows):
                    lease.must_hold()
                    write_document(self.storage, f"{self.folder}/outcome.json", rows)
            except LeaseLostError as error:
                try:
                    lease.must_hold()
                except LeaseLostError:
                    raise _UnitLostError from error
                raise  # it is the run's own lease that is lost
            return rows


class _UnitLostError(Exception):
    """Another attempt works on the unit now."""


def forget_units(storage: Storage, *, before: Check = nothing) -> None:
    paths = sorted(entry.path for entry in storage.list(UNITS))
    if paths:
        storage.delete_all(paths, before=before)
    before()  # another run's unit may be about to write into a folder that is still empty
    storage.delete_folders(UNITS)


class SubdirectoryStorage(ReadOnly):
    """A folder of a storage as a storage, with the methods that a lease needs."""

    def __init__(self, storage: Storage, folder: str) -> None:
        super().__init__(storage)
        self._folder = folder

    @property
    def root(self) -> str:
        return f"{self._storage.root}/{self._folder}"

    @property
    def exclusive(self) -> bool:
        return self._storage.exclusive

    def list(self, prefix: str) -> Iterator[Entry]:
        for entry in self._storage.list(self._path(prefix)):
            yield self._inside(entry)

    def folders(self, prefix: str) -> Iterator[str]:
        return self._storage.folders(self._path(prefix))

    def links(self, folder: str) -> Sequence[str]:
        links = self._storage.links(self._path(folder))
        return [link.removeprefix(f"{self._folder}/") for link in links]

    def stat(self, path: str) -> Entry:
        return self._inside(self._storage.stat(self._path(path)))

    def read(self, path: str) -> bytes:
        return self._storage.read(self._path(path))

    def write(
        self, path: str, chunks: Chunks, *, overwrite: bool = False, like: str | None = None
    ) -> Entry:
        del like
        return self._inside(self._storage.write(self._path(path), chunks, overwrite=overwrite))

    def delete(self, path: str) -> None:
        self._storage.delete(self._path(path))

    def _path(self, path: str) -> str:
        return f"{self._folder}/{path}"

    def _inside(self, entry: Entry) -> Entry:
        return replace(entry, path=entry.path.removeprefix(f"{self._folder}/"))


class LeaseGuardedStorage(ReadOnly):
    """A storage that refuses every change once a unit's lease is lost."""

    def __init__(self, storage: Storage, lease: Lease) -> None:
        super().__init__(storage)
        self._lease = lease

    @property
    def repeated(self) -> bool:
        return self._lease.number > 1

    @property
    def exclusive(self) -> bool:
        return self._storage.exclusive

    def write(
        self, path: str, chunks: Chunks, *, overwrite: bool = False, like: str | None = None
    ) -> Entry:
        checked = and_then(chunks, self._lease.check)
        return self._storage.write(path, checked, overwrite=overwrite, like=like)

    def replace(self, path: str, chunks: Chunks) -> None:
        self._storage.replace(path, and_then(chunks, self._lease.check))

    def append(self, path: str, lines: bytes) -> None:
        self._lease.check()
        self._storage.append(path, lines)

    def delete(self, path: str) -> None:
        self._lease.check()
        self._storage.delete(path)

    def delete_all(self, paths: Sequence[str], *, before: Check = nothing) -> None:
        self._lease.must_hold()
        self._storage.delete_all(paths, before=self._and_held(before))

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._lease.check()
        self._storage.move(path, to, like=like)

    def move_all(self, moves: Moves, *, before: Check = nothing, after: Moved = nothing) -> None:
        self._lease.must_hold()
        self._storage.move_all(moves, before=self._and_held(before), after=after)

    def _and_held(self, before: Check) -> Check:
        def check() -> None:
            before()
            self._lease.check()

        return check
