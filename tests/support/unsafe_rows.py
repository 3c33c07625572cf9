"""Rows as Spark lays them out, written by the grammar in `unsafe_row` and not by its code."""

import struct
from collections.abc import Sequence
from decimal import Context
from typing import Any

from statemaint.codec.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)
from statemaint.codec.rows.unsafe_read import Row, row_reader

EXACT = Context(prec=60)
FORMATS = {
    "boolean": "<?", "byte": "<b", "short": "<h", "integer": "<i", "long": "<q", "float": "<f",
    "double": "<d", "date": "<i", "timestamp": "<q", "timestamp_ntz": "<q", "year-month": "<i",
    "day-time": "<q",
}  # fmt: skip


def decode(kind: StructType, content: bytes) -> Row:
    """Returns the fields of one row, as our reader has them."""
    return row_reader(kind)(content, 0, len(content))


def row(kind: StructType, values: Sequence[Any]) -> bytes:
    types = [field.type for field in kind.fields]
    return _words(types, values, [8] * len(types), 0)


def array(element: DataType, values: Sequence[Any]) -> bytes:
    atomic = isinstance(element, AtomicType) and element.name in FORMATS
    width = struct.calcsize(FORMATS[element.name]) if atomic else 8  # type: ignore[union-attr]
    count = len(values)
    return struct.pack("<q", count) + _words([element] * count, values, [width] * count, 8)


def _words(types: Sequence[DataType], values: Sequence[Any], widths: list[int], at: int) -> bytes:
    nulls = sum(1 << number for number, value in enumerate(values) if value is None)
    head = nulls.to_bytes((len(values) + 63) // 64 * 8, "little")
    fixed = -(-sum(widths) // 8) * 8
    begin = at + len(head) + fixed
    words, parts = b"", b""
    for kind, value, width in zip(types, values, widths, strict=True):
        if value is None:
            words += bytes(width)
        elif (word := _word(kind, value)) is not None:
            words += word.ljust(width, b"\0")
        else:
            part = _part(kind, value)
            words += struct.pack("<II", len(part), begin + len(parts))
            parts += _padded(part)
    return head + words.ljust(fixed, b"\0") + parts


def _word(kind: DataType, value: Any) -> bytes | None:
    match kind:
        case AtomicType(name) if name in FORMATS:
            return struct.pack(FORMATS[name], value)
        case DecimalType(precision, scale) if precision <= 18:
            return struct.pack("<q", int(value.scaleb(scale, EXACT)))
        case _:
            return None


def _part(kind: DataType, value: Any) -> bytes:
    match kind:
        case StructType():
            return row(kind, value)
        case ArrayType(element):
            return array(element, value)
        case MapType(key, other):
            keys = array(key, [pair[0] for pair in value])
            return struct.pack("<q", len(keys)) + keys + array(other, [pair[1] for pair in value])
        case DecimalType(_, scale):
            unscaled = int(value.scaleb(scale, EXACT))
            return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
        case AtomicType("interval"):
            return struct.pack("<iiq", *value)
        case _:
            return value.encode() if isinstance(value, str) else bytes(value)


def _padded(part: bytes) -> bytes:
    return part.ljust(-(-len(part) // 8) * 8, b"\0")


# -- Spark's JSON of types


def schema(*types: Any, nullable: bool = True) -> dict[str, Any]:
    fields = [
        {"name": f"c{number}", "type": kind, "nullable": nullable, "metadata": {}}
        for number, kind in enumerate(types)
    ]
    return {"type": "struct", "fields": fields}


def array_type(element: Any, *, nulls: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": nulls}


def map_type(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
