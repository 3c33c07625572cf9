"""The savepoints below a folder, each with its state; nothing is written.

A savepoint is whole if its record says that it has ended, every file of the record is there with
its size, and `metadata` is the true one. Files beside those of the record, below the logs or the
state, are those of a query that has run from it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from statemaint.codec.metadata.logs import parse_query_id
from statemaint.errors import CodecError, NotFoundError, RefusedLinkError
from statemaint.listing import Entry
from statemaint.model.files import temp_of
from statemaint.records.remembered import REMEMBERED
from statemaint.records.runs import METRICS
from statemaint.records.savepoints import SAVEPOINT, STORES, SavepointNote, read_savepoint
from statemaint.savepoint.keep import Candidate, KeepRules, Retention, SavepointState, retained
from statemaint.storage import (
    MARKS,
    OURS,
    Opener,
    Storage,
    checkpoints_below,
    open_storage,
)
from statemaint.workers import Job, in_turn

METADATA = "metadata"
_OF_A_QUERY = ("state/", "offsets/", "commits/", "sources/")
# Beside the record: what `verify` leaves, and what is there until all stores are proved.
_BESIDE = (METADATA, METRICS, REMEMBERED)


@dataclass(frozen=True, slots=True)
class ListedSavepoint:
    """A savepoint as it was listed.

    Attributes:
        address: its address.
        state: what it is good for.
        note: its record; `None` if that cannot be read.
        entries: its files; none if its record cannot be read.
        why: why its record cannot be read, or which file is missing or has another size.
    """

    address: str
    state: SavepointState
    note: SavepointNote | None = None
    entries: tuple[Entry, ...] = ()
    why: str = ""

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def touched(self) -> float | None:
        """Returns when any of its files was written last; `None` if that is not known."""
        times = [entry.modified for entry in self.entries]
        known = [time for time in times if time is not None]
        return max(known) if known and len(known) == len(times) else None

    @property
    def named(self) -> tuple[str, ...]:
        """Returns the files of the record, and what an interrupted write of them has left."""
        files = self.note.files if self.note else {}
        return tuple(entry.path for entry in self.entries if _is_named(entry, files))

    @property
    def beside(self) -> tuple[str, ...]:
        """Returns our own files about it, the record last."""
        own = (entry.path for entry in self.entries if entry.path != SAVEPOINT and _is_own(entry))
        return (*own, SAVEPOINT)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Returns all other files."""
        known = {*self.named, *self.beside}
        return tuple(entry.path for entry in self.entries if entry.path not in known)


def _is_own(entry: Entry) -> bool:
    folder, _, name = entry.path.rpartition("/")
    path = "/".join(filter(None, (folder, temp_of(name) or name)))
    return path in (*_BESIDE, SAVEPOINT) or path.startswith(f"{STORES}/")


def _is_named(entry: Entry, files: Mapping[str, int]) -> bool:
    if entry.path == METADATA or entry.outside:
        return False
    folder, _, name = entry.path.rpartition("/")
    temp = temp_of(name)
    return f"{folder}/{temp}" in files if temp else files.get(entry.path) == entry.size


def list_savepoints(dest: str, *, opened: Opener = open_storage) -> tuple[ListedSavepoint, ...]:
    """Returns the savepoints below a folder, up to three folders deep, by address.

    Each takes three requests and those that find its folder.

    Args:
        dest: the address of the folder, or of one savepoint.
        opened: opens the storage of an address.
    """
    below = checkpoints_below(dest, marks=MARKS | {OURS}, opened=opened)
    jobs = [Job(partial(_looking, address, opened)) for address in below]
    looks = in_turn(jobs, threads=opened(dest).parallel)
    return tuple(savepoint for savepoint in looks if savepoint)


def _looking(address: str, opened: Opener) -> Iterator[ListedSavepoint | None]:
    yield look(opened(address), address)


def look(storage: Storage, address: str) -> ListedSavepoint | None:
    """Returns the savepoint in a storage; `None` if there is no record of one."""
    try:
        note = read_savepoint(storage)
        entries = tuple(sorted(storage.list(""))) if note else ()
    except (CodecError, RefusedLinkError) as error:
        return ListedSavepoint(address, SavepointState.UNREADABLE, why=str(error))
    if note is None:
        return None
    listed = ListedSavepoint(address, SavepointState.UNFINISHED, note, entries)
    state, why = _state(listed, note, _query_id(storage))
    return ListedSavepoint(address, state, note, entries, why)


def _query_id(storage: Storage) -> str | None:
    """Returns the id in `metadata`; an empty one if no Spark reads it, `None` without the file."""
    try:
        return parse_query_id(storage.read(METADATA))
    except CodecError:
        return ""
    except NotFoundError:
        return None


def _state(
    listed: ListedSavepoint, note: SavepointNote, query_id: str | None
) -> tuple[SavepointState, str]:
    if note.ended is not None and any(path.startswith(_OF_A_QUERY) for path in listed.unknown):
        return SavepointState.STARTED, ""
    if note.expired is not None:
        return SavepointState.EXPIRING, ""
    if note.ended is None or query_id == "":
        return SavepointState.UNFINISHED, ""
    if query_id != note.id:
        return SavepointState.DAMAGED, f"{METADATA} has not the id {note.id}"
    if missing := sorted({*note.files} - {*listed.named, METADATA}):
        return SavepointState.DAMAGED, f"{missing[0]} is missing or has another size"
    return SavepointState.WHOLE, ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of a savepoint: without a reason to keep it, it expires."""

    savepoint: ListedSavepoint
    reasons: tuple[Retention, ...]


def decide(
    savepoints: Sequence[ListedSavepoint], rules: KeepRules, now: float
) -> tuple[Decision, ...]:
    """Returns what is to become of savepoints, in their order; the rules apply to each query.

    A query is known by the checkpoint that was saved and its id there: what was saved of a moved
    or a new checkpoint counts by itself.

    Args:
        savepoints: those below a folder.
        rules: what to keep of each query.
        now: the time by the clock of their storage.
    """
    queries: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for savepoint in savepoints:
        note = savepoint.note
        query = (note.source, note.query_id) if note else ("", "")
        queries[query].append(_candidate(savepoint))
    reasons: dict[str, tuple[Retention, ...]] = {}
    for candidates in queries.values():
        reasons |= retained(candidates, rules, now)
    return tuple(Decision(savepoint, reasons[savepoint.address]) for savepoint in savepoints)


def _candidate(savepoint: ListedSavepoint) -> Candidate:
    note = savepoint.note
    return Candidate(
        name=savepoint.address,
        batch=note.batch if note else -1,
        ended=note.ended if note else None,
        state=savepoint.state,
        touched=savepoint.touched,
    )
