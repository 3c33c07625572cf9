"""The columns that the rows of a store are shuffled by, as the bytes that Spark hashes."""

import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from statemaint.codec.metadata import logs
from statemaint.codec.rows.murmur3 import hash_row, partition_of, pmod
from statemaint.codec.rows.state_row import (
    Bare,
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    RowLayout,
    TimestampFirst,
    TimestampLast,
)
from statemaint.codec.rows.types import AtomicType, DataType, StructType, must_be_writable
from statemaint.codec.rows.unsafe_write import pointed, prefix_of
from statemaint.errors import CodecError, ConfigError, NotFoundError
from statemaint.model.checkpoint import Operator
from statemaint.model.ids import batch_of
from statemaint.scan.query_logs import count_in
from statemaint.state.rows import Part, StateSelection
from statemaint.state.versions import are_sessions

_INT, _MOMENT, _WORD = struct.Struct("<i"), 8, 8
# Their rows are shuffled by the whole key.
_WHOLE_KEY = (
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState",
)
_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"
SESSIONS, JOIN = "sessionWindowStateStoreSaveExec", "symmetricHashJoin"
WITH_STATE, _TTL = "transformWithState", "$ttl_"
_WITH_LAST = ("keyWithIndexToValue", "keyWithTsToValues", "tsWithKey")


@dataclass(frozen=True, slots=True)
class ShuffleKey:
    """Finds the columns by which rows are shuffled in the keys of a store.

    Attributes:
        kind: the row that begins with them.
        columns: their number.
        before: the number of bytes before the row, without those that `passes` adds.
        after: the number of bytes after it.
        size_at: the place of its size in the key, `None` without one.
        passes: whether the size is that of something in front of the row.
        path: from the key's row to a row within it: the columns of each row on the way, and the
            number of the one to enter.
    """

    kind: StructType
    columns: int
    before: int = 0
    after: int = 0
    size_at: int | None = None
    passes: bool = False
    path: tuple[tuple[int, int], ...] = ()

    def column(self, number: int) -> "ShuffleKey | None":
        """Returns the shuffle key that is a column, if the column is a row itself."""
        fields = self.kind.fields
        kind = fields[number].type if number < len(fields) else None
        if not isinstance(kind, StructType):
            return None
        path = (*self.path, (len(fields), number))
        return replace(self, kind=kind, columns=len(kind.fields), path=path)

    def row(self, key: bytes) -> bytes:
        begin, end = self.before, len(key) - self.after
        if self.size_at is not None:
            if len(key) < self.size_at + _INT.size:
                raise CodecError(f"{len(key)} bytes are too few for a key", offset=0)
            size: int = _INT.unpack_from(key, self.size_at)[0]
            begin, end = (begin + size, end) if self.passes else (begin, begin + size - 1)
        row = key[begin:end]
        for columns, column in self.path:
            row = pointed(row, 0, _WORD * ((columns + 63) // 64 + column))
        return row

    def bytes_of(self, key: bytes) -> bytes:
        row = self.row(key)
        whole = self.columns == len(self.kind.fields)
        return row if whole else prefix_of(row, self.kind, self.columns)

    def hash_of(self, key: bytes) -> int:
        """Returns the hash by which a key is shuffled. Mirrors `HashPartitioning`."""
        return hash_row(self.row(key), self.kind, columns=self.columns)

    def partition(self, key: bytes, partitions: int) -> int:
        return pmod(self.hash_of(key), partitions)


def shuffles_by_all_keys(conf: Mapping[str, str]) -> bool:
    """Returns whether a query surely shuffles by all keys; one from before Spark 3.3 may not."""
    return conf.get(_STRICT, "").strip().lower() == "true"


def shuffle_key(
    operator: Operator | None, name: str, layout: RowLayout, families: int
) -> ShuffleKey | None:
    """Returns the shuffle key of the rows of a store, or of a column family, if it is known.

    `families` is the size in bytes of the column family's number in front of each key.
    """
    try:
        kind = must_be_writable(layout.key)
    except CodecError:
        return None  # a type that hashes differently, such as text with a collation
    if operator and operator.name.startswith(WITH_STATE):
        return _grouping_key(name, layout, families)
    columns = _columns(operator, name, kind, session=are_sessions(kind, layout.value))
    key = _row_in(layout.encoder, families, kind)
    if not columns or key is None or columns > len(key.kind.fields):
        return None
    return replace(key, columns=columns)


def _grouping_key(name: str, layout: RowLayout, families: int) -> ShuffleKey | None:
    """Returns the grouping key of a query's `transformWithState`, in the keys of a family.

    It is the whole key of a variable, the column `key` of a map's and of timers' keys, and in an
    order by time that of the last column. Mirrors `TransformWithStateKeyValueRowSchemaUtils`.
    """
    key = _row_in(layout.encoder, families, layout.key)
    if key is None or isinstance(layout.encoder, NoPrefix):
        return key
    inner = key.column(0)
    composite = inner and [field.name for field in inner.kind.fields] == ["key", "userKey"]
    return inner.column(0) if inner and composite and name.startswith(_TTL) else inner


def _columns(operator: Operator | None, name: str, kind: StructType, *, session: bool) -> int:
    side, _, rest = name.partition("-")
    if (side in ("left", "right") and operator is None) or (operator and operator.name == JOIN):
        return len(kind.fields) - (rest in _WITH_LAST)
    if session and (operator is None or operator.name == SESSIONS):
        return len(kind.fields) - 1
    whole = operator is None or operator.name in _WHOLE_KEY
    return len(kind.fields) if whole and not session else 0


def _row_in(encoder: KeyEncoder, families: int, kind: StructType) -> ShuffleKey | None:
    """Returns the first row in a key that is not encoded, with all of its columns."""
    version = families + 1
    match encoder:
        case Bare():
            key = ShuffleKey(kind, 0)
        case NoPrefix():
            key = ShuffleKey(kind, 0, version)
        case PrefixScan(count):
            front = StructType(kind.fields[:count])
            key = ShuffleKey(front, 0, version + _INT.size, size_at=families)
        case RangeScan((0,)):
            rest = StructType(kind.fields[1:])
            key = ShuffleKey(rest, 0, version + _INT.size, size_at=families, passes=True)
        case TimestampFirst():
            key = ShuffleKey(StructType(kind.fields[:-1]), 0, version + _MOMENT)
        case TimestampLast():
            key = ShuffleKey(StructType(kind.fields[:-1]), 0, version, after=_MOMENT)
        case _:
            return None
    return replace(key, columns=len(key.kind.fields))


_INTEGERS = ("byte", "short", "integer", "long")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_TIME = re.compile(r"[-+0-9]")


def holding(selection: StateSelection, text: str) -> StateSelection:
    """Returns the partitions that may hold rows with a key column that reads as a text.

    They are known if rows are shuffled by one column only, which is the only one that can read as
    the text, the query shuffles by all keys, and the offsets of the batch agree with the listing on
    the number of partitions. If anything is in doubt, every partition may hold such a row.
    """
    count = _partitions(selection)
    if count is None:
        return selection
    # All partitions have the same column families, so one part of each kind is enough.
    kinds = {(part.store.id.store, name): part for part in selection.parts for name in part.layouts}
    places: set[int] = set()
    for (_, name), part in kinds.items():
        place = _place(selection, part, name, text, count)
        if place is None:
            return selection
        places |= place
    parts = tuple(part for part in selection.parts if part.store.id.partition in places)
    return replace(selection, parts=parts)


def _partitions(selection: StateSelection) -> int | None:
    """Returns the number of partitions at the version; `None` if it is not certain."""
    checkpoint, batch = selection.checkpoint, batch_of(selection.version)
    operators = {part.store.id.operator for part in selection.parts}
    listed = {checkpoint.partitions.get(operator) for operator in operators}
    if checkpoint.counts:
        listed = {checkpoint.counts.get(batch)}
    with suppress(CodecError, NotFoundError):
        conf = logs.parse_conf(selection.storage.read(f"offsets/{batch}"))
        count = count_in(conf)
        return count if shuffles_by_all_keys(conf) and listed == {count} else None
    return None


def _place(
    selection: StateSelection, part: Part, name: str | None, text: str, count: int
) -> set[int] | None:
    """Returns the partitions of a kind's rows with a column of that text; `None` for all."""
    layout, store = part.layouts[name], part.store.id
    fields = enumerate(layout.key.fields)
    columns = [column for column, field in fields if _may_be(field.type, text)]
    if not columns:
        return set()
    operators = {operator.id: operator for operator in selection.checkpoint.operators}
    key = shuffle_key(operators.get(store.operator), name or store.store, layout, 0)
    if key is None or key.columns != 1 or columns != [0]:
        return None
    return _hashed(layout.key.fields[0].type, text, count)


def _may_be(kind: DataType, text: str) -> bool:
    """Returns whether a value of a type may read as a text; a null of any type reads `null`."""
    match kind:
        case StructType(fields):
            return any(_may_be(field.type, text) for field in fields)
        case AtomicType(name) if name in _INTEGERS:
            return text == "null" or _NUMBER.fullmatch(text) is not None
        case AtomicType(name) if name in _TIMES:
            return text == "null" or _TIME.match(text) is not None
        case _:
            return True


def _hashed(kind: DataType, text: str, count: int) -> set[int] | None:
    if text == "null" or not isinstance(kind, AtomicType):
        return None
    if kind.name != "string" and kind.name not in _INTEGERS:
        return None
    field = {"name": "key", "type": kind.name, "nullable": True, "metadata": {}}
    value = text if kind.name == "string" else int(text)
    with suppress(ConfigError):  # a number that is too large for the type
        return {partition_of([value], {"type": "struct", "fields": [field]}, count)}
    return None
