"""The runs that changed a checkpoint, as each recorded itself.

_statemaint/runs/<run>/<task>.json     one file for each task of a run, once it has ended
_statemaint/runs/<run>/whole-run.json  the exit code of a run that failed as a whole: one of several
                                       tasks, or one that could not empty the trash

The newest runs are remembered, as are those whose trash is kept, and all runs younger than these.
"""

import json
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from statemaint.errors import (
    CheckpointError,
    CodecError,
    StatemaintError,
    StorageError,
)
from statemaint.execute import Fence, RememberedRuns, Restored
from statemaint.listing import Entry
from statemaint.model.ids import run_folder
from statemaint.plan import Remove, Request
from statemaint.records import trashed_runs
from statemaint.report import Halted, Report, Skipped, SnapshotWritten
from statemaint.storage import Storage

FOLDER = "_statemaint/runs"
# The number of runs that are remembered regardless of their age.
MOST_RUNS = 100
_WHOLE = "whole-run"
_DONE = ("snapshots_written", "files_deleted", "bytes_written", "bytes_deleted")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """The note of one task of a run; times are by the storage's clock.

    Notes of earlier builds lack `undo_of` and the fields after it: they do not record an undo.
    The note `of_whole` has the exit code of a run of several tasks, and did nothing itself.
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
    of_whole: bool = False


def note_run(storage: Storage, report: Report, fence: Fence, *, first: bool = False) -> None:
    """Records a run, or a task of one, if it changed anything; a storage failure is only logged.

    A task that is repeated adds to what its earlier attempts did, unless this is the first one.
    """
    outcomes = [one for store in report.stores for one in store.outcomes]
    if all(isinstance(one, Halted | Skipped) for one in outcomes):
        return
    note = RunNote(
        started=report.started,
        ended=report.started + report.seconds,
        fence=fence.number,
        snapshots_written=report.snapshots_written,
        files_deleted=report.files_deleted.total(),
        bytes_written=report.bytes_written,
        bytes_deleted=report.bytes_deleted,
        exit_code=report.exit_code,
    )
    task = _task(report.plan.request)
    note = note if first else _with_earlier(storage, report.run, task, note)
    _write(storage, report.run, task, note)


def note_end(storage: Storage, run: str, fence: Fence, exit_code: int) -> None:
    """Records the exit code of a whole run, if any of its tasks is recorded.

    A run without failure is not recorded again, unless an earlier end of it was. A storage failure
    is only logged.
    """
    try:
        names = {entry.name for entry in storage.list(f"{FOLDER}/{run_folder(run)}")}
    except StorageError as error:
        _log.warning("the run's exit code is not recorded: %s", error)
        return
    if not names or not (exit_code or f"{_WHOLE}.json" in names):
        return
    note = RunNote(
        started=storage.now(),
        ended=storage.now(),
        fence=fence.number,
        snapshots_written=0,
        files_deleted=0,
        bytes_written=0,
        bytes_deleted=0,
        exit_code=exit_code,
        of_whole=True,
    )
    _write(storage, run, _WHOLE, note)


def _with_earlier(storage: Storage, run: str, task: str, note: RunNote) -> RunNote:
    """Returns the note of a task with what its earlier attempts did."""
    try:
        earlier = json.loads(storage.read(_path(run, task)))
        sums = {name: getattr(note, name) + int(earlier[name]) for name in _DONE}
        return replace(note, started=min(note.started, float(earlier["started"])), **sums)
    except (StorageError, CodecError, KeyError, TypeError, ValueError, OverflowError):
        return note  # there is none


def note_recovery(  # noqa: PLR0913 -- each is a fact of its own
    storage: Storage,
    run: str,
    fence: Fence,
    *,
    started: float,
    removed: Sequence[Remove],
    written: Sequence[SnapshotWritten],
    exit_code: int = 0,
) -> None:
    """Records a repair or a rollback; a storage failure is only logged."""
    note = RunNote(
        started=started,
        ended=storage.now(),
        fence=fence.number,
        snapshots_written=len(written),
        files_deleted=len(removed),
        bytes_written=sum(one.bytes for one in written),
        bytes_deleted=sum(one.entry.size for one in removed),
        exit_code=exit_code,
    )
    _write(storage, run, "mend", note)


def note_undo(  # noqa: PLR0913 -- each is a fact of its own
    storage: Storage,
    run: str,
    fence: Fence,
    *,
    of: str,
    started: float,
    files: Sequence[Restored] | None,
    exit_code: int | None = None,
) -> None:
    """Records an undo, which is a run like any other; a storage failure is only logged.

    It is recorded with `None` when it begins, so that a killed undo is among the runs as well.
    One that ends with an error has its exit code.
    """
    back = [one for one in files or () if one.in_place]
    left = len(files or ()) - len(back)
    if exit_code is None and files is not None:
        exit_code = CheckpointError.exit_code if left else 0
    note = RunNote(
        started=started,
        ended=storage.now(),
        fence=fence.number,
        snapshots_written=0,
        files_deleted=0,
        bytes_written=0,
        bytes_deleted=0,
        exit_code=StatemaintError.exit_code if exit_code is None else exit_code,
        undo_of=run_folder(of),
        files_restored=len(back),
        bytes_restored=sum(one.bytes for one in back),
        files_left=left,
    )
    _write(storage, run, "undo", note)


def _path(run: str, task: str) -> str:
    return f"{FOLDER}/{run_folder(run)}/{run_folder(task)}.json"


def _write(storage: Storage, run: str, task: str, note: RunNote) -> None:
    path = _path(run, task)
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
        run, time = run_of(entry), entry.modified or 0.0
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
        if not window.remembers(run_of(entry)) and (entry.modified or 0.0) < window.begins
    ]
    storage.delete_all(old, before=before)


def run_of(entry: Entry) -> str:
    """Returns the folder of the run that a note belongs to."""
    return entry.path.removeprefix(f"{FOLDER}/").partition("/")[0]
