"""A savepoint's record of itself, in the checkpoint that it is.

    _statemaint/savepoint.json                  what was saved, and whether all of it is in place
    _statemaint/savepoint/<store>.json          stores that are proved, until all of them are

The first is written before anything else, and again, with `ended` and everything that belongs to
the savepoint, after the logs and before the true `metadata`.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeVar

from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import LATEST
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.storage import Storage

SAVEPOINT = "_statemaint/savepoint.json"
METADATA = "metadata"
OF_A_QUERY = ("state/", "offsets/", "commits/", "sources/")
"""Where a query, or a savepoint of it, has its files but `metadata`."""
STORES = "_statemaint/savepoint"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStore:
    """One store of a savepoint, read back and equal to the fold."""

    directory: str  # below `state/`
    rows: int
    digest: str  # of its rows, by the key of the source's query
    files: Mapping[str, int]  # the size of each, by path
    of: str = ""  # the `witness` of the savepoint that it was written for


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is to be other in a savepoint than in its source; `None` leaves it as it is.

    Each has a setting of Spark, below `spark.sql.streaming.stateStore` but for the first.
    """

    partitions: int | None = None  # spark.sql.shuffle.partitions
    provider: Provider | None = None  # providerClass
    # checkpointFormatVersion: with `v2`, the names of state files have unique ids.
    ids: Literal["v1", "v2"] | None = None
    codec: str | None = None  # compression.codec, by Spark's short name
    row_checksums: bool | None = None  # rowChecksum.enabled

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Shape":
        version = checkpoint.target or 0
        unique = any(store.rocks and store.rocks.id_at(version) for store in checkpoint.stores)
        return cls(
            partitions=checkpoint.pinned,
            provider=checkpoint.provider,
            ids="v2" if unique else "v1",
            codec=checkpoint.codec,
            row_checksums=checkpoint.row_checksums,
        )

    @property
    def chosen(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def changed(self, choice: "Shape") -> "Shape":
        """Returns the whole shape that a choice makes of this; only RocksDB has unique ids."""
        after = replace(self, **choice.chosen)
        plain = after.provider is Provider.HDFS_BACKED and choice.ids is None
        return replace(after, ids="v1") if plain else after


SAME = Shape()
"""The shape of the source."""
PROVIDERS = {"hdfs": Provider.HDFS_BACKED, "rocksdb": Provider.ROCKSDB}
"""The providers by their names in forms and flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointNote:
    """What a savepoint is; times are by the clock of its own storage."""

    format: Literal[1] = 1
    source: str  # the address of the checkpoint that was saved
    query_id: str  # the query's id there
    id: str  # the id that a query started from the savepoint has
    batch: int  # the batch after which that query continues
    witness: str  # the digest of the batch's entries in the logs of the source
    build: str  # the version of statemaint that wrote it
    begun: float
    ended: float | None = None  # when everything but the true `metadata` was in place
    expired: float | None = None  # when its deletion began; it must not be completed any more
    before: Shape = SAME  # of the source
    shape: Shape = SAME  # what was chosen to be other than in the source
    stores: tuple[SavedStore, ...] = ()  # once it has ended
    logs: Mapping[str, int] = field(default_factory=dict)  # sizes of its other files, then too

    @property
    def forked(self) -> bool:
        return self.id != self.query_id

    @property
    def after(self) -> Shape:
        return self.before.changed(self.shape)

    @property
    def changes(self) -> tuple[str, ...]:
        """Returns what is other than in the source, each in words."""
        before, after = self.before.chosen, self.after.chosen
        changed = (name for name in after if after[name] != before.get(name))
        return tuple(_change(name, before.get(name), after[name]) for name in changed)

    @property
    def files(self) -> Mapping[str, int]:
        of_stores = (store.files.items() for store in self.stores)
        return {**self.logs, **{path: size for files in of_stores for path, size in files}}


def _change(name: str, *values: Any) -> str:
    shown = [("off", "on")[value] if isinstance(value, bool) else str(value) for value in values]
    return f"{name.replace('_', ' ')} {' to '.join(shown)}"


def true_metadata(note: SavepointNote) -> bytes:
    """Returns the `metadata` of the query that starts from a savepoint, as Spark writes it."""
    return json.dumps({"id": note.id}, separators=(",", ":")).encode()


def write_savepoint(storage: Storage, note: SavepointNote) -> None:
    storage.replace(SAVEPOINT, [json.dumps(asdict(note), indent=1).encode() + b"\n"])


def read_savepoint(storage: Storage) -> SavepointNote | None:
    """Returns a savepoint's record; `None` if there is none, an error if it cannot be read."""
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
