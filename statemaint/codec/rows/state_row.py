"""The layout of rows in a store: the bytes that each provider puts around keys and values.

HDFS-backed:

    key     = row
    value   = [checksum(<I)] row                with row checksums, in front

RocksDB:

    key     = [family(<h)] encoded              the family's number, where the store has families
    encoded = 0 row                             NoPrefixKeyStateEncoderSpec
            | size(<i) 0 row 0 row              PrefixKeyScanStateEncoderSpec: the first columns,
                                                whose bytes `size` counts, and the others
            | size(<i) 0 ordered [0 row]        RangeKeyScanStateEncoderSpec: the columns that it
                                                names, and the others where there are any
            | moment(>q) 0 row                  TimestampAsPrefixKeyStateEncoderSpec: the last
            | 0 row moment(>q)                  TimestampAsPostfixKeyStateEncoderSpec: column apart
    ordered = row of binary columns             each: sign, and the number (big-endian)
    sign    = 0 negative | 1 | 2 null           of a negative float or double all bits are flipped
    moment  = the number with its highest bit flipped, so that bytes sort as numbers do
    value   = 0 row
            | entry (delimiter entry)*          lists, and rows of a join in format 4
    entry   = size(<i) 0 row

The leading 0 is the version of the encoding. With row checksums every value consists of entries
with a checksum(<I) before the size (`codec.rocksdb.row_checksum`). Mirrors
`RocksDBStateEncoder.scala`.
"""

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from statemaint.codec.rocksdb import row_checksum
from statemaint.codec.rows.types import AtomicType, DataType, Field, StructType
from statemaint.codec.rows.unsafe_read import Row, Value, row_reader
from statemaint.errors import CodecError

_INT, _MOMENT = struct.Struct("<i"), struct.Struct(">Q")
_SEALED_HEAD, _CHECKSUM_SIZE = struct.Struct("<Ii"), 4
_HIGHEST_BIT, _ABOVE = 1 << 63, 1 << 64
_NEGATIVE, _POSITIVE, _NULL = 0, 1, 2
_NUMBERS = {
    "byte": struct.Struct(">b"), "short": struct.Struct(">h"), "integer": struct.Struct(">i"),
    "long": struct.Struct(">q"), "float": struct.Struct(">f"), "double": struct.Struct(">d"),
}  # fmt: skip
_FLOATING, _BINARY = ("float", "double"), AtomicType("binary")


@dataclass(frozen=True, slots=True)
class Bare:
    """The row without anything around it: HDFS-backed stores."""


@dataclass(frozen=True, slots=True)
class NoPrefix:
    """`NoPrefixKeyStateEncoderSpec`."""


@dataclass(frozen=True, slots=True)
class PrefixScan:
    """`PrefixKeyScanStateEncoderSpec`: the first columns are encoded separately, in front."""

    columns: int


@dataclass(frozen=True, slots=True)
class RangeScan:
    """`RangeKeyScanStateEncoderSpec`: the columns of these ordinals come separately, in front."""

    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TimestampFirst:
    """`TimestampAsPrefixKeyStateEncoderSpec`."""


@dataclass(frozen=True, slots=True)
class TimestampLast:
    """`TimestampAsPostfixKeyStateEncoderSpec`."""


KeyEncoder = Bare | NoPrefix | PrefixScan | RangeScan | TimestampFirst | TimestampLast


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The layout of the rows of a store, or of one of its column families.

    Attributes:
        key: the columns of keys.
        value: the columns of values, or of each entry in them.
        encoder: the encoding of keys.
        many: whether a value has any number of entries.
    """

    key: StructType
    value: StructType
    encoder: KeyEncoder
    many: bool = False


@dataclass(frozen=True, slots=True)
class Wrapping:
    """The bytes around all keys and values of a store.

    Attributes:
        families: the size of the column family's number before a key: 2, or 0 without families.
        checksums: whether every row carries a checksum.
        delimiter: the bytes between entries.
    """

    families: int = 0
    checksums: bool = False
    delimiter: bytes = b""


def parse_encoder(text: str) -> KeyEncoder:
    """Returns the key encoder in a schema file, from the JSON of a `KeyStateEncoderSpec`.

    Raises:
        CodecError: when Spark 4.3 has no such encoder.
    """
    try:
        found = json.loads(text)
        match found["keyStateEncoderType"]:
            case "NoPrefixKeyStateEncoderSpec":
                return NoPrefix()
            case "PrefixKeyScanStateEncoderSpec":
                return PrefixScan(int(found["numColsPrefixKey"]))
            case "RangeKeyScanStateEncoderSpec":
                return RangeScan(tuple(int(one) for one in found["orderingOrdinals"]))
            case "TimestampAsPrefixKeyStateEncoderSpec":
                return TimestampFirst()
            case "TimestampAsPostfixKeyStateEncoderSpec":
                return TimestampLast()
            case _:
                pass
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise CodecError(f"not a key encoder: {text[:80]!r}", offset=0) from error
    raise CodecError(f"key encoder {text[:80]!r} is not one of Spark's", offset=0)


def key_reader(layout: RowLayout, wrapping: Wrapping) -> Callable[[bytes], Row]:
    """Returns a function that reads the columns of a key.

    It raises `CodecError`, with an offset in the key, when the bytes do not follow the layout.

    Raises:
        CodecError: when the layout names columns that the key does not have.
    """
    kind, at = layout.key, wrapping.families
    match layout.encoder:
        case Bare():
            bare = row_reader(kind)
            return lambda key: bare(key, 0)
        case NoPrefix():
            whole = _versioned(kind)
            return lambda key: whole(key, at)
        case PrefixScan(columns):
            # The metadata may claim any number of columns; at most one too many are counted.
            first = tuple(range(min(columns, len(kind.fields) + 1)))
            return _in_two(kind, first, _versioned(kind.only(first)), at)
        case RangeScan(ordinals):
            return _in_two(kind, ordinals, _ordered(kind.only(ordinals)), at)
        case TimestampFirst():
            return _timestamp_first(_versioned(_without_last(kind)), at)
        case TimestampLast():
            return _timestamp_last(_versioned(_without_last(kind)), at)
        case _:
            assert_never(layout.encoder)


_Reader = Callable[[bytes, int], Row]
_KeyReader = Callable[[bytes], Row]


def _versioned(kind: StructType) -> _Reader:
    read = row_reader(kind)

    def versioned(data: bytes, at: int) -> Row:
        if data[at : at + 1] != b"\0":
            text = f"encoding of version {data[at]}" if at < len(data) else "no row"
            raise CodecError(f"{text} where a row should be", offset=min(at, len(data)))
        return read(data, at + 1)

    return versioned


def _in_two(kind: StructType, apart: tuple[int, ...], front: _Reader, at: int) -> _KeyReader:
    """Returns a function that reads a key with some columns in front, and restores their order."""
    others = tuple(one for one in range(len(kind.fields)) if one not in apart)
    back = _versioned(kind.only(others)) if others else None
    order = sorted(range(len(kind.fields)), key=(*apart, *others).__getitem__)

    def read(key: bytes) -> Row:
        begin = at + _INT.size
        size = _size(key, at, _INT)
        end = begin + size
        columns = front(key[:end], begin) + (back(key, end) if back else ())
        return tuple(columns[place] for place in order)

    return read


def _size(data: bytes, at: int, head: struct.Struct) -> int:
    """Returns the size at the end of a head, checked against the data after it."""
    if at + head.size > len(data):
        raise CodecError(f"{len(data)} bytes are too few for a size", offset=min(at, len(data)))
    size: int = head.unpack_from(data, at)[-1]
    if not 0 <= size <= len(data) - at - head.size:
        raise CodecError(f"{size} bytes do not fit into {len(data)}", offset=at)
    return size


def _ordered(kind: StructType) -> _Reader:
    names = tuple(_number(field.type) for field in kind.fields)
    read = _versioned(StructType(tuple(Field(one.name, _BINARY) for one in kind.fields)))

    def ordered(data: bytes, at: int) -> Row:
        columns = zip(names, read(data, at), strict=True)
        return tuple(_unordered(name, column, at) for name, column in columns)

    return ordered


def _number(kind: DataType) -> str:
    if isinstance(kind, AtomicType) and kind.name in _NUMBERS:
        return kind.name
    raise CodecError(f"keys cannot be in the order of {kind}", offset=0)


def _unordered(name: str, column: bytes | None, at: int) -> Value:
    """Returns the number in one column of an ordered row."""
    if column is None or column[:1] == bytes([_NULL]):
        return None
    number = _NUMBERS[name]
    if len(column) != 1 + number.size or column[0] not in (_NEGATIVE, _POSITIVE):
        raise CodecError(f"{column[:9].hex()} is not an ordered {name}", offset=at)
    digits = column[1:]
    if name in _FLOATING and column[0] == _NEGATIVE:
        digits = bytes(0xFF ^ byte for byte in digits)
    return number.unpack(digits)[0]


def _without_last(kind: StructType) -> StructType:
    if not kind.fields:
        raise CodecError("a key without columns has no timestamp", offset=0)
    return StructType(kind.fields[:-1])


def _timestamp_first(rest: _Reader, at: int) -> _KeyReader:
    return lambda key: (*rest(key, at + _MOMENT.size), _moment(key, at))


def _timestamp_last(rest: _Reader, at: int) -> _KeyReader:
    def read(key: bytes) -> Row:
        end = len(key) - _MOMENT.size
        return (*rest(key[: max(end, 0)], at), _moment(key, end))

    return read


def _moment(key: bytes, at: int) -> int:
    """Returns the timestamp of a key, which is long enough because its row was read."""
    found: int = _MOMENT.unpack_from(key, at)[0] ^ _HIGHEST_BIT
    return found - _ABOVE if found & _HIGHEST_BIT else found


def value_reader(
    layout: RowLayout, wrapping: Wrapping
) -> Callable[[bytes, bytes], tuple[Row, ...]]:
    """Returns a function that reads the entries of a value, given its key: one unless `many`.

    It raises `CodecError`, with an offset in the value, when the bytes do not follow the layout.
    """
    if isinstance(layout.encoder, Bare):
        bare, start = row_reader(layout.value), _CHECKSUM_SIZE if wrapping.checksums else 0
        return lambda _key, value: (bare(value, start),)
    read = _versioned(layout.value)
    if layout.many:
        return lambda key, value: tuple(read(entry, 0) for entry in _entries(key, value, wrapping))
    if wrapping.checksums:
        return lambda key, value: (read(row_checksum.bare_row(key, value, offset=0), 0),)
    return lambda _key, value: (read(value, 0),)


def _entries(key: bytes, value: bytes, wrapping: Wrapping) -> Iterator[bytes]:
    head = _SEALED_HEAD if wrapping.checksums else _INT
    if wrapping.checksums:
        row_checksum.check_rows(key, value, offset=0)
    at = 0
    while at < len(value):
        end = at + head.size + _size(value, at, head)
        yield value[at + head.size : end]
        if end < len(value) and not value.startswith(wrapping.delimiter, end):
            raise CodecError("entries are not separated alike", offset=end)
        at = end + len(wrapping.delimiter)
