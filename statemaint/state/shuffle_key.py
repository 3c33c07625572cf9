"""The columns that the rows of a store are shuffled by, as the bytes that Spark hashes."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from statemaint.codec.rows.murmur3 import hash_row, pmod
from statemaint.codec.rows.state_row import (
    Bare,
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RowLayout,
    TimestampFirst,
    TimestampLast,
)
from statemaint.codec.rows.types import StructType, must_be_writable
from statemaint.codec.rows.unsafe_write import prefix_of
from statemaint.errors import CodecError
from statemaint.model.checkpoint import Operator

_INT, _MOMENT = struct.Struct("<i"), 8
_SESSION_START = "sessionStartTime"
# Their rows are shuffled by the whole key.
_WHOLE_KEY = (
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState",
)
_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"
_SESSIONS, _JOIN = "sessionWindowStateStoreSaveExec", "symmetricHashJoin"
_WITH_LAST = ("keyWithIndexToValue", "keyWithTsToValues", "tsWithKey")


@dataclass(frozen=True, slots=True)
class ShuffleKey:
    """Finds the columns by which rows are shuffled in the keys of a store.

    Attributes:
        row: returns the row within a key, with all the columns of `kind`.
        kind: the types of these columns.
        columns: the number of them, from the first, that decide the partition.
    """

    row: Callable[[bytes], bytes]
    kind: StructType
    columns: int

    def bytes_of(self, key: bytes) -> bytes:
        """Returns the deciding columns as a separate row."""
        row = self.row(key)
        whole = self.columns == len(self.kind.fields)
        return row if whole else prefix_of(row, self.kind, self.columns)

    def partition(self, key: bytes, partitions: int) -> int:
        """Returns the partition that a key belongs to. Mirrors `HashPartitioning`."""
        return pmod(hash_row(self.row(key), self.kind, columns=self.columns), partitions)


def shuffles_by_all_keys(conf: Mapping[str, str]) -> bool:
    """Returns whether a query with these settings certainly shuffles its rows by all of its keys.

    A query that began before Spark 3.3 may keep a partitioning by some of them.
    """
    return conf.get(_STRICT, "").strip().lower() == "true"


def shuffle_key(
    operator: Operator | None, name: str, layout: RowLayout, families: int
) -> ShuffleKey | None:
    """Returns the shuffle key of the rows of a store, if it is known.

    Args:
        operator: the operator by its metadata; Spark before 4.0 writes none.
        name: the name of the column family, or of the store if it has none.
        layout: the layout of the rows of either.
        families: the size in bytes of the column family's number in front of each key.
    """
    try:
        kind = must_be_writable(layout.key)
    except CodecError:
        return None  # a type that hashes differently, such as text with a collation
    columns = _columns(operator, name, kind)
    reader = _row_in(layout.encoder, families, kind)
    if not columns or reader is None:
        return None
    row, within = reader
    return ShuffleKey(row, within, columns) if columns <= len(within.fields) else None


def _columns(operator: Operator | None, name: str, kind: StructType) -> int:
    """Returns the number of columns of a key that decide its partition; 0 if it is unknown."""
    side, _, rest = name.partition("-")
    if (side in ("left", "right") and operator is None) or (operator and operator.name == _JOIN):
        return len(kind.fields) - (rest in _WITH_LAST)
    session = bool(kind.fields) and kind.fields[-1].name == _SESSION_START
    if session and (operator is None or operator.name == _SESSIONS):
        return len(kind.fields) - 1
    whole = operator is None or operator.name in _WHOLE_KEY
    return len(kind.fields) if whole and not session else 0


def _row_in(
    encoder: KeyEncoder, families: int, kind: StructType
) -> tuple[Callable[[bytes], bytes], StructType] | None:
    """Returns a function that extracts the row of the first columns of a key, and its columns."""
    first, but_last = families + 1, StructType(kind.fields[:-1])
    match encoder:
        case Bare():
            return (lambda key: key), kind
        case NoPrefix():
            return (lambda key: key[first:]), kind
        case PrefixScan(columns):
            begin = families + _INT.size
            front = StructType(kind.fields[:columns])
            return (lambda key: key[begin + 1 : begin + _size(key, families)]), front
        case TimestampFirst():
            return (lambda key: key[first + _MOMENT :]), but_last
        case TimestampLast():
            return (lambda key: key[first:-_MOMENT]), but_last
        case _:
            return None


def _size(key: bytes, at: int) -> int:
    if len(key) < at + _INT.size:
        raise CodecError(f"{len(key)} bytes are too few for a key", offset=0)
    size: int = _INT.unpack_from(key, at)[0]
    return size
