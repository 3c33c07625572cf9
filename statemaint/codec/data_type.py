"""Spark's data types, parsed from the JSON of a state schema.

    type   = "long" | "decimal(10,2)" | "interval day to second" | ...
           | {"type": "struct", "fields": [{"name": .., "type": type, ..}, ..]}
           | {"type": "array", "elementType": type, ..}
           | {"type": "map", "keyType": type, "valueType": type, ..}
           | {"type": "udt", "sqlType": type, ..}          a user's type: stored as that one

Mirrors `DataType.fromJson`; names are Spark's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemaint.errors import CodecError

# Nobody nests as deep, and what is read recursively must end before Python does.
_DEEPEST = 64
_DECIMAL = re.compile(r"decimal(?:\((\d{1,2}), ?(-?\d{1,2})\))?")
_INTERVAL = re.compile(r"interval (?:(year|month)|(day|hour|minute|second))(?: to [a-z]+)?")
_TEXT = re.compile(r"string(?: collate \S+)?|(?:var)?char\(\d+\)")
_OLD_NAMES = {"null": "void", "calendar_interval": "interval"}
_NAMES = frozenset(
    {"void", "boolean", "byte", "short", "integer", "long", "float", "double", "binary", "date",
     "timestamp", "timestamp_ntz", "interval"}
)  # fmt: skip


class UnknownTypeError(CodecError):
    """A type that is none of those that can be read."""


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without parts: by Spark's name, and `year-month` and `day-time` for intervals."""

    name: str


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal number of so many digits, `scale` of them behind the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    type: "DataType"


@dataclass(frozen=True, slots=True)
class StructType:
    """Fields in their order; names may come more than once."""

    fields: tuple[Field, ...]

    def only(self, ordinals: tuple[int, ...]) -> "StructType":
        """Returns a struct of some of the fields.

        Raises:
            CodecError: when one of them is not there, or named twice.
        """
        if not set(ordinals) <= set(range(len(self.fields))) or len({*ordinals}) < len(ordinals):
            text = f"columns {str(ordinals)[:80]} of {len(self.fields)} cannot be"
            raise CodecError(text, offset=0)
        return StructType(tuple(self.fields[ordinal] for ordinal in ordinals))


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Elements of one type."""

    element: "DataType"


@dataclass(frozen=True, slots=True)
class MapType:
    """Pairs of keys and values."""

    key: "DataType"
    value: "DataType"


DataType = AtomicType | DecimalType | StructType | ArrayType | MapType


def parse_struct(schema: Mapping[str, Any]) -> StructType:
    """Returns the type of a row.

    Raises:
        UnknownTypeError: when a field is of a type that cannot be read.
        CodecError: when it is no struct, or none that can be.
    """
    found = _parse(schema, _DEEPEST)
    if not isinstance(found, StructType):
        raise CodecError("schema is not a struct", offset=0)
    return found


def _parse(found: object, depth: int) -> DataType:
    if not depth:
        raise CodecError(f"types are nested deeper than {_DEEPEST}", offset=0)
    if isinstance(found, str):
        return _named(found)
    if not isinstance(found, Mapping):
        raise CodecError(f"a type cannot be {str(found)[:80]!r}", offset=0)
    try:
        return _nested(found, depth - 1)
    except (KeyError, TypeError) as error:
        raise CodecError(f"a type without its parts: {error!r}", offset=0) from error


def _nested(found: Mapping[str, Any], depth: int) -> DataType:
    match found["type"]:
        case "struct":
            return StructType(
                tuple(
                    Field(str(one["name"]), _parse(one["type"], depth)) for one in found["fields"]
                )
            )
        case "array":
            return ArrayType(_parse(found["elementType"], depth))
        case "map":
            return MapType(_parse(found["keyType"], depth), _parse(found["valueType"], depth))
        case "udt":
            return _parse(found["sqlType"], depth)
        case other:
            raise UnknownTypeError(f"type {str(other)[:80]}", offset=0)


def _named(found: str) -> DataType:
    name = _OLD_NAMES.get(found, found)
    if name in _NAMES:
        return AtomicType(name)
    if _TEXT.fullmatch(name):
        return AtomicType("string")
    if decimal := _DECIMAL.fullmatch(name):
        return DecimalType(int(decimal[1] or 10), int(decimal[2] or 0))
    if interval := _INTERVAL.fullmatch(name):
        return AtomicType("year-month" if interval[1] else "day-time")
    raise UnknownTypeError(f"type {name[:80]}", offset=0)
