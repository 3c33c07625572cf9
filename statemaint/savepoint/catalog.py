"""The savepoints below a folder, each with its state; nothing is written.

A savepoint is whole if its record says that it has ended, every file of the record is there with
its size, and `metadata` is the true one. Files beside those of the record, below the logs or the
state, are then those of a query that has run from it. Before, all files there are the savepoint's:
its folder was empty when it was begun, and no Spark has started from it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from statemaint.codec.metadata.logs import parse_query_id
from statemaint.errors import CodecError, NotFoundError, RefusedLinkError
from statemaint.listing import Entry
from statemaint.model.files import temp_of
from statemaint.records.claims import FOLDER as LEASES
from statemaint.records.remembered import REMEMBERED
from statemaint.records.runs import METRICS
from statemaint.records.savepoints import (
    METADATA,
    OF_A_QUERY,
    SAVEPOINT,
    STORES,
    SavepointNote,
    read_savepoint,
)
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

# Beside the record: what `verify` leaves, the lease, and what is there until all stores are proved.
_OURS = (SAVEPOINT, METADATA, METRICS, REMEMBERED)
_FOLDERS = (f"{STORES}/", f"{LEASES}/")


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
    def query(self) -> tuple[str, str]:
        """Returns the checkpoint that was saved and its query's id; empty if they are not known."""
        return (self.note.source, self.note.query_id) if self.note else ("", "")

    @property
    def is_half_expired(self) -> bool:
        """Returns whether a query has begun to run from it as its deletion began."""
        marked = self.note is not None and self.note.expired is not None
        return marked and self.state is SavepointState.STARTED

    @property
    def named(self) -> tuple[Entry, ...]:
        """Returns the files of the savepoint, and what an interrupted write of them has left."""
        files = self.note.files if self.note and self.note.ended is not None else None
        return tuple(entry for entry in self.entries if _is_named(entry, files))

    @property
    def unknown(self) -> tuple[Entry, ...]:
        """Returns the files that are neither the savepoint's nor our own about it."""
        named = {*self.named}
        return tuple(one for one in self.entries if one not in named and not is_own(one.path))

    def is_still(self, other: "ListedSavepoint | None") -> bool:
        """Returns whether another look shows the same, apart from our own files about it."""
        return other is not None and _shown(self) == _shown(other)


def _shown(savepoint: ListedSavepoint) -> tuple[object, ...]:
    named, unknown = savepoint.named, savepoint.unknown
    return savepoint.state, savepoint.note, named, unknown


def is_own(path: str) -> bool:
    """Returns whether a file is our own about a savepoint, or was to become one."""
    folder, _, name = path.rpartition("/")
    path = "/".join(filter(None, (folder, temp_of(name) or name)))
    return path in _OURS or path.startswith(_FOLDERS)


def _is_named(entry: Entry, files: Mapping[str, int] | None) -> bool:
    """Returns whether a file is the savepoint's; `files` are those of its record, if it ended."""
    if entry.outside or is_own(entry.path):
        return False
    if files is None:
        return entry.path.startswith(OF_A_QUERY)
    folder, _, name = entry.path.rpartition("/")
    temp = temp_of(name)
    return f"{folder}/{temp}" in files if temp else files.get(entry.path) == entry.size


def list_savepoints(dest: str, *, opened: Opener = open_storage) -> tuple[ListedSavepoint, ...]:
    """Returns the savepoints below a folder, up to three folders deep.

    Those of one query follow each other, the newest first.

    Each takes three requests and those that find its folder.

    Args:
        dest: the address of the folder, or of one savepoint.
        opened: opens the storage of an address.
    """
    below = checkpoints_below(dest, marks=MARKS | {OURS}, opened=opened)
    jobs = [Job(partial(_looking, address, opened)) for address in below]
    looks = in_turn(jobs, threads=opened(dest).parallel)
    return tuple(sorted(filter(None, looks), key=_order))


def _order(savepoint: ListedSavepoint) -> tuple[tuple[str, str], float, str]:
    note = savepoint.note
    return savepoint.query, -note.begun if note else 0.0, savepoint.address


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
    if any(one.path.startswith(OF_A_QUERY) for one in listed.unknown):
        return SavepointState.STARTED, ""
    if note.expired is not None:
        return SavepointState.EXPIRING, ""
    if query_id == "" or (note.ended is None and query_id is None and not listed.named):
        return SavepointState.UNFINISHED, ""
    if note.ended is None or query_id != note.id:
        return SavepointState.DAMAGED, f"{METADATA} is not the one that statemaint wrote"
    there = {entry.path for entry in listed.named}
    if missing := sorted({*note.files} - there - {METADATA}):
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
        queries[savepoint.query].append(_candidate(savepoint))
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
