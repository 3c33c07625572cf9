"""The runs that have files in the trash: how long these are kept, and how large they are.

    _statemaint/trash.json    the runs that were looked at, each with its times and sizes

The trash may hold a hundred thousand files, and most runs have none of them to empty. So it is
never listed whole: its runs are its folders, and a run's manifests record how long its files are
kept. A trash of many runs has an index besides. The index only saves requests: a run that it lacks
is looked at in its own folder, and a run that has expired by it is deleted only if its manifests
agree. A run, or an undo of it, that changes an indexed folder takes it out of the index before.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from statemaint.errors import CodecError, NotFoundError, StatemaintError, StorageError
from statemaint.listing import Entry
from statemaint.model.ids import run_folder
from statemaint.records.manifest import FOLDER, MANIFEST, folder_of
from statemaint.records.segments import read_lines
from statemaint.storage.base import Check, Storage
from statemaint.workers import nothing

INDEX = f"{FOLDER}.json"
# The runs that are looked at although they turn out not to have expired, the oldest first: each
# takes two requests, and the others wait for a later run.
_MOST_LOOKS = 4
# The index is written again for this many runs, or for one with this many files.
_WORTH_RUNS = 3
_WORTH_FILES = 1000
# The files that are deleted, and counted, at a time.
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class TrashedRun:
    """A run's trash, as it was looked at."""

    since: float  # the time of its first manifest; 0 without one
    until: float  # until which at least one of its files is kept; 0 if that is not known
    files: int  # without the manifests
    bytes: int


@dataclass(frozen=True, slots=True)
class ExpiredTrash:
    """The expired runs, by their folders, each with its manifests."""

    runs: Mapping[str, frozenset[Entry]] = field(default_factory=dict)
    unknown: int = 0  # the number of runs that the index lacks

    def __bool__(self) -> bool:
        return bool(self.runs)


def trashed_runs(storage: Storage) -> dict[str, float]:
    """Returns the folders of the runs that have files in the trash, and since when."""
    folders, known = _indexed(storage)
    since: dict[str, float] = {}
    for run in folders:
        if run in known:
            since[run] = known[run].since
        # A disk keeps the folders of a trash that an undo, or a killed run, has emptied.
        elif (manifests := _manifests(storage, run)) or any(storage.list(folder_of(run))):
            since[run] = _first(manifests)
    return since


def size_in_trash(storage: Storage, run: str) -> tuple[int, int]:
    sizes = [entry.size for entry in storage.list(folder_of(run)) if not _is_of_manifest(entry)]
    return len(sizes), sum(sizes)


def size_of_trash(storage: Storage) -> tuple[int, int]:
    """Returns the number of files in the trash, without the manifests, and their bytes."""
    folders, known = _indexed(storage)
    sizes = [(trashed.files, trashed.bytes) for trashed in known.values()]
    sizes += [size_in_trash(storage, run) for run in folders if run not in known]
    return sum(files for files, _ in sizes), sum(size for _, size in sizes)


def expired(storage: Storage, now: float) -> ExpiredTrash:
    folders, known = _indexed(storage)
    runs, looks = {}, 0
    for run in folders:
        if run in known and known[run].until > now:
            continue
        if looks == _MOST_LOOKS:
            break
        manifests = [entry for entry in _manifests(storage, run) if not entry.name.startswith(".")]
        if _has_expired(storage, run, manifests, now):
            runs[run] = frozenset(manifests)
        elif manifests:
            looks += 1
    return ExpiredTrash(runs, len(folders) - len(known))


def empty(
    storage: Storage,
    trash: ExpiredTrash,
    *,
    before: Check,
    after: Callable[[Sequence[Entry]], object] = nothing,
) -> None:
    """Deletes the files of expired runs; manifests last, since they record that a run has expired.

    The folders, which a disk would keep, are deleted after them: without its folder, a run is no
    longer in the index. A run whose manifests have changed since they were read is left to a later
    run. `after` is called with the deleted files but the manifests, page by page, also before a
    failure.
    """
    files: list[Entry] = []
    manifests: list[str] = []
    folders: list[str] = []
    for run, seen in sorted(trash.runs.items()):
        listed = list(storage.list(folder_of(run)))
        found = {file for file in listed if _is_of_manifest(file) and not file.name.startswith(".")}
        if found == seen:  # a crash may also leave a temp file among them
            files += [file for file in listed if file not in seen]
            manifests += sorted(manifest.path for manifest in seen)
            folders.append(folder_of(run))
    for start in range(0, len(files), _PAGE):
        page = files[start : start + _PAGE]
        try:
            storage.delete_all([file.path for file in page], before=before)
        except StatemaintError:
            after(_missing(storage, page))
            raise
        after(page)
    if manifests:
        storage.delete_all(manifests, before=before)
    for folder in folders:
        storage.delete_folders(folder)


def _missing(storage: Storage, page: Sequence[Entry]) -> list[Entry]:
    runs = sorted({entry.path.split("/")[2] for entry in page})
    try:
        there = {entry.path for run in runs for entry in storage.list(folder_of(run))}
    except StorageError:
        return []
    return [entry for entry in page if entry.path not in there]


def index_trash(storage: Storage, unknown: int, files: int) -> None:
    """Adds the runs that the index lacks, if that saves later runs enough; under the lease only.

    It lacked `unknown` runs when this run began, which has moved `files` to the trash.
    """
    if unknown < _WORTH_RUNS and files < _WORTH_FILES:
        return
    folders, known = _indexed(storage)
    looked = {run: _look(storage, run) for run in folders if run not in known}
    _write_index(storage, {**known, **{run: trashed for run, trashed in looked.items() if trashed}})


def forget_trashed(storage: Storage, run: str) -> None:
    """Takes a run out of the index, before its trash changes; under the lease only."""
    _, known = _indexed(storage)
    if known.pop(run_folder(run), None):
        _write_index(storage, known)


def _is_of_manifest(entry: Entry) -> bool:
    return entry.path.split("/")[3:4] == [MANIFEST]


def _manifests(storage: Storage, run: str) -> list[Entry]:
    return list(storage.list(f"{folder_of(run)}/{MANIFEST}"))


def _first(manifests: Iterable[Entry]) -> float:
    return min((entry.modified for entry in manifests if entry.modified is not None), default=0.0)


def _look(storage: Storage, run: str) -> TrashedRun | None:
    listed = list(storage.list(folder_of(run)))
    manifests = sorted(entry for entry in listed if _is_of_manifest(entry))
    pages = [entry for entry in manifests if not entry.name.startswith(".")]
    times = _times(storage, pages[-1].path) if pages else []
    until = math.inf if times is None else max(times, default=0.0)  # else an operator decides
    sizes = [entry.size for entry in listed if not _is_of_manifest(entry)]
    return TrashedRun(_first(manifests), until, len(sizes), sum(sizes)) if listed else None


def _has_expired(storage: Storage, run: str, manifests: Sequence[Entry], now: float) -> bool:
    """Returns whether every line of a run's manifests has expired.

    A page without a whole line, as a full disk leaves it, keeps no file: the files of a page are
    moved after all of it is written. If no page has one, only a folder without files has expired.
    """
    whole = False
    for page in sorted(manifests, reverse=True):  # the newest first, which is kept longest
        times = _times(storage, page.path)
        if times is None or any(time > now for time in times):
            return False
        whole = whole or bool(times)
    return whole or all(_is_of_manifest(entry) for entry in storage.list(folder_of(run)))


def _times(storage: Storage, path: str) -> list[float] | None:
    """Returns the times of a manifest's whole lines; `None` if any of them is unreadable."""
    try:
        times = [line.get("until") for line in read_lines(storage, path)]
    except CodecError:
        return None
    known = [float(time) for time in times if isinstance(time, int | float)]
    return known if len(known) == len(times) else None


def _indexed(storage: Storage) -> tuple[list[str], dict[str, TrashedRun]]:
    """Returns the runs in the trash, and those that the index has; none if it is unreadable."""
    if not (folders := sorted(storage.folders(FOLDER))):
        return [], {}
    try:
        rows = json.loads(storage.read(INDEX))["runs"]
        known = {str(run): TrashedRun(**row) for run, row in rows.items()}
    except (NotFoundError, CodecError, LookupError, TypeError, ValueError, AttributeError):
        return folders, {}
    return folders, {
        run: known[run]
        for run in folders
        if run in known
        and all(isinstance(value, int | float) for value in asdict(known[run]).values())
    }


def _write_index(storage: Storage, runs: Mapping[str, TrashedRun]) -> None:
    rows = {run: asdict(trashed) for run, trashed in sorted(runs.items())}
    storage.replace(INDEX, [json.dumps({"runs": rows}).encode() + b"\n"])
