"""Brings back the files that a run deleted (S17), immediately or by a reviewed plan (S14)."""

import logging
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from statemaint.errors import (
    AlreadyExistsError,
    CheckpointError,
    ConfigError,
    LeaseLostError,
    NotFoundError,
    StatemaintError,
    StorageError,
    Superseded,
    UnreadableError,
)
from statemaint.execute.fence import Fence, Neighbours, must_stand, newest_commit
from statemaint.execute.lease import leased
from statemaint.execute.ledger import Ledger
from statemaint.listing import Entry
from statemaint.model.files import Delta, checksum_file_of, classify_any
from statemaint.model.ids import run_folder
from statemaint.plan.recovery.recovery_plan import PutBack, UndoPlan
from statemaint.progress import watched_results
from statemaint.records.claims import Holder
from statemaint.records.manifest import contents, folder_of
from statemaint.records.runs import RunNote, new_run_id, write_note
from statemaint.records.trashed import forget_trashed
from statemaint.report.facts import RunFacts
from statemaint.report.to_json import undo_fingerprint
from statemaint.scan.identity import check_inside, must_be_checkpoint
from statemaint.scan.proofs import crc32c_of, equal
from statemaint.storage import ReadOnly, Storage
from statemaint.storage.base import Check
from statemaint.undo.checks import undo_refusals, units_of
from statemaint.undo.history import FileIdentity, read_history
from statemaint.undo.rollback_checks import check_rollback_undoable
from statemaint.wording import Displayed, counted
from statemaint.workers import nothing

_log = logging.getLogger(__name__)
_OCCUPIED = "another file is in its place; remove that one first if this one is right"


@dataclass(frozen=True, slots=True, repr=False)
class Undone(Displayed):
    """The result of an undo."""

    run: str
    files: int  # the number of files that are in place again
    bytes: int
    left: Mapping[str, str] = field(default_factory=dict)  # paths in the trash, and why they stay
    undo: str = ""  # the id under which this undo is recorded
    sequel: str = ""  # what follows, as `UndoPlan.sequel` has it; empty if no file came back

    def _facts(self) -> Iterator[str]:
        yield f"run {self.run}"
        yield f"{counted(self.files, 'file')} back"
        yield f"{len(self.left):,} left in the trash"

    def _rows(self) -> Iterator[dict[str, object]]:
        return ({"path": path, "why it stays": why} for path, why in self.left.items())

    @property
    def record_id(self) -> str:
        return self.undo

    @property
    def incomplete(self) -> bool:
        return bool(self.left)

    @property
    def work(self) -> RunFacts:
        return RunFacts()


def plan_undo(storage: Storage, run: str) -> UndoPlan:
    """Returns the files that an undo would bring back, and why the others stay; writes nothing."""
    reading = ReadOnly(storage)
    must_be_checkpoint(reading)
    return _Undo(reading, run).plan


def undo(storage: Storage, run: str, *, expected: str | None = None) -> Undone:
    """Puts back, byte for byte, the files that a run moved to the trash and that still fit.

    A file of maintenance or of a repair fits as long as the log of its store was not written again
    at or below its version. The files of a rollback fit as long as the query has not continued, and
    come back as a whole or not at all. The next maintenance deletes the files of an earlier one
    again unless its policy keeps more than the one that deleted them.

    Safe to kill and to repeat.

    Args:
        storage: where the checkpoint lives.
        run: the id of the run, as `statemaint runs` lists it.
        expected: the fingerprint of the plan that was reviewed; `None` for any.

    Raises:
        NotACheckpointError: when there is none.
        ConfigError: when nothing of that run is in the trash, or it was a rollback and the query
            has continued since.
        LeaseHeldError: when another run maintains the checkpoint.
        Superseded: when the plan has changed by now, the query was rewound before the first file
            came back, or it has removed the file beside which another was to be restored.
        StorageError: when the storage fails.
    """
    must_be_checkpoint(storage)
    _must_be_in_trash(storage, run)  # before anything is written for it
    if expected is not None:
        _must_be_expected(plan_undo(storage, run), expected)
    mine, started = new_run_id(storage.now()), storage.now()
    restored: list[PutBack] = []
    with leased(storage, Holder(mine)) as lease:
        forget_trashed(storage, run)
        noted = partial(_note, storage, mine, lease, of=run, started=started)
        commit = newest_commit(storage)
        undoing = _Undo(storage, run, lease.check)
        if expected is not None:
            _must_be_expected(undoing.plan, expected)
        try:
            if coming := undoing.coming():
                Ledger(storage, mine, lease).restoring(run, coming)
                noted(files=None)
                must_stand(storage, commit)
            files = len(undoing.plan.files)
            # After an error it has the files that came back before.
            restored.extend(watched_results(undoing.put_back(), files, "file"))
        except StatemaintError as error:
            if back := sum(file.comes_back for file in restored):
                noted(files=restored, exit_code=error.exit_code)
                there = f"{counted(back, 'file')} {'is' if back == 1 else 'are'} in place again"
                error.add_note(f"{there}, and another undo of the run goes on")
            raise
        if coming or not restored:
            noted(files=restored)  # where nothing was to come back, nothing has changed
    done = replace(undoing.plan, files=tuple(restored))
    return Undone(run, len(done.coming), done.bytes, done.left, mine, undoing.plan.sequel)


def _must_be_in_trash(storage: Storage, run: str) -> None:
    if not any(True for _ in storage.list(folder_of(run))):
        raise ConfigError(
            f"{storage.root}: nothing of run {run!r} is in the trash; "
            "`statemaint runs` lists the runs and what can be undone"
        )


def _must_be_expected(plan: UndoPlan, expected: str) -> None:
    if undo_fingerprint(plan) != expected:
        why = f"the undo of run {plan.run} has changed since it was planned"
        raise Superseded(plan.root, why)


def _note(  # noqa: PLR0913 -- each is a fact of its own
    storage: Storage,
    run: str,
    fence: Fence,
    *,
    of: str,
    started: float,
    files: Sequence[PutBack] | None,
    exit_code: int | None = None,
) -> None:
    """Records an undo: with `None` when it begins, so that a killed one is also among the runs."""
    back = [file for file in files or () if file.comes_back]
    left = len(files or ()) - len(back)
    if exit_code is None:
        failed = StatemaintError if files is None else CheckpointError
        exit_code = failed.exit_code if left or files is None else 0
    note = replace(
        RunNote.of_nothing(storage, started, fence.number, exit_code),
        undo_of=run_folder(of),
        files_restored=len(back),
        bytes_restored=sum(file.entry.size for file in back),
        files_left=left,
    )
    write_note(storage, run, "undo", note)


class _Undo:
    """The plan for one run's trash, and its restoring; `before` is called before each move."""

    def __init__(self, storage: Storage, run: str, before: Check = nothing) -> None:
        _must_be_in_trash(storage, run)
        self._storage, self._before = storage, before
        self._trash = trash = contents(storage, run)
        history = read_history(storage, run, units_of(trash.files))
        check_rollback_undoable(storage, trash, history)
        self._reasons = {} if trash.of_rollback else undo_refusals(storage, trash, history)
        self._same = FileIdentity(storage, trash, history)
        self._beside = Neighbours(storage)
        files = tuple(self._decide())
        self.plan = UndoPlan(storage.root, run, trash.verb, files, trash.newest_batch)

    def _decide(self) -> Iterator[PutBack]:
        there, left = _places(self._storage, self._trash.files), set[str]()
        for entry in self._trash.newest_first():
            path = self._trash.path_of(entry)
            why = self._reasons.get(path) or self._against_checksum(entry, path, left)
            if not why and path in there and not equal(self._storage, entry.path, path):
                why = _OCCUPIED
            if why:
                left.add(path)
            yield PutBack(path, entry, why or "")

    def _against_checksum(self, entry: Entry, path: str, left: Collection[str]) -> str | None:
        """Returns why a checksum would not be beside its file, which Spark refuses to load then.

        `left` are the old paths of the files that stay, as far as they were tried.
        """
        file = checksum_file_of(Entry(path, entry.size, entry.modified))
        if file is None:
            return None
        if file.owner in self._trash.notes or file.owner in self._trash.files:
            stays = file.owner in left or file.owner in self._reasons
            return f"{file.owner} stays in the trash" if stays else None
        # A checksum that was alone already would end up beside a file that it was not made for.
        note = self._trash.notes.get(path)
        if note is None or note.beside is None:
            return f"it was not made for the {file.owner} of today"
        try:
            beside = self._storage.stat(file.owner)
        except NotFoundError:
            return f"{file.owner}, which it was made for, is missing"
        same = self._same(note.beside, beside)
        return None if same else f"{file.owner}, which it was beside, was written again"

    def coming(self) -> list[dict[str, Any]]:
        """Returns the ledger's notes of the files to restore.

        If a move gives a file another time, another undo recognizes changes, and zips, which are
        the log of some stores, by the checksum of their bytes.
        """
        coming = []
        for planned in sorted(self.plan.coming, key=lambda planned: planned.path):
            path, entry, note = planned.path, planned.entry, self._trash.notes.get(planned.path)
            modified = note.seen.modified if note else None
            fields = {"path": path, "bytes": entry.size, "modified": modified}
            # Equal times in whole seconds do not show that the move has kept it: a bucket may have
            # copied the file within the second in which it was written.
            kept = modified is not None and modified % 1 != 0 and modified == entry.modified
            change = isinstance(classify_any(Entry(path, entry.size, None)), Delta)
            if not kept and (change or path.endswith(".zip")):
                fields["crc32c"] = crc32c_of(self._storage, entry.path)
            coming.append(fields)
        return coming

    def put_back(self) -> Generator[PutBack]:
        left = set[str]()
        for planned in self.plan.files:
            path, entry = planned.path, planned.entry
            # A file to restore may have turned out not to be readable: then its checksum stays too.
            reason = planned.reason or self._against_checksum(entry, path, left)
            if reason := reason or self._move_back(entry, path):
                left.add(path)
            yield replace(planned, reason=reason or "")
        if left:
            return
        manifests = [entry.path for entry in self._trash.manifests]
        try:
            self._storage.delete_all(manifests, before=self._before)
        except (StorageError, LeaseLostError) as error:
            _log.warning(
                "run %s is undone, and its manifests stay in the trash until they expire: %s",
                self._trash.run, error,
            )  # fmt: skip

    def _move_back(self, entry: Entry, path: str) -> str | None:
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
                why = "existed when this undo began and is missing"
                raise Superseded(error.path, why) from error
        return None  # or another undo moved it first


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
