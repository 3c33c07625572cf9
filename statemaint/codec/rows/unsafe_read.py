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

_Word = Callable[[bytes, int], Value]
_Part = Callable[[bytes, int, int], Value]

_LONG, _POINTER, _CALENDAR = struct.Struct("<q"), struct.Struct("<II"), struct.Struct("<iiq")
_MOST_DECIMAL_BYTES = 16
_EXACT = Context(prec=60)
_WIDTH = 8


def row_reader(kind: StructType) -> Callable[[bytes, int], Row]:
    """Returns a function that reads a row of a struct from some byte to the end.

    It raises `CodecError` when the bytes are not such a row; `offset` counts in them.
    """
    read = _row_reader(kind)
    return lambda data, at: read(data, at, len(data) - at)


def decode(kind: StructType, row: bytes) -> Row:
    """Returns the fields of one row.

    Raises:
        CodecError: when the bytes are not such a row; `offset` counts in them.
    """
    return row_reader(kind)(row, 0)


def _row_reader(kind: StructType) -> _Part:
    count = len(kind.fields)
    nulls = (count + 63) // 64 * 8
    readers = tuple(_field_reader(field.type) for field in kind.fields)

    def read(data: bytes, base: int, size: int) -> Value:
        if size < nulls + _WIDTH * count:
            text = f"row of {max(size, 0)} bytes is too short for {count} fields"
            raise CodecError(text, offset=min(base, len(data)))
        bits = int.from_bytes(data[base : base + nulls], "little")
        parts = _Parts(data, base, size)
        at = base + nulls
        return tuple(
            None if bits >> number & 1 else reader(parts, at + _WIDTH * number)
            for number, reader in enumerate(readers)
        )

    return read


class _Parts:
    """The bytes of a row or an array, and the number of bytes that its parts may still take."""

    __slots__ = ("base", "data", "left", "size")

    def __init__(self, data: bytes, base: int, size: int) -> None:
        self.data, self.base, self.size = data, base, size
        self.left = size

    def locate(self, at: int) -> tuple[int, int]:
        """Returns the start and the size of the part that a word points to."""
        size, offset = _POINTER.unpack_from(self.data, at)
        self.left -= size
        if offset + size > self.size or self.left < 0:
            text = f"a part of {size} bytes at {offset} does not fit into {self.size}"
            raise CodecError(text, offset=at)
        return self.base + offset, size


_Reader = Callable[[_Parts, int], Value]


def _field_reader(kind: DataType) -> _Reader:
    """Returns a function that reads a value of a type, given the place of its word."""
    if (word := _word_reader(kind)) is not None:
        return lambda parts, at: word(parts.data, at)
    part = _part_reader(kind)
    return lambda parts, at: part(parts.data, *parts.locate(at))


def _word_reader(kind: DataType) -> _Word | None:
    match kind:
        case AtomicType("void"):
            return lambda _data, _at: None
        case AtomicType() if kind.layout:
            unpack = kind.layout.unpack_from
            return lambda data, at: unpack(data, at)[0]
        case DecimalType(_, scale) if kind.long:
            return lambda data, at: _scaled(_LONG.unpack_from(data, at)[0], scale)
        case _:
            return None


def _part_reader(kind: DataType) -> _Part:
    match kind:
        case StructType():
            return _row_reader(kind)
        case ArrayType(element):
            return _array_reader(element)
        case MapType(key, value):
            return _map_reader(_array_reader(key), _array_reader(value))
        case DecimalType(_, scale):
            return lambda data, at, size: _digits(data, at, size, scale)
        case AtomicType(name):
            return {"string": _text, "binary": _bytes, "interval": _calendar}[name]
        case _:
            assert_never(kind)


def _text(data: bytes, at: int, size: int) -> str:
    return data[at : at + size].decode("utf-8", "replace")


def _bytes(data: bytes, at: int, size: int) -> bytes:
    return bytes(data[at : at + size])


def _digits(data: bytes, at: int, size: int, scale: int) -> Decimal:
    if size > _MOST_DECIMAL_BYTES:
        raise CodecError(f"decimal of {size} bytes", offset=at)
    return _scaled(int.from_bytes(data[at : at + size], "big", signed=True), scale)


def _scaled(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, context=_EXACT)


def _calendar(data: bytes, at: int, size: int) -> tuple[int, int, int]:
    if size != _CALENDAR.size:
        raise CodecError(f"calendar interval of {size} bytes", offset=at)
    found: tuple[int, int, int] = _CALENDAR.unpack_from(data, at)
    return found


def _array_reader(element: DataType) -> _Part:
    reader = _field_reader(element)
    width = element_width(element)

    def read(data: bytes, base: int, size: int) -> Value:
        count = _long(data, base, size)
        nulls = (count + 63) // 64 * 8
        begin = _LONG.size + nulls
        if count < 0 or begin + width * count > size:
            raise CodecError(f"array of {size} bytes cannot have {count} elements", offset=base)
        bits = int.from_bytes(data[base + _LONG.size : base + begin], "little")
        parts = _Parts(data, base, size)
        return tuple(
            None if bits >> number & 1 else reader(parts, base + begin + width * number)
            for number in range(count)
        )

    return read


def _map_reader(keys: _Part, values: _Part) -> _Part:
    def read(data: bytes, base: int, size: int) -> Value:
        width = _long(data, base, size)
        rest = size - _LONG.size - width
        if width < 0 or rest < 0:
            text = f"map of {size} bytes cannot have keys of {width}"
            raise CodecError(text, offset=base)
        at = base + _LONG.size
        found = keys(data, at, width), values(data, at + width, rest)
        if len(found[0]) != len(found[1]):
            text = f"map of {len(found[0])} keys and {len(found[1])} values"
            raise CodecError(text, offset=base)
        return tuple(zip(*found, strict=True))

    return read


def _long(data: bytes, at: int, size: int) -> int:
    if size < _LONG.size:
        raise CodecError(f"{size} bytes where a number of 8 should be", offset=at)
    found: int = _LONG.unpack_from(data, at)[0]
    return found
