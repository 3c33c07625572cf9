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
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Protocol, assert_never

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

_LONG, _POINTER, _CALENDAR = struct.Struct("<q"), struct.Struct("<II"), struct.Struct("<iiq")
_MOST_DECIMAL_BYTES = 16
_EXACT = Context(prec=60)
_WIDTH = 8


def decode(kind: StructType, row: bytes) -> Row:
    """Returns the fields of one row.

    Raises:
        CodecError: when the bytes are not such a row; `offset` counts in them.
    """
    return RowReader.of(kind).read(row, 0, len(row))


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


class _WordReader(Protocol):
    """Reads the values of one type, each from its word or from the part that the word points to."""

    def read(self, parts: _Parts, at: int) -> Value:
        """Returns the value whose word begins at a byte."""
        ...


class _PartReader(Protocol):
    """Reads the parts of one type."""

    def read(self, data: bytes, at: int, size: int) -> Value:
        """Returns the value of the `size` bytes from a byte on."""
        ...


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the rows of a struct.

    Attributes:
        fields: the readers of the fields, in their order.
        nulls: the size of the null bits.
        least: the size of a row whose fields have no parts.
    """

    fields: tuple[_WordReader, ...]
    nulls: int
    least: int

    @classmethod
    def of(cls, kind: StructType) -> "RowReader":
        """Returns the reader of a struct's rows."""
        count = len(kind.fields)
        nulls = (count + 63) // 64 * 8
        fields = tuple(_word_reader(field.type) for field in kind.fields)
        return cls(fields, nulls, nulls + _WIDTH * count)

    def read(self, data: bytes, at: int, size: int) -> Row:
        """Returns the fields of the row in the `size` bytes from a byte on.

        Raises:
            CodecError: when the bytes are not such a row; `offset` counts in `data`.
        """
        if size < self.least:
            text = f"row of {max(size, 0)} bytes is too short for {len(self.fields)} fields"
            raise CodecError(text, offset=min(at, len(data)))
        words = at + self.nulls
        bits = int.from_bytes(data[at:words], "little")
        parts = _Parts(data, at, size)
        return tuple(
            None if bits >> number & 1 else field.read(parts, words + _WIDTH * number)
            for number, field in enumerate(self.fields)
        )


def _word_reader(kind: DataType) -> _WordReader:
    match kind:
        case AtomicType("void"):
            return _Void()
        case AtomicType(name) if kind.layout:
            return _Fixed(name, kind.layout)
        case DecimalType(_, scale) if kind.long:
            return _LongDecimal(scale)
        case _:
            return _Pointed(_part_reader(kind))


def _part_reader(kind: DataType) -> _PartReader:
    match kind:
        case StructType():
            return RowReader.of(kind)
        case ArrayType(element):
            return _Array.of(element)
        case MapType(key, value):
            return _Map(_Array.of(key), _Array.of(value))
        case DecimalType(_, scale):
            return _Digits(scale)
        case AtomicType(name):
            return _ATOMIC_PARTS[name]
        case _:
            assert_never(kind)


# -- values in words


@dataclass(frozen=True, slots=True)
class _Void:
    """Reads the type whose only value is null."""

    def read(self, _parts: _Parts, _at: int) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Reads numbers of a fixed size.

    Attributes:
        name: the type's name.
        layout: the layout of a number in its word.
    """

    name: str
    layout: struct.Struct

    def read(self, parts: _Parts, at: int) -> Value:
        return self.layout.unpack_from(parts.data, at)[0]


@dataclass(frozen=True, slots=True)
class _LongDecimal:
    """Reads decimals that are stored as a long.

    Attributes:
        scale: the number of digits after the point.
    """

    scale: int

    def read(self, parts: _Parts, at: int) -> Decimal:
        return _scaled(_LONG.unpack_from(parts.data, at)[0], self.scale)


@dataclass(frozen=True, slots=True)
class _Pointed:
    """Reads values whose word points to a part.

    Attributes:
        part: the reader of the part.
    """

    part: _PartReader

    def read(self, parts: _Parts, at: int) -> Value:
        start, size = parts.locate(at)
        return self.part.read(parts.data, start, size)


# -- values in parts


@dataclass(frozen=True, slots=True)
class _Text:
    """Reads strings; bytes that are not UTF-8 become replacement characters."""

    def read(self, data: bytes, at: int, size: int) -> str:
        return data[at : at + size].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Binary:
    """Reads bytes."""

    def read(self, data: bytes, at: int, size: int) -> bytes:
        return bytes(data[at : at + size])


@dataclass(frozen=True, slots=True)
class _Calendar:
    """Reads calendar intervals: months, days and microseconds."""

    def read(self, data: bytes, at: int, size: int) -> tuple[int, int, int]:
        if size != _CALENDAR.size:
            raise CodecError(f"calendar interval of {size} bytes", offset=at)
        interval: tuple[int, int, int] = _CALENDAR.unpack_from(data, at)
        return interval


_ATOMIC_PARTS: dict[str, _PartReader] = {
    "string": _Text(),
    "binary": _Binary(),
    "interval": _Calendar(),
}


@dataclass(frozen=True, slots=True)
class _Digits:
    """Reads decimals that are too large for a long.

    Attributes:
        scale: the number of digits after the point.
    """

    scale: int

    def read(self, data: bytes, at: int, size: int) -> Decimal:
        if size > _MOST_DECIMAL_BYTES:
            raise CodecError(f"decimal of {size} bytes", offset=at)
        return _scaled(int.from_bytes(data[at : at + size], "big", signed=True), self.scale)


def _scaled(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, context=_EXACT)


@dataclass(frozen=True, slots=True)
class _Array:
    """Reads arrays.

    Attributes:
        element: the reader of the elements.
        width: the size of an element, without the part that it may point to.
    """

    element: _WordReader
    width: int

    @classmethod
    def of(cls, element: DataType) -> "_Array":
        return cls(_word_reader(element), element_width(element))

    def read(self, data: bytes, at: int, size: int) -> Row:
        count = _long(data, at, size)
        begin = _LONG.size + (count + 63) // 64 * 8
        element, width = self.element, self.width
        if count < 0 or begin + width * count > size:
            raise CodecError(f"array of {size} bytes cannot have {count} elements", offset=at)
        bits = int.from_bytes(data[at + _LONG.size : at + begin], "little")
        parts, first = _Parts(data, at, size), at + begin
        return tuple(
            None if bits >> number & 1 else element.read(parts, first + width * number)
            for number in range(count)
        )


@dataclass(frozen=True, slots=True)
class _Map:
    """Reads maps, as pairs in their order.

    Attributes:
        keys: the reader of the array of keys.
        values: the reader of the array of values.
    """

    keys: _Array
    values: _Array

    def read(self, data: bytes, at: int, size: int) -> Row:
        width = _long(data, at, size)
        rest = size - _LONG.size - width
        if width < 0 or rest < 0:
            raise CodecError(f"map of {size} bytes cannot have keys of {width}", offset=at)
        begin = at + _LONG.size
        keys = self.keys.read(data, begin, width)
        values = self.values.read(data, begin + width, rest)
        if len(keys) != len(values):
            raise CodecError(f"map of {len(keys)} keys and {len(values)} values", offset=at)
        return tuple(zip(keys, values, strict=True))


def _long(data: bytes, at: int, size: int) -> int:
    if size < _LONG.size:
        raise CodecError(f"{size} bytes where a number of 8 should be", offset=at)
    number: int = _LONG.unpack_from(data, at)[0]
    return number
