"""The restoring of files from a run's trash (S17): planned and carried out by the same code.

`plan_restore` decides about every file before any of them moves, and only reads. `restore` makes
that plan and carries it out.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statemaint.errors import (
    AlreadyExistsError,
    ConfigError,
    LeaseLostError,
    NotFoundError,
    StorageError,
    Superseded,
    UnreadableError,
)
from statemaint.execute.commits import Neighbours
from statemaint.listing import Entry
from statemaint.model.files import Delta, checksum_file_of, classify_any
from statemaint.plan.recovery.recovery_plan import PutBack, UndoPlan
from statemaint.records.manifest import Contents, contents, folder_of
from statemaint.scan.identity import check_inside
from statemaint.scan.proofs import crc32c_of, equal
from statemaint.storage import Storage
from statemaint.undo.checks import undo_refusals, units_of
from statemaint.undo.history import FileIdentity, read_history
from statemaint.undo.rollback_checks import check_rollback_undoable
from statemaint.workers import nothing

_log = logging.getLogger(__name__)
_OCCUPIED = "another file is in its place; remove that one first if this one is right"


def plan_restore(storage: Storage, run: str) -> UndoPlan:
    """Returns the plan of `restore`; writes nothing."""
    return _Undo(storage, run).plan


def restore(
    storage: Storage,
    run: str,
    *,
    check: Callable[[UndoPlan], None] = lambda _: None,
    note: Callable[[Sequence[Mapping[str, Any]]], None] = lambda _: None,
    before: Callable[[], object] = nothing,
) -> Iterator[PutBack]:
    """Restores the files of a run that still fit, the newest first; yields each when it is done.

    Safe to kill and to repeat. Files that no longer fit stay in the trash. For a rollback these are
    all files once the query has continued. For any other run they are: a file whose store's log was
    written again, a file whose place is taken by another one, a checksum without the file that it
    was made for, and a file that the readers of the files beside it might be unable to read. The
    last case is detected only when the file is moved.

    `check` is called with the plan before anything is written, `note` with the files to restore
    before the first is moved, `before` before each move; whatever they raise ends the work.

    Raises:
        ConfigError: when there is no trash of that run, or it was a rollback and the query has
            continued since.
        Superseded: when the file beside a restored one is missing.
        UnreadableError: when the query might be unable to read a file that a rollback moved away.
    """
    undo = _Undo(storage, run, before)
    check(undo.plan)
    if coming := undo.coming():
        note(coming)
    for planned in undo.plan.files:
        yield undo.put_back(planned)
    if not undo.left:
        undo.forget()


def must_be_in_trash(storage: Storage, run: str) -> None:
    """Makes sure that the trash holds files of a run."""
    if not any(True for _ in storage.list(folder_of(run))):
        raise ConfigError(
            f"{storage.root}: nothing of run {run!r} is in the trash; "
            "`statemaint runs` lists the runs and what can be undone"
        )


def _decide(
    storage: Storage, trash: Contents, reasons: Mapping[str, str], checksums: "_Checksums"
) -> Iterator[PutBack]:
    there, staying_paths = _places(storage, trash.files), set[str]()
    for entry in trash.newest_first():
        path = trash.path_of(entry)
        why = reasons.get(path) or checksums.against(entry, path, staying_paths)
        if not why and path in there and not equal(storage, entry.path, path):
            why = _OCCUPIED
        if why:
            staying_paths.add(path)
        yield PutBack(path, entry, why or "")


def _places(storage: Storage, paths: Iterable[str]) -> frozenset[str]:
    """Returns the paths of all files in the folders of some; each folder is listed once."""
    present, listed = set[str](), ""
    folders = {path.rpartition("/")[0] for path in paths}
    for folder in sorted(folders):
        if listed and folder.startswith(f"{listed}/"):
            continue  # a listing includes the folders below
        entries = list(storage.list(folder))
        check_inside(entry for entry in entries if entry.path.rpartition("/")[0] in folders)
        present.update(entry.path for entry in entries)
        listed = folder
    return frozenset(present)


@dataclass(frozen=True, slots=True)
class _Checksums:
    """The checksum files of a run's trash, beside the files that exist now."""

    storage: Storage
    trash: Contents
    same: FileIdentity
    reasons: Mapping[str, str]

    def against(self, entry: Entry, path: str, left: Collection[str]) -> str | None:
        """Returns why a checksum file would not be beside the file that it was made for.

        Spark refuses to load a file that is beside the checksum of another one.
        """
        file = checksum_file_of(Entry(path, entry.size, entry.modified))
        if file is None:
            return None
        if file.owner in self.trash.notes or file.owner in self.trash.files:
            stays = file.owner in left or file.owner in self.reasons
            return f"{file.owner} stays in the trash" if stays else None
        # A checksum that was alone already would end up beside a file that it was not made for.
        note = self.trash.notes.get(path)
        if note is None or note.beside is None:
            return f"it was not made for the {file.owner} of today"
        try:
            beside = self.storage.stat(file.owner)
        except NotFoundError:
            return f"{file.owner}, which it was made for, is missing"
        same = self.same(note.beside, beside)
        return None if same else f"{file.owner}, which it was beside, was written again"


class _Undo:
    """The plan for one run's trash, and its restoring.

    Attributes:
        left: the old paths of the files that stay, as far as they were tried.
    """

    def __init__(self, storage: Storage, run: str, before: Callable[[], object] = nothing) -> None:
        must_be_in_trash(storage, run)
        self._storage, self._before = storage, before
        self._trash = trash = contents(storage, run)
        history = read_history(storage, run, units_of(trash.files))
        check_rollback_undoable(storage, trash, history)
        reasons = {} if trash.of_rollback else undo_refusals(storage, trash, history)
        same = FileIdentity(storage, trash, history)
        self._checksums = _Checksums(storage, trash, same, reasons)
        files = tuple(_decide(storage, trash, reasons, self._checksums))
        self.plan = UndoPlan(storage.root, run, trash.verb, files, trash.newest_batch)
        self._beside = Neighbours(storage)
        self.left = set[str]()

    def coming(self) -> list[dict[str, Any]]:
        """Returns the ledger's notes of the files to restore.

        If a move gives a file another time, the checksum of its bytes is also noted where another
        undo must recognize it: of changes, and of zips, which are the log of some stores.
        """
        coming = sorted(self.plan.coming, key=lambda planned: planned.path)
        return [self._noted(planned.path, planned.entry) for planned in coming]

    def _noted(self, path: str, entry: Entry) -> dict[str, Any]:
        note = self._trash.notes.get(path)
        seen = note.seen.entry if note else Entry(path, entry.size, None)
        fields = {"path": path, "bytes": entry.size, "modified": seen.modified}
        file = classify_any(Entry(path, entry.size, None))
        of_log = isinstance(file, Delta) or path.endswith(".zip")
        if of_log and not _kept_its_time(seen, entry):
            fields["crc32c"] = crc32c_of(self._storage, entry.path)
        return fields

    def put_back(self, planned: PutBack) -> PutBack:
        """Moves one file to its old place, unless it no longer fits there."""
        path, entry = planned.path, planned.entry
        # A file to restore may have turned out not to be readable: then its checksum stays too.
        reason = planned.reason or self._checksums.against(entry, path, self.left)
        if reason := reason or self._move_back(entry, path):
            self.left.add(path)
        return replace(planned, reason=reason or "")

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
            if self._trash.of_rollback:  # as a whole or not at all
                raise
            return error.detail
        except NotFoundError as error:
            if error.path == like:
                raise Superseded(
                    error.path, "existed when this undo began and is missing"
                ) from error
        return None  # or another undo moved it first

    def forget(self) -> None:
        """Deletes the manifests, once all files are in place; a failure is only logged."""
        try:
            self._storage.delete_all(
                [one.path for one in self._trash.manifests], before=self._before
            )
        except (StorageError, LeaseLostError) as error:
            _log.warning(
                "run %s is undone, and its manifests stay in the trash until they expire: %s",
                self._trash.run, error,
            )  # fmt: skip


def _kept_its_time(seen: Entry, moved: Entry) -> bool:
    """Returns whether a move has kept a file's time.

    Equal times in whole seconds do not show it: a bucket may have copied the file within the second
    in which it was written.
    """
    known = seen.modified is not None and seen.modified % 1 != 0
    return known and seen.modified == moved.modified
