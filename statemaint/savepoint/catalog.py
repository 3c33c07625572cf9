"""The savepoints below a folder, each with its state; nothing is written.

A savepoint is whole if its record says that it has ended, every file of the record is there with
its size, and `metadata` is the true one. Files beside those of the record, below the logs or the
state, are then those of a query that has run from it. Before, all files there are the savepoint's:
its folder was empty when it was begun, and no Spark has started from it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from statemaint.codec.metadata.logs import parse_query_id
from statemaint.errors import CodecError, NotFoundError, RefusedLinkError
from statemaint.listing import Entry
from statemaint.model.files import temp_of
from statemaint.records import savepoints as records
from statemaint.records.claims import FOLDER as LEASES
from statemaint.records.remembered import REMEMBERED
from statemaint.records.runs import METRICS, TREND, UNITS
from statemaint.records.savepoints import SavepointNote
from statemaint.storage import MARKS, OURS, Opener, Storage, checkpoints_below, open_storage
from statemaint.wording import Explained
from statemaint.workers import Job, in_turn

# Beside the record: what `verify` and runs without work leave, the lease, and what is there until
# all stores are proved (Spark's executors have units).
_OURS = (records.SAVEPOINT, records.METADATA, METRICS, TREND, REMEMBERED)
_FOLDERS = (f"{records.STORES}/", f"{LEASES}/", f"{UNITS}/")


class SavepointState(Explained):
    """What a savepoint is good for."""

    WHOLE = "whole", "a query can start from it"
    STARTED = "started", "a query has run from it"
    UNFINISHED = "unfinished", "it is being written, or its writing was interrupted"
    EXPIRING = "expiring", "its deletion was interrupted"
    DAMAGED = "damaged", "files that its record names are missing or have another size"
    UNREADABLE = "unreadable", "its record cannot be read"


BROKEN = (SavepointState.DAMAGED, SavepointState.UNREADABLE)


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint as it was listed, whether it expires, and what its deletion left."""

    address: str
    state: SavepointState
    note: SavepointNote | None = None  # its record; `None`, and no entries, if that is unreadable
    entries: tuple[Entry, ...] = ()
    why: str = ""  # its record cannot be read, or which file is missing or has another size
    kept: tuple[str, ...] | None = None  # by these rules or states; `None` without rules
    # The files that stayed as it was deleted, since they are not its own; with any, so did the
    # record and the `metadata` that no Spark reads. `None` if it was not deleted.
    left: tuple[str, ...] | None = None

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def begun(self) -> float:
        return self.note.begun if self.note else 0.0

    @property
    def touched(self) -> float | None:
        """Returns when any of its files was written last; `None` if that is not known."""
        times = [entry.modified for entry in self.entries if entry.modified is not None]
        return max(times) if times and len(times) == len(self.entries) else None

    @property
    def query(self) -> tuple[str, str]:
        """Returns the checkpoint that was saved and its query's id; empty if they are not known."""
        return (self.note.source, self.note.query_id) if self.note else ("", "")

    @property
    def named(self) -> tuple[Entry, ...]:
        """Returns the files of the savepoint, and what an interrupted write of them has left."""
        return tuple(entry for entry in self.entries if self._is_named(entry))

    @property
    def unknown(self) -> tuple[Entry, ...]:
        """Returns the files that are neither the savepoint's nor our own about it."""
        named = {*self.named}
        return tuple(each for each in self.entries if each not in named and not is_own(each.path))

    def _is_named(self, entry: Entry) -> bool:
        if self.note is None or entry.outside or is_own(entry.path):
            return False
        if self.note.ended is None:
            return entry.path.startswith(records.OF_A_QUERY)
        final = _without_temp(entry.path)
        files = self.note.files
        return final in files if final != entry.path else files.get(final) == entry.size


def is_own(path: str) -> bool:
    """Returns whether a file is our own about a savepoint, or was to become one."""
    final = _without_temp(path)
    return final in _OURS or final.startswith(_FOLDERS)


def _without_temp(path: str) -> str:
    """Returns the path that an interrupted write was to give a file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{temp_of(name) or name}"


def list_savepoints(
    dest: str, *, source: str | None = None, opened: Opener = open_storage
) -> tuple[Savepoint, ...]:
    """Returns the savepoints below a folder, or the one at it, up to three folders deep.

    Those of one query follow each other, the newest first. Each takes three requests and those
    that find its folder. With a source, only those that are, or may be, of that checkpoint.
    """
    below = checkpoints_below(dest, marks=MARKS | {OURS}, opened=opened)
    jobs = [Job(partial(_looking, address, opened), noun="savepoint") for address in below]
    looks = in_turn(jobs, threads=opened(dest).parallel)
    listed = [
        savepoint
        for savepoint in looks
        if savepoint and (None in (source, savepoint.note) or savepoint.query[0] == source)
    ]
    return tuple(sorted(listed, key=lambda each: (each.query, -each.begun, each.address)))


def problems(savepoints: Iterable[Savepoint]) -> Iterator[str]:
    """Yields what an operator should look at: a damaged savepoint, files that no record names."""
    for savepoint in savepoints:
        if savepoint.state in BROKEN:
            yield f"{savepoint.address}: {savepoint.state.value}, {savepoint.why}"
        if savepoint.left:
            first, *others = savepoint.left
            more = f" and {len(others)} more" if others else ""
            yield (
                f"{savepoint.address}: {first}{more} is not named by the savepoint's record, and "
                "stays; once it is moved, the next deletion removes the rest"
            )


def _looking(address: str, opened: Opener) -> Iterator[Savepoint | None]:
    yield look(opened(address), address)


def look(storage: Storage, address: str) -> Savepoint | None:
    """Returns the savepoint in a storage; `None` if it has no record of one."""
    try:
        note = records.read_savepoint(storage)
        entries = tuple(sorted(storage.list(""))) if note else ()
    except (CodecError, RefusedLinkError) as error:
        return Savepoint(address, SavepointState.UNREADABLE, why=str(error))
    if note is None:
        return None
    listed = Savepoint(address, SavepointState.UNFINISHED, note, entries)
    state, why = _state(listed, note, _query_id(storage))
    return replace(listed, state=state, why=why)


def _query_id(storage: Storage) -> str | None:
    """Returns the id in `metadata`; an empty one if no Spark reads it, `None` without the file."""
    try:
        return parse_query_id(storage.read(records.METADATA))
    except CodecError:
        return ""
    except NotFoundError:
        return None


def _state(
    listed: Savepoint, note: SavepointNote, query_id: str | None
) -> tuple[SavepointState, str]:
    if any(entry.path.startswith(records.OF_A_QUERY) for entry in listed.unknown):
        return SavepointState.STARTED, ""
    if note.expired is not None:
        return SavepointState.EXPIRING, ""
    if query_id == "" or (note.ended is None and query_id is None and not listed.named):
        return SavepointState.UNFINISHED, ""
    if note.ended is None or query_id != note.id:
        return SavepointState.DAMAGED, f"{records.METADATA} is not the one that statemaint wrote"
    there = {entry.path for entry in listed.named}
    if missing := sorted({*note.files} - there - {records.METADATA}):
        return SavepointState.DAMAGED, f"{missing[0]} is missing or has another size"
    return SavepointState.WHOLE, ""
