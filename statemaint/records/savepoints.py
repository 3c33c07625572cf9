"""A savepoint's record of itself, in the checkpoint that it is.

    _statemaint/savepoint.json                  what was saved, and whether all of it is in place
    _statemaint/savepoint/<store>.json          stores that are proved, until all of them are

The first is written before anything else, and again, with `ended` and everything that belongs to
the savepoint, after the logs and before the true `metadata`.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeVar

from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import LATEST
from statemaint.storage import Storage

SAVEPOINT = "_statemaint/savepoint.json"
METADATA = "metadata"
OF_A_QUERY = ("state/", "offsets/", "commits/", "sources/")
"""Where a query, or a savepoint of it, has its files but `metadata`."""
STORES = "_statemaint/savepoint"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStore:
    """One store of a savepoint, read back and equal to the fold.

    Attributes:
        directory: its directory, below `state/`.
        rows: the number of its rows.
        digest: the digest of its rows, by the key of the source's query.
        files: the size of each of its files, by path.
        of: the `witness` of the savepoint that it was written for.
    """

    directory: str
    rows: int
    digest: str
    files: Mapping[str, int]
    of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointNote:
    """What a savepoint is; times are by the clock of its own storage.

    Attributes:
        source: the address of the checkpoint that was saved.
        query_id: the query's id there.
        id: the id that a query started from the savepoint has.
        batch: the batch after which that query continues.
        witness: the digest of the batch's entries in the logs of the source.
        provider: the state store provider.
        codec: the compression of its snapshots, by Spark's short name.
        build: the version of statemaint that wrote it.
        begun: when it was begun.
        ended: when everything but the true `metadata` was in place; `None` before.
        expired: when its deletion began; it must not be completed any more. `None` before.
        stores: its stores, once it has ended.
        logs: the size of every other file of it, by path, once it has ended.
    """

    format: Literal[1] = 1
    source: str
    query_id: str
    id: str
    batch: int
    witness: str
    provider: str
    codec: str
    build: str
    begun: float
    ended: float | None = None
    expired: float | None = None
    stores: tuple[SavedStore, ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)

    @property
    def files(self) -> Mapping[str, int]:
        """Returns the size of every file that belongs to it, by path."""
        of_stores = (one.files.items() for one in self.stores)
        return {**self.logs, **{path: size for files in of_stores for path, size in files}}


def true_metadata(note: SavepointNote) -> bytes:
    """Returns the `metadata` of the query that starts from a savepoint, as Spark writes it."""
    return json.dumps({"id": note.id}, separators=(",", ":")).encode()


def write_savepoint(storage: Storage, note: SavepointNote) -> None:
    storage.replace(SAVEPOINT, [json.dumps(asdict(note), indent=1).encode() + b"\n"])


def read_savepoint(storage: Storage) -> SavepointNote | None:
    """Returns the record of a savepoint; `None` if there is none.

    Raises:
        CodecError: when it cannot be read, or another build wrote it in a format of its own.
    """
    try:
        note = _parsed(SavepointNote, storage.read(SAVEPOINT), SAVEPOINT)
    except NotFoundError:
        return None
    times = (note.begun, note.ended or 0.0, note.expired or 0.0)
    if not all(0 <= time <= LATEST for time in times):
        raise CodecError("it has a time beyond the year 9999", offset=0, path=SAVEPOINT)
    return note


def note_stores(storage: Storage, stores: Sequence[SavedStore]) -> None:
    """Records stores that are in place, for a run that continues after this one was killed."""
    path = f"{STORES}/{stores[0].directory.replace('/', '-')}.json"
    storage.replace(path, [json.dumps([*map(asdict, stores)]).encode() + b"\n"])


def read_stores(storage: Storage, witness: str) -> tuple[SavedStore, ...]:
    """Returns the stores of a savepoint that are proved so far; an unreadable record is none."""
    stores: list[SavedStore] = []
    for entry in storage.list(STORES):
        with suppress(CodecError, NotFoundError):
            stores += _parsed(tuple[SavedStore, ...], storage.read(entry.path), entry.path)
    return tuple(store for store in stores if store.of == witness)


def forget_stores(storage: Storage) -> None:
    storage.delete_all([entry.path for entry in storage.list(STORES)])


def _parsed(kind: type[_T], content: bytes, path: str) -> _T:
    from pydantic import TypeAdapter  # noqa: PLC0415 -- takes as long as a scan

    try:
        return TypeAdapter(kind).validate_json(content)
    except (ValueError, OverflowError) as error:
        detail = "not a savepoint's record that this version of statemaint can read"
        raise CodecError(detail, offset=0, path=path) from error
