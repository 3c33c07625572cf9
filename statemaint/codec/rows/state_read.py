"""The readers of rows in a store, for the layouts of `state_row`.

A reader is made once for a layout, of smaller readers: one for keys or values, in it one for rows,
in that one for each field. It keeps nothing between two reads.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, assert_never

from statemaint.codec.rocksdb import row_checksum
from statemaint.codec.rows.state_row import (
    Bare,
    NoPrefix,
    PrefixScan,
    RangeScan,
    RowLayout,
    TimestampFirst,
    TimestampLast,
    Wrapping,
)
from statemaint.codec.rows.types import AtomicType, DataType, Field, StructType
from statemaint.codec.rows.unsafe_read import Row, RowReader, Value
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


class KeyReader(Protocol):
    """Reads the keys of one layout."""

    def read(self, key: bytes) -> Row:
        """Returns the columns of a key.

        Raises:
            CodecError: when the bytes do not follow the layout; `offset` counts in the key.
        """
        ...


class ValueReader(Protocol):
    """Reads the values of one layout."""

    def read(self, key: bytes, value: bytes) -> tuple[Row, ...]:
        """Returns the entries of a key's value: exactly one unless the layout has `many`.

        Raises:
            CodecError: when the bytes do not follow the layout; `offset` counts in the value.
        """
        ...


def key_reader(layout: RowLayout, wrapping: Wrapping) -> KeyReader:
    """Returns the reader of a layout's keys.

    Raises:
        CodecError: when the layout names columns that the key does not have.
    """
    kind, at = layout.key, wrapping.families
    match layout.encoder:
        case Bare():
            return _BareKey(RowReader.of(kind))
        case NoPrefix():
            return _WholeKey(_Versioned.of(kind), at)
        case PrefixScan(columns):
            # The metadata may claim any number of columns; at most one too many are counted.
            first = tuple(range(min(columns, len(kind.fields) + 1)))
            return _SplitKey.of(kind, first, _Versioned.of(kind.only(first)), at)
        case RangeScan(ordinals):
            return _SplitKey.of(kind, ordinals, _Ordered.of(kind.only(ordinals)), at)
        case TimestampFirst():
            return _TimestampFirstKey(_Versioned.of(_without_last(kind)), at)
        case TimestampLast():
            return _TimestampLastKey(_Versioned.of(_without_last(kind)), at)
        case _:
            assert_never(layout.encoder)


def value_reader(layout: RowLayout, wrapping: Wrapping) -> ValueReader:
    """Returns the reader of a layout's values."""
    if isinstance(layout.encoder, Bare):
        return _BareValue(RowReader.of(layout.value), _CHECKSUM_SIZE if wrapping.checksums else 0)
    row = _Versioned.of(layout.value)
    if layout.many:
        return _ManyValue(row, wrapping)
    return _SealedValue(row) if wrapping.checksums else _SingleValue(row)


# -- rows


class _EncodedRow(Protocol):
    """Reads the rows of one encoding."""

    def read(self, data: bytes, at: int) -> Row:
        """Returns the fields of the row from a byte to the end."""
        ...


@dataclass(frozen=True, slots=True)
class _Versioned:
    """Reads rows after the version of their encoding.

    Attributes:
        row: the reader of the row itself.
    """

    row: RowReader

    @classmethod
    def of(cls, kind: StructType) -> "_Versioned":
        return cls(RowReader.of(kind))

    def read(self, data: bytes, at: int) -> Row:
        if data[at : at + 1] != b"\0":
            text = f"encoding of version {data[at]}" if at < len(data) else "no row"
            raise CodecError(f"{text} where a row should be", offset=min(at, len(data)))
        return self.row.read(data, at + 1, len(data) - at - 1)


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Reads rows of numbers whose bytes sort as the numbers do.

    Attributes:
        names: the type of each number.
        row: the reader of the row of binary columns.
    """

    names: tuple[str, ...]
    row: _Versioned

    @classmethod
    def of(cls, kind: StructType) -> "_Ordered":
        names = tuple(_number(field.type) for field in kind.fields)
        binary = StructType(tuple(Field(field.name, _BINARY) for field in kind.fields))
        return cls(names, _Versioned.of(binary))

    def read(self, data: bytes, at: int) -> Row:
        columns = zip(self.names, self.row.read(data, at), strict=True)
        return tuple(_unordered(name, column, at) for name, column in columns)


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


# -- keys


@dataclass(frozen=True, slots=True)
class _BareKey:
    """Reads keys that are a row and nothing else.

    Attributes:
        row: the reader of the row.
    """

    row: RowReader

    def read(self, key: bytes) -> Row:
        return self.row.read(key, 0, len(key))


@dataclass(frozen=True, slots=True)
class _WholeKey:
    """Reads keys that are encoded in one piece.

    Attributes:
        row: the reader of all columns.
        at: where they begin.
    """

    row: _Versioned
    at: int

    def read(self, key: bytes) -> Row:
        return self.row.read(key, self.at)


@dataclass(frozen=True, slots=True)
class _SplitKey:
    """Reads keys with some columns in front, and restores their order.

    Attributes:
        front: the reader of the columns in front.
        back: the reader of the others; `None` if there are none.
        order: for each column of the key, its place among those in front and the others.
        at: where the size of the columns in front is.
    """

    front: _EncodedRow
    back: _Versioned | None
    order: tuple[int, ...]
    at: int

    @classmethod
    def of(
        cls, kind: StructType, apart: tuple[int, ...], front: _EncodedRow, at: int
    ) -> "_SplitKey":
        """Returns the reader of keys with the columns `apart` in front, from a byte on."""
        others = tuple(one for one in range(len(kind.fields)) if one not in apart)
        back = _Versioned.of(kind.only(others)) if others else None
        order = sorted(range(len(kind.fields)), key=(*apart, *others).__getitem__)
        return cls(front, back, tuple(order), at)

    def read(self, key: bytes) -> Row:
        begin = self.at + _INT.size
        end = begin + _size(key, self.at, _INT)
        columns = self.front.read(key[:end], begin)
        if self.back:
            columns += self.back.read(key, end)
        return tuple(columns[place] for place in self.order)


def _size(data: bytes, at: int, head: struct.Struct) -> int:
    """Returns the size at the end of a head, checked against the data after it."""
    if at + head.size > len(data):
        raise CodecError(f"{len(data)} bytes are too few for a size", offset=min(at, len(data)))
    size: int = head.unpack_from(data, at)[-1]
    if not 0 <= size <= len(data) - at - head.size:
        raise CodecError(f"{size} bytes do not fit into {len(data)}", offset=at)
    return size


@dataclass(frozen=True, slots=True)
class _TimestampFirstKey:
    """Reads keys with the timestamp, their last column, in front.

    Attributes:
        rest: the reader of the other columns.
        at: where the timestamp is.
    """

    rest: _Versioned
    at: int

    def read(self, key: bytes) -> Row:
        return (*self.rest.read(key, self.at + _MOMENT.size), _moment(key, self.at))


@dataclass(frozen=True, slots=True)
class _TimestampLastKey:
    """Reads keys with the timestamp, their last column, at the end.

    Attributes:
        rest: the reader of the other columns.
        at: where they begin.
    """

    rest: _Versioned
    at: int

    def read(self, key: bytes) -> Row:
        end = len(key) - _MOMENT.size
        return (*self.rest.read(key[: max(end, 0)], self.at), _moment(key, end))


def _without_last(kind: StructType) -> StructType:
    if not kind.fields:
        raise CodecError("a key without columns has no timestamp", offset=0)
    return StructType(kind.fields[:-1])


def _moment(key: bytes, at: int) -> int:
    """Returns the timestamp of a key, which is long enough because its row was read."""
    moment: int = _MOMENT.unpack_from(key, at)[0] ^ _HIGHEST_BIT
    return moment - _ABOVE if moment & _HIGHEST_BIT else moment


# -- values


@dataclass(frozen=True, slots=True)
class _BareValue:
    """Reads values that are a row, after their checksum if they have one.

    Attributes:
        row: the reader of the row.
        at: where it begins.
    """

    row: RowReader
    at: int

    def read(self, _key: bytes, value: bytes) -> tuple[Row, ...]:
        return (self.row.read(value, self.at, len(value) - self.at),)


@dataclass(frozen=True, slots=True)
class _SingleValue:
    """Reads values of one encoded row.

    Attributes:
        row: the reader of the row.
    """

    row: _Versioned

    def read(self, _key: bytes, value: bytes) -> tuple[Row, ...]:
        return (self.row.read(value, 0),)


@dataclass(frozen=True, slots=True)
class _SealedValue:
    """Reads values of one encoded row with its checksum, which is compared.

    Attributes:
        row: the reader of the row.
    """

    row: _Versioned

    def read(self, key: bytes, value: bytes) -> tuple[Row, ...]:
        return (self.row.read(row_checksum.bare_row(key, value, offset=0), 0),)


@dataclass(frozen=True, slots=True)
class _ManyValue:
    """Reads values of any number of entries.

    Attributes:
        row: the reader of each entry's row.
        wrapping: the checksums and the delimiter of the entries.
    """

    row: _Versioned
    wrapping: Wrapping

    def read(self, key: bytes, value: bytes) -> tuple[Row, ...]:
        return tuple(self.row.read(entry, 0) for entry in _entries(key, value, self.wrapping))


def _entries(key: bytes, value: bytes, wrapping: Wrapping) -> Iterator[bytes]:
    head = _SEALED_HEAD if wrapping.checksums else _INT
    if wrapping.checksums:
        row_checksum.check_rows(key, value, offset=0)
    at = 0
    while at < len(value):
        end = at + head.size + _size(value, at, head)
        yield value[at + head.size : end]
        if end < len(value) and not value.startswith(wrapping.delimiter, end):
            raise CodecError("entries are not all separated in the same way", offset=end)
        at = end + len(wrapping.delimiter)
