"""Spark's column types, parsed from a schema's JSON into a tree to read, write and hash rows by.

    type   = "long" | "decimal(10,2)" | "interval day to second" | ...
           | {"type": "struct", "fields": [{"name": .., "type": type, "nullable": ..}, ..]}
           | {"type": "array", "elementType": type, "containsNull": ..}
           | {"type": "map", "keyType": type, "valueType": type, "valueContainsNull": ..}
           | {"type": "udt", "sqlType": type, ..}          a user's type, stored as its sqlType

Mirrors `DataType.fromJson`; names are Spark's.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from statemaint.errors import CodecError

Json = Mapping[str, Any]

# No real schema is nested this deeply, and recursion must end before Python's own limit.
_DEEPEST = 64
_LONG_DIGITS = 18
_WORD = 8
_DECIMAL = re.compile(r"decimal(?:\((\d{1,2}), ?(-?\d{1,2})\))?")
_INTERVAL = re.compile(r"interval (?:(year|month)|(day|hour|minute|second))(?: to [a-z]+)?")
_TEXT = re.compile(r"string(?P<collated> collate \S+)?|(?:var)?char\(\d+\)")
_COLLATIONS = "__COLLATIONS"
_OLD_NAMES = {"null": "void", "calendar_interval": "interval"}
_LAYOUTS = {
    name: struct.Struct(f"<{code}")
    for name, code in {
        "boolean": "?", "byte": "b", "short": "h", "integer": "i", "long": "q", "float": "f",
        "double": "d", "date": "i", "timestamp": "q", "timestamp_ntz": "q", "year-month": "i",
        "day-time": "q",
    }.items()
}  # fmt: skip
_NAMES = frozenset({"void", "binary", "interval", *_LAYOUTS} - {"year-month", "day-time"})


class UnknownTypeError(CodecError):
    """A type that cannot be read."""


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without parts: Spark's name, or `year-month` or `day-time` for intervals."""

    name: str
    collated: bool = False  # whether equal values may differ in their bytes

    @property
    def layout(self) -> struct.Struct | None:
        """Returns the layout of a value in its word; `None` for void and for values in the tail."""
        return _LAYOUTS.get(self.name)


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    @property
    def long(self) -> bool:
        return self.precision <= _LONG_DIGITS


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    type: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class StructType:
    """Fields in their order; names may be repeated."""

    fields: tuple[Field, ...]

    def only(self, ordinals: tuple[int, ...]) -> "StructType":
        """Returns a struct of some of the fields."""
        if not set(ordinals) <= set(range(len(self.fields))) or len({*ordinals}) < len(ordinals):
            text = f"columns {str(ordinals)[:80]} of {len(self.fields)} are not valid"
            raise CodecError(text, offset=0)
        return StructType(tuple(self.fields[ordinal] for ordinal in ordinals))


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Elements of one type."""

    element: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """Pairs of keys, which are never null, and values."""

    key: "DataType"
    value: "DataType"
    nullable: bool = True


DataType = AtomicType | DecimalType | StructType | ArrayType | MapType


def element_width(kind: DataType) -> int:
    """Returns the size of an array's element, without the bytes that it may point to."""
    layout = kind.layout if isinstance(kind, AtomicType) else None
    return layout.size if layout else _WORD


def parse_struct(schema: Json) -> StructType:
    """Returns the type of a row; a type that cannot be read is an `UnknownTypeError`."""
    kind = _parse(schema, _DEEPEST)
    if not isinstance(kind, StructType):
        raise CodecError("schema is not a struct", offset=0)
    return kind


def must_be_writable(kind: StructType) -> StructType:
    """Returns the type of a row if rows of it are written and hashed here as Spark does."""
    # Equal strings with a collation may differ in bytes, and calendar intervals cannot be keys.
    for field in kind.fields:
        for part in atoms(field.type):
            if part.collated or part.name == "interval":
                what = "collations" if part.collated else f"type {part.name!r}"
                text = f"column {field.name[:80]!r}: {what}: rows with it are not written here"
                raise UnknownTypeError(text, offset=0)
    return kind


def atoms(kind: DataType) -> Iterator[AtomicType]:
    """Yields the types of the values within a type, but for decimals."""
    match kind:
        case AtomicType():
            yield kind
        case StructType(fields):
            for field in fields:
                yield from atoms(field.type)
        case ArrayType(element):
            yield from atoms(element)
        case MapType(key, value):
            yield from atoms(key)
            yield from atoms(value)
        case _:  # a decimal
            return


def _parse(schema: object, depth: int, *, collated: bool = False) -> DataType:
    if not depth:
        raise CodecError(f"types are nested deeper than {_DEEPEST}", offset=0)
    if isinstance(schema, str):
        return _named(schema, collated=collated)
    if not isinstance(schema, Mapping):
        raise CodecError(f"a type cannot be {str(schema)[:80]!r}", offset=0)
    try:
        return _nested(schema, depth - 1, collated=collated)
    except (AttributeError, KeyError, TypeError) as error:
        raise CodecError(f"a type without its parts: {error!r}", offset=0) from error


def _nested(schema: Json, depth: int, *, collated: bool) -> DataType:
    match schema["type"]:
        case "struct":
            return StructType(tuple(_field(field, depth) for field in schema["fields"]))
        case "array":
            element = _parse(schema["elementType"], depth, collated=collated)
            return ArrayType(element, bool(schema.get("containsNull", True)))
        case "map":
            key = _parse(schema["keyType"], depth, collated=collated)
            value = _parse(schema["valueType"], depth, collated=collated)
            return MapType(key, value, bool(schema.get("valueContainsNull", True)))
        case "udt":
            return _parse(schema["sqlType"], depth, collated=collated)
        case other:
            raise UnknownTypeError(f"type {str(other)[:80]}", offset=0)


def _field(schema: Json, depth: int) -> Field:
    # Which of the texts in the field have the collation does not matter here.
    collated = _COLLATIONS in (schema.get("metadata") or {})
    kind = _parse(schema["type"], depth, collated=collated)
    return Field(str(schema["name"]), kind, bool(schema.get("nullable", True)))


def _named(name: str, *, collated: bool) -> DataType:
    name = _OLD_NAMES.get(name, name)
    if name in _NAMES:
        return AtomicType(name)
    if text := _TEXT.fullmatch(name):
        return AtomicType("string", collated or text["collated"] is not None)
    if decimal := _DECIMAL.fullmatch(name):
        return DecimalType(int(decimal[1] or 10), int(decimal[2] or 0))
    if interval := _INTERVAL.fullmatch(name):
        return AtomicType("year-month" if interval[1] else "day-time")
    raise UnknownTypeError(f"type {name[:80]}", offset=0)
