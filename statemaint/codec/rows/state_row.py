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
with a checksum(<I) before the size (`codec.integrity.row_checksum`). Mirrors
`RocksDBStateEncoder.scala`.
"""

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from statemaint.codec.integrity import row_checksum
from statemaint.codec.rows.types import AtomicType, DataType, Field, StructType
from statemaint.codec.rows.unsafe_read import Row, Value, row_reader
from statemaint.errors import CodecError

_INT, _MOMENT = struct.Struct("<i"), struct.Struct(">Q")
_SEALED_HEAD, _CHECKSUM_SIZE = struct.Struct("<Ii"), 4
_HIGHEST_BIT, _ABOVE = 1 << 63, 1 << 64
NEGATIVE, POSITIVE, NULL = 0, 1, 2
NUMBERS = {
    "byte": struct.Struct(">b"), "short": struct.Struct(">h"), "integer": struct.Struct(">i"),
    "long": struct.Struct(">q"), "float": struct.Struct(">f"), "double": struct.Struct(">d"),
}  # fmt: skip
FLOATING, _BINARY = ("float", "double"), AtomicType("binary")


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
    """The layout of the rows of a store, or of one of its column families."""

    key: StructType
    value: StructType
    encoder: KeyEncoder
    many: bool = False  # whether a value has any number of entries; `value` is the type of each


@dataclass(frozen=True, slots=True)
class Wrapping:
    """The bytes around all keys and values of a store."""

    families: int = 0  # the size of the column family's number before a key: 2, or 0 without any
    checksums: bool = False
    delimiter: bytes = b""


def parse_encoder(text: str) -> KeyEncoder:
    """Returns the key encoder in a schema file, from the JSON of a `KeyStateEncoderSpec`."""
    try:
        fields = json.loads(text)
        match fields["keyStateEncoderType"]:
            case "NoPrefixKeyStateEncoderSpec":
                return NoPrefix()
            case "PrefixKeyScanStateEncoderSpec":
                return PrefixScan(int(fields["numColsPrefixKey"]))
            case "RangeKeyScanStateEncoderSpec":
                return RangeScan(tuple(map(int, fields["orderingOrdinals"])))
            case "TimestampAsPrefixKeyStateEncoderSpec":
                return TimestampFirst()
            case "TimestampAsPostfixKeyStateEncoderSpec":
                return TimestampLast()
            case _:
                pass
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise CodecError(f"not a key encoder: {text[:80]!r}", offset=0) from error
    raise CodecError(f"key encoder {text[:80]!r} is not one of Spark's", offset=0)


# A reader is a function. It is made once for a layout, of smaller readers: one for keys or values,
# in it one for rows, in that one for each field. It keeps nothing between two reads.

KeyReader = Callable[[bytes], Row]
"""Returns the columns of a key; the offset of a `CodecError` counts in the key."""
ValueReader = Callable[[bytes, bytes], tuple[Row, ...]]
"""Returns the entries of a key's value, exactly one unless the layout has `many`.

The offset of a `CodecError` counts in the value.
"""
_Tail = Callable[[bytes, int], Row]
"""Reads the row from a byte to the end."""


def key_reader(layout: RowLayout, wrapping: Wrapping) -> KeyReader:
    kind, at = layout.key, wrapping.families
    match layout.encoder:
        case Bare():
            row = row_reader(kind)
            return lambda key: row(key, 0, len(key))
        case NoPrefix():
            whole = _versioned(kind)
            return lambda key: whole(key, at)
        case PrefixScan(columns):
            # The metadata may claim any number of columns; at most one too many are counted.
            first = tuple(range(min(columns, len(kind.fields) + 1)))
            return _split(kind, first, _versioned(kind.only(first)), at)
        case RangeScan(ordinals):
            return _split(kind, ordinals, _ordered(kind.only(ordinals)), at)
        case TimestampFirst():
            rest = _versioned(_without_last(kind))
            return lambda key: (*rest(key, at + _MOMENT.size), _moment(key, at))
        case TimestampLast():
            rest, size = _versioned(_without_last(kind)), _MOMENT.size
            return lambda key: (*rest(key[:-size], at), _moment(key, len(key) - size))
        case _:
            assert_never(layout.encoder)


def value_reader(layout: RowLayout, wrapping: Wrapping) -> ValueReader:
    """Returns the reader of a layout's values; checksums of encoded rows are compared."""
    if isinstance(layout.encoder, Bare):
        bare, at = row_reader(layout.value), _CHECKSUM_SIZE if wrapping.checksums else 0
        return lambda _key, value: (bare(value, at, len(value) - at),)
    row = _versioned(layout.value)
    if layout.many:
        return lambda key, value: tuple(row(entry, 0) for entry in entries(key, value, wrapping))
    if wrapping.checksums:
        return lambda key, value: (row(row_checksum.bare_row(key, value, offset=0), 0),)
    return lambda _key, value: (row(value, 0),)


# -- rows


def _versioned(kind: StructType) -> _Tail:
    """Returns the reader of rows after the version of their encoding."""
    row = row_reader(kind)

    def read(data: bytes, at: int) -> Row:
        if data[at : at + 1] != b"\0":
            text = f"encoding of version {data[at]}" if at < len(data) else "no row"
            raise CodecError(f"{text} where a row should be", offset=min(at, len(data)))
        return row(data, at + 1, len(data) - at - 1)

    return read


def _ordered(kind: StructType) -> _Tail:
    names = tuple(number_name(field.type) for field in kind.fields)
    row = _versioned(StructType(tuple(Field(field.name, _BINARY) for field in kind.fields)))

    def read(data: bytes, at: int) -> Row:
        columns = zip(names, row(data, at), strict=True)
        return tuple(_unordered(name, column, at) for name, column in columns)

    return read


def number_name(kind: DataType) -> str:
    if isinstance(kind, AtomicType) and kind.name in NUMBERS:
        return kind.name
    raise CodecError(f"keys cannot be in the order of {kind}", offset=0)


def _unordered(name: str, column: bytes | None, at: int) -> Value:
    digits = number_digits(name, column, at)
    return None if digits is None else NUMBERS[name].unpack(digits)[0]


def number_digits(name: str, column: bytes | None, at: int) -> bytes | None:
    """Returns the big-endian bytes of an ordered number; `None` for null."""
    if column is None or column[:1] == bytes([NULL]):
        return None
    if len(column) != 1 + NUMBERS[name].size or column[0] not in (NEGATIVE, POSITIVE):
        raise CodecError(f"{column[:9].hex()} is not an ordered {name}", offset=at)
    return flipped(column[1:]) if name in FLOATING and column[0] == NEGATIVE else column[1:]


def flipped(digits: bytes) -> bytes:
    return bytes(0xFF ^ byte for byte in digits)


# -- keys


def _split(kind: StructType, apart: tuple[int, ...], front: _Tail, begin: int) -> KeyReader:
    """Returns the reader of keys with the columns `apart` in front; it restores their order."""
    others = tuple(column for column in range(len(kind.fields)) if column not in apart)
    back = _versioned(kind.only(others)) if others else None
    order = sorted(range(len(kind.fields)), key=(*apart, *others).__getitem__)
    start = begin + _INT.size

    def read(key: bytes) -> Row:
        end = start + _size(key, begin, _INT)
        columns = front(key[:end], start)
        if back:
            columns += back(key, end)
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


def _without_last(kind: StructType) -> StructType:
    if not kind.fields:
        raise CodecError("a key without columns has no timestamp", offset=0)
    return StructType(kind.fields[:-1])


def _moment(key: bytes, at: int) -> int:
    """Returns the timestamp in a key, which is long enough because its row was read."""
    moment: int = _MOMENT.unpack_from(key, at)[0] ^ _HIGHEST_BIT
    return moment - _ABOVE if moment & _HIGHEST_BIT else moment


def entries(key: bytes, value: bytes, wrapping: Wrapping) -> Iterator[bytes]:
    """Yields the rows of a value that has any number of them; checksums are compared."""
    head = _SEALED_HEAD if wrapping.checksums else _INT
    if wrapping.checksums:
        row_checksum.check_rows(key, value, offset=0)
    at = 0
    while at < len(value):
        end = at + head.size + _size(value, at, head)
        start = at + head.size
        if wrapping.checksums:  # Spark seals the size with the row
            start += _INT.size
            if _size(value, at + head.size, _INT) != end - start:
                raise CodecError("the row of an entry has another size", offset=start)
        yield value[start:end]
        if end < len(value) and not value.startswith(wrapping.delimiter, end):
            raise CodecError("entries are not all separated in the same way", offset=end)
        at = end + len(wrapping.delimiter)
