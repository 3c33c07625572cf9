"""The notes that maintenance leaves of itself in `records.runs`."""

import json
import logging
from dataclasses import replace

from statemaint.errors import CodecError, StorageError
from statemaint.execute import Fence
from statemaint.model.ids import run_folder
from statemaint.plan import Request
from statemaint.records.runs import FOLDER, RunNote, note_path, write_note
from statemaint.report import Halted, Report, Skipped
from statemaint.storage import Storage

_WHOLE = "whole-run"
_DONE = ("snapshots_written", "files_deleted", "bytes_written", "bytes_deleted")

_log = logging.getLogger(__name__)


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
        snapshots_written=report.snapshots_written,
        files_deleted=report.files_deleted.total(),
        bytes_written=report.bytes_written,
        bytes_deleted=report.bytes_deleted,
        exit_code=report.exit_code,
    )
    task = _task(report.plan.request)
    note = note if first else _with_earlier(storage, report.run, task, note)
    write_note(storage, report.run, task, note)


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
    if names and (exit_code or f"{_WHOLE}.json" in names):
        note = RunNote.of_nothing(storage, storage.now(), fence.number, exit_code)
        write_note(storage, run, _WHOLE, replace(note, of_whole=True))


def _with_earlier(storage: Storage, run: str, task: str, note: RunNote) -> RunNote:
    """Returns the note of a task with what its earlier attempts did."""
    try:
        earlier = json.loads(storage.read(note_path(run, task)))
        sums = {name: getattr(note, name) + int(earlier[name]) for name in _DONE}
        return replace(note, started=min(note.started, float(earlier["started"])), **sums)
    except (StorageError, CodecError, KeyError, TypeError, ValueError, OverflowError):
        return note  # there is none


def _task(request: Request) -> str:
    """Returns a name for the restrictions of a task."""
    parts = [
        "-".join(str(one) for one in sorted(ids)[:3]) + (f"+{len(ids) - 3}" * (len(ids) > 3))  # noqa: PLR2004
        for ids in (request.operators, request.partitions, request.stores)
        if ids
    ]
    return "_".join(parts) or "all"
