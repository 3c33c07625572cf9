"""The reader of `UnsafeRow`, the form of Spark's rows in memory and in state.

    row     = nulls word{n} part*            n: the fields of its struct; all little-endian
    nulls   = (8 bytes){ceil(n / 64)}        bit i: field i is null
    word    = value, from the low bytes on   boolean byte short integer long float double date
                                             timestamp(_ntz), intervals but the calendar's, and
                                             decimals of up to 18 digits, unscaled
            | size(<I) offset(<I)            all else is in a part; counted from the row's start
    part    = text | bytes | row | array | map | digits | calendar, padded to 8 bytes
    array   = count(<q) nulls element* part*     elements as wide as their type, 8 bytes for parts,
                                                 whose offsets count from the array's start
    map     = size(<q) array(keys) array(values) the size of the first array
    digits  = unscaled number, big-endian
    calendar = months(<i) days(<i) microseconds(<q)

Every offset and length is checked, and the parts of one row or array together are not larger than
the row or array. So the work is bounded by the bytes, however contradictory they are. Mirrors
`UnsafeRow`, `UnsafeArrayData` and `UnsafeMapData`.
"""

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, assert_never

from statemaint.codec.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    MapType,
    StructType,
    element_width,
)
from statemaint.errors import CodecError

Value = Any
"""`None`, a bool, number or text, bytes, a `Decimal`; a date as days, a timestamp as microseconds
and an interval as months or microseconds (the calendar's as a triple); a struct or array as a tuple
and a map as a tuple of pairs."""

Row = tuple[Value, ...]
"""The fields of a struct, in its order."""

RowReader = Callable[[bytes, int, int], Row]
"""Reads the row that begins at a byte and takes some bytes.

The offset of a `CodecError` counts in all bytes.
"""

_LONG, _POINTER, _CALENDAR = struct.Struct("<q"), struct.Struct("<II"), struct.Struct("<iiq")
_MOST_DECIMAL_BYTES = 16
_EXACT = Context(prec=60)
_WIDTH = 8


class _Parts:
    """The bytes of a row or an array, and the number of bytes that its parts may still take."""

    __slots__ = ("base", "data", "left", "size")

    def __init__(self, data: bytes, base: int, size: int) -> None:
        self.data, self.base, self.size = data, base, size
        self.left = size

    def locate(self, at: int) -> tuple[int, int]:
        size, offset = _POINTER.unpack_from(self.data, at)
        self.left -= size
        if offset + size > self.size or self.left < 0:
            text = f"a part of {size} bytes at {offset} does not fit into {self.size}"
            raise CodecError(text, offset=at)
        return self.base + offset, size


_WordReader = Callable[[_Parts, int], Value]
"""Reads the value whose word begins at a byte, from the word or from the part it points to."""
_PartReader = Callable[[bytes, int, int], Value]
"""Reads the part that begins at a byte and takes some bytes."""


def row_reader(kind: StructType) -> RowReader:
    """Returns the reader of a struct's rows, which keeps nothing between two reads."""
    fields = tuple(_word_reader(field.type) for field in kind.fields)
    nulls = (len(fields) + 63) // 64 * 8
    least = nulls + _WIDTH * len(fields)

    def read(data: bytes, at: int, size: int) -> Row:
        if size < least:
            text = f"row of {max(size, 0)} bytes is too short for {len(fields)} fields"
            raise CodecError(text, offset=min(at, len(data)))
        words = at + nulls
        bits = int.from_bytes(data[at:words], "little")
        parts = _Parts(data, at, size)
        return tuple(
            None if bits >> number & 1 else field(parts, words + _WIDTH * number)
            for number, field in enumerate(fields)
        )

    return read


def _word_reader(kind: DataType) -> _WordReader:
    match kind:
        case AtomicType("void"):
            return lambda _parts, _at: None
        case AtomicType() if kind.layout:
            number = kind.layout.unpack_from
            return lambda parts, at: number(parts.data, at)[0]
        case DecimalType(_, scale) if kind.long:
            return lambda parts, at: _scaled(_LONG.unpack_from(parts.data, at)[0], scale)
        case _:
            part = _part_reader(kind)
            return lambda parts, at: part(parts.data, *parts.locate(at))


def _part_reader(kind: DataType) -> _PartReader:
    match kind:
        case StructType():
            return row_reader(kind)
        case ArrayType(element):
            return _array_reader(element)
        case MapType(key, value):
            return _map_reader(_array_reader(key), _array_reader(value))
        case DecimalType(_, scale):
            return lambda data, at, size: _scaled(_digits(data, at, size), scale)
        case AtomicType(name):
            return _ATOMIC_PARTS[name]
        case _:
            assert_never(kind)


def _calendar(data: bytes, at: int, size: int) -> tuple[int, int, int]:
    if size != _CALENDAR.size:
        raise CodecError(f"calendar interval of {size} bytes", offset=at)
    interval: tuple[int, int, int] = _CALENDAR.unpack_from(data, at)
    return interval


_ATOMIC_PARTS: dict[str, _PartReader] = {
    # Bytes that are not UTF-8 become replacement characters.
    "string": lambda data, at, size: data[at : at + size].decode("utf-8", "replace"),
    "binary": lambda data, at, size: bytes(data[at : at + size]),
    "interval": _calendar,
}


def _digits(data: bytes, at: int, size: int) -> int:
    if size > _MOST_DECIMAL_BYTES:
        raise CodecError(f"decimal of {size} bytes", offset=at)
    return int.from_bytes(data[at : at + size], "big", signed=True)


def _scaled(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, context=_EXACT)


def _array_reader(kind: DataType) -> _PartReader:
    element, width = _word_reader(kind), element_width(kind)

    def read(data: bytes, at: int, size: int) -> Row:
        count = _long(data, at, size)
        begin = _LONG.size + (count + 63) // 64 * 8
        if count < 0 or begin + width * count > size:
            raise CodecError(f"array of {size} bytes cannot have {count} elements", offset=at)
        bits = int.from_bytes(data[at + _LONG.size : at + begin], "little")
        parts, first = _Parts(data, at, size), at + begin
        return tuple(
            None if bits >> number & 1 else element(parts, first + width * number)
            for number in range(count)
        )

    return read


def _map_reader(read_keys: _PartReader, read_values: _PartReader) -> _PartReader:
    def read(data: bytes, at: int, size: int) -> Row:
        width = _long(data, at, size)
        rest = size - _LONG.size - width
        if width < 0 or rest < 0:
            raise CodecError(f"map of {size} bytes cannot have keys of {width}", offset=at)
        begin = at + _LONG.size
        keys = read_keys(data, begin, width)
        values = read_values(data, begin + width, rest)
        if len(keys) != len(values):
            raise CodecError(f"map of {len(keys)} keys and {len(values)} values", offset=at)
        return tuple(zip(keys, values, strict=True))

    return read


def _long(data: bytes, at: int, size: int) -> int:
    if size < _LONG.size:
        raise CodecError(f"{size} bytes where a number of 8 should be", offset=at)
    number: int = _LONG.unpack_from(data, at)[0]
    return number
