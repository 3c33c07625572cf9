"""The files of runs: what each recorded of itself, and what its processes hand to each other.

_statemaint/runs/<run>/<task>.json     one file for each task of a run, once it has ended
_statemaint/runs/<run>/whole-run.json  the exit code of a run that failed as a whole: one of several
                                       tasks, or one that could not empty the trash
_statemaint/metrics.json               the last run and the totals of all (see `report.record`)
_statemaint/trend.json                 the figures of the last runs, thinned (see `report.trend`)

_statemaint/units/<run>/work.json               the units, and what their tasks need to know
_statemaint/units/<run>/outcomes-<attempt>.json all outcomes of one attempt
_statemaint/units/<run>/<unit>/outcome.json     the outcome of one unit, once there is one
_statemaint/units/<run>/<unit>/_statemaint/lease/<number>.json   the holder of the unit

The newest runs are remembered, as are those whose trash is kept, and all runs younger than these.
The files of units are deleted when their run ends.
"""

import json
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from statemaint.errors import CodecError, NotFoundError, StorageError
from statemaint.listing import LATEST, Entry
from statemaint.model.ids import run_folder
from statemaint.records.trashed import trashed_runs
from statemaint.storage.base import Check, Storage

FOLDER = "_statemaint/runs"
UNITS = "_statemaint/units"
METRICS = "_statemaint/metrics.json"
TREND = "_statemaint/trend.json"
# The number of runs that are remembered regardless of their age.
MOST_RUNS = 100

_log = logging.getLogger(__name__)


def new_run_id(now: float) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
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
    of_whole: bool = False  # it has the exit code of a run of several tasks, and did nothing itself
    batch: int | None = None  # that a `bootstrap` committed

    @classmethod
    def of_nothing(cls, storage: Storage, started: float, fence: int, exit_code: int) -> "RunNote":
        return cls(
            started=started,
            ended=storage.now(),
            fence=fence,
            snapshots_written=0,
            files_deleted=0,
            bytes_written=0,
            bytes_deleted=0,
            exit_code=exit_code,
        )


def note_path(run: str, task: str) -> str:
    return f"{FOLDER}/{run_folder(run)}/{run_folder(task)}.json"


def write_note(storage: Storage, run: str, task: str, note: RunNote) -> None:
    """Records a task; a storage failure is only logged."""
    try:
        storage.replace(note_path(run, task), [json.dumps(asdict(note)).encode() + b"\n"])
    except StorageError as error:
        _log.warning("the run is not recorded: %s", error)


def read_notes(storage: Storage, most: int | None) -> dict[str, list[RunNote]]:
    """Returns the notes of each run, or of the newest runs; invalid ones are left out."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 -- takes as long as a scan

    notes, reader = defaultdict(list), TypeAdapter(RunNote)
    listed = list(storage.list(FOLDER))
    times = _times(listed, max)
    newest = {*sorted(times, key=lambda run: (times[run], run), reverse=True)[:most]}
    for entry in (entry for entry in listed if _run_of(entry) in newest):
        try:
            note = reader.validate_json(storage.read(entry.path))
        except (ValidationError, NotFoundError, CodecError):
            continue
        if 0 <= note.started <= LATEST and 0 <= note.ended <= LATEST:
            notes[_run_of(entry)].append(note)
    return notes


@dataclass(frozen=True, slots=True)
class RememberedRuns:
    """The runs that are remembered, by their folders."""

    runs: AbstractSet[str] = frozenset()
    # From then on every line is of a listed run, or of one killed among them; minus infinity as
    # long as no run has left the window.
    since: float = -math.inf
    # The runs whose trash is kept, each with the time of its first file there.
    trashed: Mapping[str, float] = field(default_factory=dict)

    @property
    def begins(self) -> float:
        return min((self.since, *self.trashed.values()))

    def remembers(self, run: str) -> bool:
        return run in self.runs or run in self.trashed


def remembered(storage: Storage) -> RememberedRuns:
    times = _times(storage.list(FOLDER), min)
    newest = sorted(times, key=lambda run: (times[run], run))[-MOST_RUNS:]
    since = times[newest[0]] if len(newest) < len(times) else -math.inf
    return RememberedRuns(frozenset(newest), since, trashed_runs(storage))


def forget(storage: Storage, window: RememberedRuns, *, before: Check) -> None:
    """Deletes the notes of the runs that are not remembered."""
    begins = window.begins
    old = (entry for entry in storage.list(FOLDER) if (entry.modified or 0.0) < begins)
    gone = [entry for entry in old if not window.remembers(_run_of(entry))]
    storage.delete_all([entry.path for entry in gone], before=before)
    for run in sorted({_run_of(entry) for entry in gone}):
        storage.delete_folders(f"{FOLDER}/{run}")


def _times(entries: Iterable[Entry], pick: Callable[[float, float], float]) -> dict[str, float]:
    times: dict[str, float] = {}
    for entry in entries:
        run, time = _run_of(entry), entry.modified or 0.0
        times[run] = pick(time, times.get(run, time))
    return times


def _run_of(entry: Entry) -> str:
    return entry.path.removeprefix(f"{FOLDER}/").partition("/")[0]


def work_path(run: str) -> str:
    return f"{UNITS}/{run_folder(run)}/work.json"


def outcomes_path(run: str, attempt: int) -> str:
    return f"{UNITS}/{run_folder(run)}/outcomes-{attempt}.json"


def unit_folder(run: str, unit: str) -> str:
    return f"{UNITS}/{run_folder(run)}/{run_folder(unit)}"


def write_document(storage: Storage, path: str, document: object) -> None:
    storage.replace(path, [json.dumps(document).encode()])


def read_document(storage: Storage, path: str) -> Any:
    return json.loads(storage.read(path))
