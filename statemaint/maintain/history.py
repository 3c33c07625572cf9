"""The runs that changed a checkpoint, as each recorded itself.

_statemaint/runs/<run>/<task>.json     one file for each task of a run, once it has ended

The newest runs are remembered, as are those whose trash is kept, and all runs younger than these.
"""

import json
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from statemaint.errors import (
    CheckpointError,
    CodecError,
    NotFoundError,
    StatemaintError,
    StorageError,
)
from statemaint.execute import Fence, RememberedRuns, Restored, trashed_runs
from statemaint.listing import LATEST, Entry
from statemaint.model.ids import run_folder
from statemaint.plan import Remove, Request
from statemaint.report import Halted, Report, Skipped, SnapshotWritten
from statemaint.scan import must_be_checkpoint
from statemaint.storage import Storage

FOLDER = "_statemaint/runs"
# The number of runs that are remembered regardless of their age.
MOST_RUNS = 100

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """The note of one task of a run; times are by the storage's clock.

    Notes of earlier builds lack `undo_of` and the fields after it: they do not record an undo.
    """

    started: float
    ended: float
    fence: int
    snapshots_written: int
    files_deleted: int
    bytes_written: int
    bytes_deleted: int
    exit_code: int
    undo_of: str | None = None
    files_restored: int = 0
    bytes_restored: int = 0
    files_left: int = 0


@dataclass(frozen=True, slots=True)
class Undoing:
    """One undo of a run.

    Attributes:
        run: the id of the undo, which is also a run.
        time: when it ended, in seconds since the epoch by the storage's clock.
        files: the number of files that it brought back.
        left: the number that it left in the trash.
    """

    run: str
    time: float
    files: int
    left: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run, all of its tasks together.

    Attributes:
        run: its id.
        started: when its first task began, in seconds since the epoch by the storage's clock.
        seconds: from then until its last task ended.
        tasks: the number of tasks that changed something.
        snapshots_written: by all tasks.
        files_deleted: by all tasks.
        bytes_written: by all tasks.
        bytes_deleted: by all tasks.
        exit_code: the worst exit code of its tasks.
        in_trash: whether any file that it deleted is still in the trash.
        undo_of: the run that it undid; `None` if it was not an undo.
        files_restored: the number of files that it brought back.
        bytes_restored: the bytes of these files.
        undone: each undo of this run, the oldest first.
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


def note_run(storage: Storage, report: Report, fence: Fence) -> None:
    """Records a run, or a task of one, if it changed anything; a storage failure is only logged."""
    outcomes = [one for store in report.stores for one in store.outcomes]
    if all(isinstance(one, Halted | Skipped) for one in outcomes):
        return
    note = _Note(
        started=report.started,
        ended=report.started + report.seconds,
        fence=fence.number,
        snapshots_written=report.snapshots_written,
        files_deleted=report.files_deleted.total(),
        bytes_written=report.bytes_written,
        bytes_deleted=report.bytes_deleted,
        exit_code=report.exit_code,
    )
    _write(storage, report.run, _task(report.plan.request), note)


def note_recovery(
    storage: Storage,
    run: str,
    fence: Fence,
    *,
    started: float,
    removed: Sequence[Remove],
    written: Sequence[SnapshotWritten],
) -> None:
    """Records a repair or a rollback; a storage failure is only logged."""
    note = _Note(
        started=started,
        ended=storage.now(),
        fence=fence.number,
        snapshots_written=len(written),
        files_deleted=len(removed),
        bytes_written=sum(one.bytes for one in written),
        bytes_deleted=sum(one.entry.size for one in removed),
        exit_code=0,
    )
    _write(storage, run, "mend", note)


def note_undo(
    storage: Storage,
    run: str,
    fence: Fence,
    *,
    of: str,
    started: float,
    files: Sequence[Restored] | None,
) -> None:
    """Records an undo, which is a run like any other; a storage failure is only logged.

    It is recorded with `None` when it begins, so that a killed undo is among the runs as well.
    """
    back = [one for one in files or () if one.in_place]
    left = len(files or ()) - len(back)
    ended = CheckpointError.exit_code if left else 0
    note = _Note(
        started=started,
        ended=storage.now(),
        fence=fence.number,
        snapshots_written=0,
        files_deleted=0,
        bytes_written=0,
        bytes_deleted=0,
        exit_code=StatemaintError.exit_code if files is None else ended,
        undo_of=run_folder(of),
        files_restored=len(back),
        bytes_restored=sum(one.bytes for one in back),
        files_left=left,
    )
    _write(storage, run, "undo", note)


def has_ended(storage: Storage, run: str) -> bool:
    """Returns whether a run recorded itself, which is its last step.

    Raises:
        StorageError: when the storage fails.
    """
    return any(True for _ in storage.list(f"{FOLDER}/{run_folder(run)}"))


def _write(storage: Storage, run: str, task: str, note: _Note) -> None:
    path = f"{FOLDER}/{run_folder(run)}/{run_folder(task)}.json"
    try:
        storage.replace(path, [json.dumps(asdict(note)).encode() + b"\n"])
    except StorageError as error:
        _log.warning("the run is not recorded: %s", error)


def _task(request: Request) -> str:
    """Returns a name for the restrictions of a task."""
    parts = [
        "-".join(str(one) for one in sorted(ids)[:3]) + (f"+{len(ids) - 3}" * (len(ids) > 3))  # noqa: PLR2004
        for ids in (request.operators, request.partitions, request.stores)
        if ids
    ]
    return "_".join(parts) or "all"


def remembered(storage: Storage) -> RememberedRuns:
    """Returns the runs that are remembered.

    Raises:
        StorageError: when the storage fails.
    """
    times: dict[str, float] = {}
    for entry in storage.list(FOLDER):
        run, time = _run_of(entry), entry.modified or 0.0
        times[run] = min(time, times.get(run, time))
    newest = sorted(times, key=lambda run: (times[run], run))[-MOST_RUNS:]
    since = times[newest[0]] if len(newest) < len(times) else -math.inf
    return RememberedRuns(frozenset(newest), since, trashed_runs(storage))


def forget(storage: Storage, window: RememberedRuns, *, before: Callable[[], object]) -> None:
    """Deletes the notes of the runs that are not remembered.

    Args:
        storage: where the checkpoint lives.
        window: the runs that are remembered.
        before: called before each deletion; whatever it raises ends the work.

    Raises:
        StorageError: when the storage fails.
    """
    old = [
        entry.path
        for entry in storage.list(FOLDER)
        if not window.remembers(_run_of(entry)) and (entry.modified or 0.0) < window.begins
    ]
    storage.delete_all(old, before=before)


def _run_of(entry: Entry) -> str:
    return entry.path.removeprefix(f"{FOLDER}/").partition("/")[0]


def list_runs(storage: Storage, *, most: int | None = None) -> tuple[Run, ...]:
    """Returns the runs that changed a checkpoint, the newest first.

    Args:
        storage: where the checkpoint lives.
        most: the number of the newest runs that are read; all by default. With a number, older
            runs that are only known from the trash are left out.

    Raises:
        NotACheckpointError: when there is neither a run nor a checkpoint.
        StorageError: when a listing or a read fails.
    """
    notes = _notes(storage, most)
    trashed, undone = trashed_runs(storage), _undone(notes)
    runs = [
        _run(run, tasks, in_trash=run in trashed, undone=undone.get(run, ()))
        for run, tasks in notes.items()
    ]
    runs += [
        _cut_short(run, since, undone.get(run, ()))
        for run, since in trashed.items()
        if run not in notes and most is None
    ]
    if not runs:
        must_be_checkpoint(storage)
    return tuple(sorted(runs, key=lambda one: (one.started, one.run), reverse=True))


def _notes(storage: Storage, most: int | None) -> dict[str, list[_Note]]:
    """Returns the notes of each run; invalid ones are left out."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 -- takes as long as a scan

    notes, reader = defaultdict(list), TypeAdapter(_Note)
    for entry in _newest(storage.list(FOLDER), most):
        try:
            note = reader.validate_json(storage.read(entry.path))
        except (ValidationError, NotFoundError, CodecError):
            continue
        if 0 <= note.started <= LATEST and 0 <= note.ended <= LATEST:
            notes[_run_of(entry)].append(note)
    return notes


def _newest(entries: Iterable[Entry], most: int | None) -> list[Entry]:
    """Returns the notes of the newest runs."""
    listed = list(entries)
    times: dict[str, float] = {}
    for entry in listed:
        times[_run_of(entry)] = max(entry.modified or 0.0, times.get(_run_of(entry), 0.0))
    newest = sorted(times, key=lambda run: (times[run], run), reverse=True)[:most]
    return [entry for entry in listed if _run_of(entry) in set(newest)]


def _undone(notes: Mapping[str, Iterable[_Note]]) -> dict[str, tuple[Undoing, ...]]:
    """Returns the undos of each run, by the run."""
    undos: dict[str, list[Undoing]] = defaultdict(list)
    for run, tasks in notes.items():
        for note in tasks:
            if note.undo_of is not None:
                undoing = Undoing(run, note.ended, note.files_restored, note.files_left)
                undos[note.undo_of].append(undoing)
    return {
        run: tuple(sorted(undoings, key=lambda one: (one.time, one.run)))
        for run, undoings in undos.items()
    }


def _cut_short(run: str, since: float, undone: tuple[Undoing, ...]) -> Run:
    """Returns a run that was killed before it could record itself; it can still be undone."""
    code = StatemaintError.exit_code
    return Run(run, since, 0.0, 0, 0, 0, 0, 0, code, in_trash=True, undone=undone)


def _run(run: str, tasks: Iterable[_Note], *, in_trash: bool, undone: tuple[Undoing, ...]) -> Run:
    all_tasks = list(tasks)
    started = min(one.started for one in all_tasks)
    return Run(
        run=run,
        started=started,
        seconds=max(one.ended for one in all_tasks) - started,
        tasks=len(all_tasks),
        snapshots_written=sum(one.snapshots_written for one in all_tasks),
        files_deleted=sum(one.files_deleted for one in all_tasks),
        bytes_written=sum(one.bytes_written for one in all_tasks),
        bytes_deleted=sum(one.bytes_deleted for one in all_tasks),
        exit_code=max(one.exit_code for one in all_tasks),
        in_trash=in_trash,
        undo_of=next((one.undo_of for one in all_tasks if one.undo_of is not None), None),
        files_restored=sum(one.files_restored for one in all_tasks),
        bytes_restored=sum(one.bytes_restored for one in all_tasks),
        undone=undone,
    )
