"""The runs that changed a checkpoint: their notes, the list of them, and the actions of each."""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from statemaint.errors import CodecError, StatemaintError, StorageError
from statemaint.execute.fence import Fence
from statemaint.model.ids import run_folder
from statemaint.plan.actions import Request
from statemaint.records.runs import FOLDER, RunNote, note_path, read_notes, write_note
from statemaint.records.segments import in_order, ledgers, read_ledger
from statemaint.records.trashed import size_in_trash, trashed_runs
from statemaint.report.outcome import Halted, Skipped
from statemaint.report.run import Report
from statemaint.report.to_json import fields_json
from statemaint.scan.identity import must_be_checkpoint
from statemaint.storage import Storage
from statemaint.wording import Displayed, counted, moment

_WHOLE = "whole-run"
_DONE = ("snapshots_written", "files_deleted", "bytes_written", "bytes_deleted")
_RESTORED = ("files_restored", "bytes_restored")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Undoing:
    """One undo of a run.

    Attributes:
        run: the id of the undo, which is a run of its own.
        time: when it ended, in seconds since the epoch by the storage's clock.
        files: the number of files that it brought back.
        left: the number that it left in the trash.
    """

    run: str
    time: float
    files: int
    left: int


@dataclass(frozen=True, slots=True, repr=False)
class Run(Displayed):
    """One run, all of its tasks together.

    Attributes:
        started: when its first task began, in seconds since the epoch by the storage's clock.
        seconds: from then until its last task ended.
        tasks: the number of tasks that changed something; 0 for a run that could not record itself.
            What such a run did is counted in the ledger and in its trash.
        exit_code: the worst exit code of its tasks, those that changed nothing included.
        in_trash: whether any file that it deleted is still in the trash.
        undo_of: the run that it undid; `None` if it was not an undo.
        files_restored: the number of files that it brought back; `bytes_restored` are theirs.
        undone: each undo of this run, the oldest first.
        batch: the batch that it committed with a caller's rows; `None` if it was not a `bootstrap`.
    """

    run: str
    started: float
    seconds: float
    tasks: int
    snapshots_written: int
    files_deleted: int
    bytes_written: int
    bytes_deleted: int
    exit_code: int
    in_trash: bool
    undo_of: str | None = None
    files_restored: int = 0
    bytes_restored: int = 0
    undone: tuple[Undoing, ...] = ()
    batch: int | None = None

    def _facts(self) -> Iterator[str]:
        yield self.run
        yield moment(self.started)
        yield f"{counted(self.snapshots_written, 'snapshot')} written"
        yield f"{counted(self.files_deleted, 'file')} deleted"


def list_runs(storage: Storage, *, most: int | None = None) -> tuple[Run, ...]:
    """Returns the runs that changed a checkpoint, the newest first.

    Args:
        storage: where the checkpoint lives.
        most: the number of the newest runs that are read; all by default. With a number, older runs
            that are only known from the trash are left out.

    Raises:
        NotACheckpointError: when there is neither a run nor a checkpoint.
        StorageError: when anything could not be listed or read.
    """
    notes = read_notes(storage, most)
    trashed, undone = trashed_runs(storage), _undone(notes)
    runs = [
        _run(run, tasks, in_trash=run in trashed, undone=undone[run])
        for run, tasks in notes.items()
    ]
    runs += [
        _cut_short(storage, run, since, undone[run])
        for run, since in trashed.items()
        if run not in notes and most is None
    ]
    if not runs:
        must_be_checkpoint(storage)
    return tuple(sorted(runs, key=lambda listed: (listed.started, listed.run), reverse=True))


def _undone(notes: Mapping[str, Iterable[RunNote]]) -> Mapping[str, tuple[Undoing, ...]]:
    undone: dict[str, tuple[Undoing, ...]] = defaultdict(tuple)
    tasks = [(note.ended, run, note) for run, of_run in notes.items() for note in of_run]
    for ended, run, note in sorted(tasks, key=itemgetter(0, 1)):
        if note.undo_of is not None:
            undone[note.undo_of] += (Undoing(run, ended, note.files_restored, note.files_left),)
    return undone


def list_actions(storage: Storage, run: str) -> tuple[Mapping[str, Any], ...]:
    """Returns the actions of a run in the order in which the ledger recorded them.

    The ledger keeps what later runs need; it may have merged lines of an old run.
    """
    folder = run_folder(run)
    lines = [line for ledger in sorted(ledgers(storage)) for line in read_ledger(storage, ledger)]
    return tuple(line.fields for line in in_order(lines) if line.run == folder)


def _cut_short(storage: Storage, run: str, since: float, undone: tuple[Undoing, ...]) -> Run:
    """Returns a run that could not record itself, as one that was killed or had a full disk.

    Its trash shows what it moved there, and the ledger what it wrote; it can still be undone.
    """
    lines = (line for line in list_actions(storage, run) if line.get("action") == "write_snapshot")
    written = {line.get("path"): line.get("bytes") for line in lines}
    files, size = size_in_trash(storage, run)
    return Run(
        run=run,
        started=since,
        seconds=0.0,
        tasks=0,
        snapshots_written=len(written),
        files_deleted=files,
        bytes_written=sum(length for length in written.values() if isinstance(length, int)),
        bytes_deleted=size,
        exit_code=StatemaintError.exit_code,
        in_trash=True,
        undone=undone,
    )


def _run(run: str, tasks: Iterable[RunNote], *, in_trash: bool, undone: tuple[Undoing, ...]) -> Run:
    notes = list(tasks)
    started = min(note.started for note in notes)
    return Run(
        run=run,
        started=started,
        seconds=max(note.ended for note in notes) - started,
        tasks=sum(not note.of_whole for note in notes),
        exit_code=max(note.exit_code for note in notes),
        in_trash=in_trash,
        undo_of=next((note.undo_of for note in notes if note.undo_of is not None), None),
        undone=undone,
        batch=next((note.batch for note in notes if note.batch is not None), None),
        **{name: sum(getattr(note, name) for note in notes) for name in (*_DONE, *_RESTORED)},
    )


def note_run(storage: Storage, report: Report, fence: Fence, *, first: bool = False) -> None:
    """Records a run, or a task of one, if it changed anything; a storage failure is only logged.

    A task that is repeated adds to what its earlier attempts did, unless this is the first one.
    """
    outcomes = [outcome for store in report.stores for outcome in store.outcomes]
    if all(isinstance(outcome, Halted | Skipped) for outcome in outcomes):
        return
    note = RunNote(
        started=report.started,
        ended=report.started + report.seconds,
        fence=fence.number,
        files_deleted=report.files_deleted.total(),
        **fields_json(report, "snapshots_written bytes_written bytes_deleted exit_code"),
    )
    task = _task(report.plan.request)
    note = note if first else _with_earlier(storage, report.run, task, note)
    write_note(storage, report.run, task, note)


def note_end(storage: Storage, run: str, fence: Fence, exit_code: int) -> None:
    """Records the exit code of a whole run if a task of it is recorded; failures are only logged.

    A run without failure is not recorded again, unless an earlier end of it was.
    """
    try:
        names = {entry.name for entry in storage.list(f"{FOLDER}/{run_folder(run)}")}
    except StorageError as error:
        _log.warning("the run's exit code is not recorded: %s", error)
        return
    if names and (exit_code or f"{_WHOLE}.json" in names):
        note = RunNote.of_nothing(storage, storage.now(), fence.number, exit_code)
        write_note(storage, run, _WHOLE, replace(note, of_whole=True))


def _with_earlier(storage: Storage, run: str, task: str, note: RunNote) -> RunNote:
    try:
        earlier = json.loads(storage.read(note_path(run, task)))
        sums = {name: getattr(note, name) + int(earlier[name]) for name in _DONE}
        return replace(note, started=min(note.started, float(earlier["started"])), **sums)
    except (StorageError, CodecError, KeyError, TypeError, ValueError, OverflowError):
        return note  # there is none


def _task(request: Request) -> str:
    parts = [
        "-".join(str(id_) for id_ in sorted(ids)[:3]) + (f"+{len(ids) - 3}" * (len(ids) > 3))  # noqa: PLR2004
        for ids in (request.operators, request.partitions, request.stores)
        if ids
    ]
    return "_".join(parts) or "all"
