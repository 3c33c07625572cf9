"""The column types of Spark's JSON schemas, as far as rows of them are written here.

    boolean byte short integer long float double date timestamp timestamp_ntz   a fixed width
    interval day to second, interval year to month                              a fixed width
    decimal(p,s)        a long up to 18 digits, beyond that big-endian bytes
    string char(n) varchar(n) binary                                            bytes
    struct array map void udt                                                   of the above

Mirrors `DataType.fromJson`. Strings with a collation are refused: equal ones may differ in bytes.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemaint.errors import CodecError

Json = Mapping[str, Any]

_LONG_DIGITS = 18
_DEEPEST = 64  # as `codec.data_type`


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of a fixed width: Spark's name for it, and the layout of one value."""

    name: str
    layout: struct.Struct


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal of so many digits, `scale` of them behind the point."""

    precision: int
    scale: int

    @property
    def long(self) -> bool:
        """Tells whether it is stored as a long."""
        return self.precision <= _LONG_DIGITS


@dataclass(frozen=True, slots=True)
class Bytes:
    """A string (UTF-8) or binary."""

    text: bool


@dataclass(frozen=True, slots=True)
class Void:
    """The type whose only value is null."""


@dataclass(frozen=True, slots=True)
class Array:
    """A sequence of values of one type."""

    element: "Type"
    nullable: bool


@dataclass(frozen=True, slots=True)
class Map:
    """Keys, none of them null, and their values."""

    key: "Type"
    value: "Type"
    nullable: bool


@dataclass(frozen=True, slots=True)
class Field:
    """One column."""

    name: str
    type: "Type"
    nullable: bool


@dataclass(frozen=True, slots=True)
class Struct:
    """Columns in their order."""

    fields: tuple[Field, ...]


Type = Fixed | Decimal | Bytes | Void | Array | Map | Struct

_LAYOUTS = {
    "boolean": "?", "byte": "b", "short": "h", "integer": "i", "date": "i",
    "long": "q", "timestamp": "q", "timestamp_ntz": "q", "float": "f", "double": "d",
}  # fmt: skip
_NAMED: dict[str, Type] = {
    **{name: Fixed(name, struct.Struct(f"<{code}")) for name, code in _LAYOUTS.items()},
    "string": Bytes(text=True),
    "binary": Bytes(text=False),
    "void": Void(),
}
_INTERVALS: dict[str, Type] = {
    **dict.fromkeys(("day", "hour", "minute", "second"), _NAMED["long"]),
    **dict.fromkeys(("year", "month"), _NAMED["integer"]),
}


def parse_struct(schema: Json) -> Struct:
    """Returns the columns of a schema.

    Args:
        schema: Spark's JSON of a `StructType`, parsed; `codec.schema` finds it beside the state.

    Raises:
        CodecError: when it is no struct, or has a type whose rows are not written here.
    """
    found = _type(dict(schema), _DEEPEST)
    if not isinstance(found, Struct):
        raise CodecError("schema is not a struct", offset=0)
    return found


def _type(json: object, depth: int) -> Type:
    if not depth:
        raise CodecError(f"types are nested deeper than {_DEEPEST}", offset=0)
    if isinstance(json, str):
        return _by_name(json)
    if not isinstance(json, dict):
        raise CodecError(f"no type: {str(json)[:80]!r}", offset=0)
    try:
        return _composed(json, depth - 1)
    except (KeyError, TypeError) as error:
        raise CodecError(f"not a type of Spark's: {error!r}", offset=0) from error


def _composed(json: dict[str, Any], depth: int) -> Type:
    match json["type"]:
        case "struct":
            return Struct(tuple(_field(one, depth) for one in json["fields"]))
        case "array":
            return Array(_type(json["elementType"], depth), bool(json["containsNull"]))
        case "map":
            key, value = _type(json["keyType"], depth), _type(json["valueType"], depth)
            return Map(key, value, bool(json["valueContainsNull"]))
        case "udt":
            return _type(json["sqlType"], depth)
        case other:
            raise CodecError(f"rows with type {other!r} are not supported", offset=0)


def _field(json: dict[str, Any], depth: int) -> Field:
    if "__COLLATIONS" in json.get("metadata", {}):
        raise CodecError(f"column {json['name']!r}: collations are not supported", offset=0)
    return Field(json["name"], _type(json["type"], depth), bool(json["nullable"]))


def _by_name(name: str) -> Type:
    if known := _NAMED.get(name):
        return known
    if found := re.fullmatch(r"decimal\((\d{1,2}),(-?\d{1,2})\)", name):
        return Decimal(int(found[1]), int(found[2]))
    if re.fullmatch(r"(var)?char\(\d{1,9}\)", name):
        return _NAMED["string"]
    interval = re.fullmatch(r"interval (\w+)(?: to \w+)?", name)
    if interval and interval[1] in _INTERVALS:
        return _INTERVALS[interval[1]]
    raise CodecError(f"rows with type {name[:80]!r} are not supported", offset=0)
