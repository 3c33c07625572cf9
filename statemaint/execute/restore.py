"""The way of files back from a run's trash (S17): planned, and carried out by the same code.

`plan_restore` decides about every file before any of them moves, and only reads. `restore` makes
that plan and carries it out.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemaint.errors import (
    AlreadyExistsError,
    ConfigError,
    NotFoundError,
    Superseded,
    UnreadableError,
)
from statemaint.execute.deeds import read_deeds
from statemaint.execute.fit import staying, units_of
from statemaint.execute.fit_rollback import must_fit
from statemaint.execute.manifest import Contents, contents, folder_of
from statemaint.execute.neighbours import Neighbours
from statemaint.execute.same import Same, equal
from statemaint.execute.world import fingerprint
from statemaint.listing import Entry
from statemaint.model.files import Delta, checksum_file_of, classify_any
from statemaint.plan import PutBack, UndoPlan
from statemaint.storage import Storage

_OCCUPIED = "another file is in its place; remove that one first if this one is right"


@dataclass(frozen=True, slots=True)
class Restored:
    """A file that an undo considered.

    Attributes:
        path: its old path.
        bytes: its size.
        reason: why it stays in the trash; empty where it is in its place now.
    """

    path: str
    bytes: int
    reason: str = ""

    @property
    def in_place(self) -> bool:
        """Returns whether it is in its place now."""
        return not self.reason


def plan_restore(storage: Storage, run: str, *, ended: bool = True) -> UndoPlan:
    """Returns what `restore` would do; writes nothing.

    Args:
        storage: where the checkpoint lives.
        run: the run.
        ended: whether it completed, rather than being killed.

    Raises:
        ConfigError: when there is no trash of that run, or it was a rollback and the query has
            continued since.
        StorageError: when the storage fails.
    """
    return _decided(storage, run, ended=ended).plan


def restore(
    storage: Storage,
    run: str,
    *,
    ended: bool = True,
    check: Callable[[UndoPlan], None] = lambda _: None,
    note: Callable[[Sequence[Mapping[str, Any]]], None] = lambda _: None,
    before: Callable[[], object] = lambda: None,
) -> Iterator[Restored]:
    """Puts back the files of a run that still fit, the newest first; yields each when it is done.

    Safe to kill and to repeat. Files that no longer fit stay in the trash. Of a rollback these are
    all files once the query has continued. Of any other run they are: a file whose store's log was
    written again, a file whose place is taken by another one, a checksum without the file that it
    was made for, and a file that the readers of the files beside it might be unable to read. The
    last one shows only when it is moved.

    Args:
        storage: where the checkpoint lives.
        run: the run.
        ended: whether it completed, rather than being killed.
        check: called with the plan before anything is written; whatever it raises ends the work.
        note: called with the files that come back before the first is moved.
        before: called before each move; whatever it raises ends the work.

    Raises:
        ConfigError: when there is no trash of that run, or it was a rollback and the query has
            continued since.
        Superseded: when the file beside which one is put is missing.
        UnreadableError: when the query might be unable to read a file that a rollback moved away.
        StorageError: when the storage fails.
    """
    decided = _decided(storage, run, ended=ended)
    check(decided.plan)
    undo = _Undo(storage, decided, before)
    if coming := undo.coming():
        note(coming)
    for one in decided.plan.files:
        yield undo.put_back(one)
    if not undo.left:
        storage.delete_all([one.path for one in decided.found.manifests], before=before)


def must_be_in_trash(storage: Storage, run: str) -> None:
    """Makes sure that the trash holds something of a run.

    Raises:
        ConfigError: when it does not.
        StorageError: when the storage fails.
    """
    if not any(True for _ in storage.list(folder_of(run))):
        raise ConfigError(
            f"{storage.root}: nothing of run {run!r} is in the trash; "
            "`statemaint runs` lists the runs and what can be undone"
        )


@dataclass(frozen=True, slots=True)
class _Decided:
    """The plan of an undo, and what it was made from."""

    plan: UndoPlan
    found: Contents
    checksums: "_Checksums"


def _decided(storage: Storage, run: str, *, ended: bool) -> _Decided:
    must_be_in_trash(storage, run)
    found = contents(storage, run)
    deeds = read_deeds(storage, run, units_of(found.files))
    must_fit(storage, found, deeds, ended=ended)
    reasons = {} if found.of_rollback else staying(storage, found, deeds, ended=ended)
    checksums = _Checksums(storage, found, Same(storage, found, deeds), reasons)
    files = tuple(_decide(storage, found, reasons, checksums))
    return _Decided(UndoPlan(storage.root, run, found.of_rollback, files), found, checksums)


def _decide(
    storage: Storage, found: Contents, reasons: Mapping[str, str], checksums: "_Checksums"
) -> Iterator[PutBack]:
    """Yields the decision about each file, a file before its checksum."""
    there, left = _places(storage, found.files), set[str]()
    for entry in found.newest_first():
        path = found.path_of(entry)
        why = reasons.get(path) or checksums.against(entry, path, left)
        if not why and path in there and not equal(storage, entry.path, path):
            why = _OCCUPIED
        if why:
            left.add(path)
        yield PutBack(path, entry, why or "")


def _places(storage: Storage, paths: Iterable[str]) -> frozenset[str]:
    """Returns the paths of all files in the folders of some; each folder is listed once."""
    found, listed = set[str](), ""
    for folder in sorted({path.rpartition("/")[0] for path in paths}):
        if listed and folder.startswith(f"{listed}/"):
            continue  # a listing has what lies below as well
        found.update(entry.path for entry in storage.list(folder))
        listed = folder
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Checksums:
    """The checksum files of a run's trash, beside the files that are there today."""

    storage: Storage
    found: Contents
    same: Same
    reasons: Mapping[str, str]

    def against(self, entry: Entry, path: str, left: Collection[str]) -> str | None:
        """Returns why a checksum file would not be beside the file that it was made for.

        Spark refuses to load a file that is beside the checksum of another one.

        Args:
            entry: any file in the trash.
            path: its old path.
            left: the old paths of the files before it that stay in the trash.
        """
        file = checksum_file_of(Entry(path, entry.size, entry.modified))
        if file is None:
            return None
        if file.owner in self.found.notes or file.owner in self.found.files:
            stays = file.owner in left or file.owner in self.reasons
            return f"{file.owner} stays in the trash" if stays else None
        # A checksum that was alone already would end up beside a file that it was not made for.
        note = self.found.notes.get(path)
        if note is None or note.beside is None:
            return f"it was not made for the {file.owner} of today"
        try:
            beside = self.storage.stat(file.owner)
        except NotFoundError:
            return f"{file.owner}, which it was made for, is gone"
        same = self.same(note.beside, beside)
        return None if same else f"{file.owner}, which it was beside, was written again"


class _Undo:
    """One run's trash while it is put back; `left` are the old paths of the files that stay."""

    def __init__(self, storage: Storage, decided: _Decided, before: Callable[[], object]) -> None:
        self._storage, self._found, self._plan = storage, decided.found, decided.plan
        self._checksums, self._before = decided.checksums, before
        self._beside = Neighbours(storage)
        self.left = set[str]()

    def coming(self) -> list[dict[str, Any]]:
        """Returns the ledger's notes of the files that come back.

        Where a move gives a file another time, the checksum of a change's bytes is noted as well,
        so that another undo recognizes it.
        """
        return [self._noted(one.path, one.entry) for one in sorted(self._plan.coming, key=_path)]

    def _noted(self, path: str, entry: Entry) -> dict[str, Any]:
        note = self._found.notes.get(path)
        before = note.seen.entry.modified if note else None
        fields = {"path": path, "bytes": entry.size, "modified": before}
        change = isinstance(classify_any(Entry(path, entry.size, None)), Delta)
        if change and before != entry.modified:
            fields["crc32c"] = fingerprint(self._storage, entry.path)
        return fields

    def put_back(self, planned: PutBack) -> Restored:
        """Moves one file to its old place, unless it no longer fits there."""
        path, entry = planned.path, planned.entry
        # A file that was to come back may have turned out not to be readable: then its checksum
        # stays as well.
        reason = planned.reason or self._checksums.against(entry, path, self.left)
        if reason := reason or self._move_back(entry, path):
            self.left.add(path)
        return Restored(path, entry.size, reason or "")

    def _move_back(self, entry: Entry, path: str) -> str | None:
        """Moves one file to its old place, or returns why it stays in the trash."""
        like = self._beside.of(path)  # may take requests, which must precede `before`
        self._before()
        try:
            self._storage.move(entry.path, path, like=like)
        except AlreadyExistsError:
            if not equal(self._storage, entry.path, path):
                return _OCCUPIED
            self._before()
            self._storage.delete(entry.path)  # cut short between the two steps of a move
        except UnreadableError as error:
            if self._found.of_rollback:  # as a whole or not at all
                raise
            return error.detail
        except NotFoundError as error:
            if error.path == like:
                raise Superseded(
                    error.path, "was there when this undo began and is gone"
                ) from error
        return None  # or another undo moved it first


def _path(one: PutBack) -> str:
    return one.path
