"""The writer of `UnsafeRow`, the bytes of every key and value of a state store.

The grammar is in `unsafe_read`. What words point to is in the order of the words, each zero-padded
to 8 bytes; elements of an array are together in whole words. In a row a decimal beyond 18 digits
takes 16 bytes of the tail, even when it is null. Mirrors `UnsafeRowWriter`, `UnsafeArrayWriter` and
the code of `UnsafeProjection`.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, assert_never

from statemaint.codec.rows.display import field_names
from statemaint.codec.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    Json,
    MapType,
    StructType,
    element_width,
    must_be_writable,
    parse_struct,
)
from statemaint.errors import CodecError, ConfigError

Values = Sequence[Any] | Mapping[str, Any]
"""One row: its columns in order, or by name."""

_LONG = struct.Struct("<q")
_WORD = 8
_BIG_DECIMAL = 16
_MOST_EXPONENT = 1000  # far beyond any decimal; 10 ** 10 ** 9 would never finish
_EPOCH = {
    "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
    "timestamp_ntz": datetime(1970, 1, 1),  # noqa: DTZ001 -- the type that has no time zone
}


class RowWriter:
    """Writes rows of one schema."""

    __slots__ = ("_normalize", "struct")

    def __init__(self, schema: Json | StructType, *, normalize: bool = False) -> None:
        # With `normalize` it writes -0.0 as 0.0 and every NaN with the same bits, as Spark does in
        # grouping keys (`NormalizeFloatingNumbers`).
        parsed = schema if isinstance(schema, StructType) else parse_struct(schema)
        self.struct = must_be_writable(parsed)
        self._normalize = normalize

    def write(self, values: Values) -> bytes:
        """Returns a row's bytes.

        Python's own types represent Spark's: `datetime` with a time zone for a timestamp, without
        one for timestamp_ntz; `date`; `Decimal`; `str`; `bytes`; a list; a dictionary, in its
        order, or pairs for a map. Dates and timestamps may also be given as Spark keeps them: days
        and microseconds since 1970. A value of another type is a `ConfigError` with the column.
        """
        return self._row(values, self.struct)

    def _row(self, values: Values, kind: StructType) -> bytes:
        columns = _columns(values, kind)
        start = null_bits(len(columns))
        parts = _Parts(bytearray(start + _WORD * len(columns)), 0)
        for number, (value, field) in enumerate(zip(columns, kind.fields, strict=True)):
            try:
                if value is None:
                    _must_be_nullable(field.nullable)
                    parts.null(number)
                self._word(parts, start + _WORD * number, value, field.type)
            except (ConfigError, struct.error, TypeError, ValueError, OverflowError) as error:
                raise ConfigError(f"column {field.name!r}: {error}") from error
        return parts.whole()

    def _word(self, parts: "_Parts", at: int, value: Any, kind: DataType) -> None:
        if isinstance(kind, DecimalType) and not kind.long:
            content = b"" if value is None else _big_endian(_unscaled(value, kind))
            parts.point(at, content, room=_BIG_DECIMAL)
        elif value is not None:
            self._element(parts, at, value, kind)

    def _element(self, parts: "_Parts", at: int, value: Any, kind: DataType) -> None:
        match kind:
            case AtomicType("void"):
                raise ConfigError("void has no value but None")
            case AtomicType(name) if kind.layout:
                kind.layout.pack_into(parts.head, at, self._fixed(value, name))
            case DecimalType() if kind.long:
                _LONG.pack_into(parts.head, at, _unscaled(value, kind))
            case _:
                parts.point(at, self._varied(value, kind))

    def _varied(self, value: Any, kind: DataType) -> bytes:
        match kind:
            case AtomicType("string"):
                return str(_instance(value, str)).encode()
            case AtomicType():
                return bytes(_instance(value, (bytes, bytearray, memoryview)))
            case DecimalType():
                return _big_endian(_unscaled(value, kind))
            case StructType():
                return self._row(value, kind)
            case ArrayType():
                return self._array(list(value), kind.element, nullable=kind.nullable)
            case MapType():
                return self._map(value, kind)
            case _:
                assert_never(kind)

    def _array(self, values: list[Any], kind: DataType, *, nullable: bool) -> bytes:
        width = element_width(kind)
        start = _WORD + null_bits(len(values))
        parts = _Parts(bytearray(start + _padded(width * len(values))), _WORD)
        _LONG.pack_into(parts.head, 0, len(values))
        for number, value in enumerate(values):
            if value is None:
                _must_be_nullable(nullable)
                parts.null(number)
            else:
                self._element(parts, start + width * number, value, kind)
        return parts.whole()

    def _map(self, value: Any, kind: MapType) -> bytes:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        keys = self._array([key for key, _ in pairs], kind.key, nullable=False)
        values = self._array([item for _, item in pairs], kind.value, nullable=kind.nullable)
        return _LONG.pack(len(keys)) + keys + values

    def _fixed(self, value: Any, name: str) -> int | float | bool:
        match name:
            case "boolean":
                return bool(_instance(value, bool))
            case "float" | "double":
                return self._float(value)
            case "date" if isinstance(value, date):
                return (value - date(1970, 1, 1)).days
            case "timestamp" | "timestamp_ntz" if isinstance(value, datetime):
                return (value - _EPOCH[name]) // timedelta(microseconds=1)
            case "day-time" if isinstance(value, timedelta):
                return value // timedelta(microseconds=1)
            case _:
                return int(_instance(value, int))

    def _float(self, value: Any) -> float:
        number = float(_instance(value, (float, int)))
        if not self._normalize:
            return number
        return math.nan if math.isnan(number) else number + 0.0  # -0.0 + 0.0 is 0.0


class _Parts:
    """A row or an array while it is written: its fixed part and its tail."""

    __slots__ = ("_nulls", "head", "tail")

    def __init__(self, head: bytearray, nulls: int) -> None:
        self.head, self._nulls, self.tail = head, nulls, bytearray()

    def null(self, number: int) -> None:
        self.head[self._nulls + number // 8] |= 1 << number % 8

    def point(self, at: int, content: bytes, *, room: int = 0) -> None:
        offset = len(self.head) + len(self.tail)
        _LONG.pack_into(self.head, at, offset << 32 | len(content))
        self.tail += content.ljust(room or _padded(len(content)), b"\0")

    def whole(self) -> bytes:
        return bytes(self.head + self.tail)


def encode_row(values: Values, schema: Json) -> bytes:
    """Returns one row as `UnsafeRow` bytes; to write many rows, share one `RowWriter`."""
    return RowWriter(schema).write(values)


def prefix_of(row: bytes, kind: StructType, columns: int) -> bytes:
    """Returns the first columns of a row, as Spark's projection would write them."""
    return row_of([(row, kind, number) for number in range(columns)])


def row_of(columns: Sequence[tuple[bytes, StructType, int]]) -> bytes:
    """Returns columns of other rows, each a row, its type and the number in it, as one row."""
    start = null_bits(len(columns))
    parts = _Parts(bytearray(start + _WORD * len(columns)), 0)
    for number, (row, kind, column) in enumerate(columns):
        old = null_bits(len(kind.fields)) + _WORD * column
        word = row[old:][:_WORD]
        if len(word) < _WORD:
            raise CodecError(f"row of {len(row)} bytes is too short", offset=0)
        at, type_ = start + _WORD * number, kind.fields[column].type
        big = isinstance(type_, DecimalType) and not type_.long
        null = row[column // 8] >> column % 8 & 1
        if null:
            parts.null(number)
        if big or not (null or _is_fixed(type_)):
            content = b"" if null else pointed(row, 0, old)
            parts.point(at, bytes(content), room=_BIG_DECIMAL if big else 0)
        else:
            parts.head[at : at + _WORD] = word
    return parts.whole()


def _is_fixed(kind: DataType) -> bool:
    if isinstance(kind, AtomicType):
        return kind.name == "void" or kind.layout is not None
    return isinstance(kind, DecimalType) and kind.long


def pointed(row: bytes, base: int, at: int) -> bytes:
    """Returns the bytes that a word points to; its offset counts from `base`."""
    if not 0 <= at <= len(row) - _WORD:
        raise CodecError("row cut short", offset=min(at, len(row)))
    offset, size = divmod(_LONG.unpack_from(row, at)[0], 1 << 32)
    if offset < 0 or base + offset + size > len(row):
        raise CodecError(f"column points to {size} bytes beyond its row", offset=at)
    return row[base + offset : base + offset + size]


def _columns(values: Values, kind: StructType) -> list[Any]:
    names = [field.name for field in kind.fields]
    if isinstance(values, Mapping):
        if len({*names}) < len(names):  # such as those of two sums
            names = [*field_names(kind)]
        if set(values) != set(names):
            raise ConfigError(f"columns {sorted(values)} are not {sorted(names)}")
        return [values[name] for name in names]
    columns = list(values)
    if isinstance(values, str | bytes) or len(columns) != len(names):
        raise ConfigError(f"{len(columns)} values for the columns {', '.join(names)}")
    return columns


def _must_be_nullable(nullable: bool) -> None:  # noqa: FBT001 -- the value to check
    if not nullable:
        raise ConfigError("null, where the schema allows none")


def _instance(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ConfigError(f"{value!r} is not of its type")
    return value


def _unscaled(value: Any, kind: DecimalType) -> int:
    """Returns the exact unscaled integer of a decimal: a value is never rounded."""
    number = Decimal(_instance(value, (Decimal, int)))
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > _MOST_EXPONENT:
        raise ConfigError(f"{value} is not a decimal number that Spark can store")
    whole: int = int("".join(map(str, digits)))
    shift = kind.scale + exponent
    unscaled, rest = divmod(whole * int(10 ** max(shift, 0)), int(10 ** max(-shift, 0)))
    if rest or unscaled >= 10**kind.precision:
        raise ConfigError(f"{value} does not fit decimal({kind.precision},{kind.scale})")
    return -unscaled if sign else unscaled


def _big_endian(number: int) -> bytes:
    """Returns the same as Java's `BigInteger.toByteArray`: the fewest bytes that hold the sign."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def null_bits(count: int) -> int:
    return (count + 63) // 64 * _WORD


def _padded(size: int) -> int:
    return (size + 7) // 8 * 8
