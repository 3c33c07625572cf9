"""The partition that a row belongs to: Spark's `hash()` of its columns, modulo the partitions.

The hash is Murmur3 (x86, 32 bit) with seed 42. The hash of each column is the seed of the next, and
a null leaves it unchanged. Booleans and types of up to 32 bits are hashed as an int, types of 64
bits as a long; a float by its bits, -0.0 as 0.0; strings, binary and decimals beyond 18 digits by
their bytes. Unlike in other Murmur3s, each of the last one to three bytes is mixed in as a whole
signed word. Structs, arrays and maps are hashed value by value. Mirrors `Murmur3HashFunction`,
`Murmur3_x86_32.hashUnsafeBytes` and `HashPartitioning.partitionIdExpression`.
"""

import math
import struct
from typing import Any, assert_never

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
from statemaint.codec.rows.unsafe_write import RowWriter, Values, pointed
from statemaint.errors import CodecError

SEED = 42

_32_BITS = 0xFFFFFFFF
_LONG = struct.Struct("<q")
_WORD = 8
_MOST_ELEMENTS = 1 << 31


def hash_values(values: Values, schema: Json) -> int:
    """Returns Spark's `hash(column, ...)` of a row, a signed 32-bit number."""
    writer = RowWriter(schema)
    return hash_row(writer.write(values), writer.struct)


def partition_of(values: Values, schema: Json, num_partitions: int) -> int:
    """Returns the partition that Spark shuffles a row to by all of its columns."""
    return pmod(hash_values(values, schema), num_partitions)


def partition_of_row(row: bytes, schema: Json, num_partitions: int) -> int:
    """Returns the partition that Spark shuffles an `UnsafeRow` to by all of its columns."""
    return pmod(hash_row(row, must_be_writable(parse_struct(schema))), num_partitions)


def pmod(number: int, divisor: int) -> int:
    """Spark's `pmod` for a positive divisor: never less than 0."""
    return number % divisor


def hash_row(row: bytes, kind: StructType, *, columns: int | None = None) -> int:
    """Returns the hash of all columns of an `UnsafeRow`, or of the first `columns`."""
    try:
        unsigned = _struct(row, 0, kind, SEED, columns=columns)
    except (struct.error, IndexError) as error:
        raise CodecError(f"row of {len(row)} bytes is cut short", offset=len(row)) from error
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def _struct(
    row: bytes, base: int, kind: StructType, seed: int, *, columns: int | None = None
) -> int:
    start = base + (len(kind.fields) + 63) // 64 * _WORD
    for number, field in enumerate(kind.fields[:columns]):
        if not row[base + number // 8] >> number % 8 & 1:
            seed = _value(row, base, start + _WORD * number, field.type, seed)
    return seed


def _value(row: bytes, base: int, at: int, kind: DataType, seed: int) -> int:
    """Returns the hash of the value at a place; its offset, if it has one, counts from `base`."""
    match kind:
        case AtomicType("void"):
            return seed
        case AtomicType(name) if kind.layout:
            return _fixed(kind.layout.unpack_from(row, at)[0], name, kind.layout.size, seed)
        case DecimalType() if kind.long:
            return hash_long(_LONG.unpack_from(row, at)[0], seed)
        case _:
            return _varied(pointed(row, base, at), kind, seed)


def _varied(content: bytes, kind: DataType, seed: int) -> int:
    match kind:
        case AtomicType() | DecimalType():
            return hash_bytes(content, seed)
        case StructType():
            return _struct(content, 0, kind, seed)
        case ArrayType():
            return _array(content, kind, seed)
        case MapType():
            return _map(content, kind, seed)
        case _:
            assert_never(kind)


def _fixed(value: Any, name: str, size: int, seed: int) -> int:
    if name in ("float", "double"):  # by their bits, with a single NaN and a single zero
        plain = math.nan if math.isnan(value) else value + 0.0
        bits = struct.pack("<f" if name == "float" else "<d", plain)
        value = int.from_bytes(bits, "little", signed=True)
    return (hash_long if size == _WORD else hash_int)(int(value), seed)


def _array(array: bytes, kind: ArrayType, seed: int) -> int:
    for at in _places(array, kind.element):
        seed = seed if at is None else _value(array, 0, at, kind.element, seed)
    return seed


def _map(content: bytes, kind: MapType, seed: int) -> int:
    split = _WORD + _LONG.unpack_from(content)[0]
    if not _WORD <= split <= len(content):
        raise CodecError("map points beyond its row", offset=0)
    keys, values = content[_WORD:split], content[split:]
    for key, value in zip(_places(keys, kind.key), _places(values, kind.value), strict=False):
        seed = seed if key is None else _value(keys, 0, key, kind.key, seed)
        seed = seed if value is None else _value(values, 0, value, kind.value, seed)
    return seed


def _places(array: bytes, kind: DataType) -> list[int | None]:
    count = _LONG.unpack_from(array)[0]
    width = element_width(kind)
    start = _WORD + (count + 63) // 64 * _WORD
    if not 0 <= count < _MOST_ELEMENTS or start + width * count > len(array):
        raise CodecError(f"array of {count} elements in {len(array)} bytes", offset=0)
    nulls = array[_WORD:start]
    return [
        None if nulls[number // 8] >> number % 8 & 1 else start + width * number
        for number in range(count)
    ]


# -- Murmur3 itself: hashes are unsigned here


def hash_int(value: int, seed: int) -> int:
    return _finish(_mix(seed, value), 4)


def hash_long(value: int, seed: int) -> int:
    return _finish(_mix(_mix(seed, value), value >> 32), 8)


def hash_bytes(value: bytes, seed: int) -> int:
    whole = len(value) // 4
    for word in struct.unpack_from(f"<{whole}i", value):
        seed = _mix(seed, word)
    for byte in value[4 * whole :]:
        seed = _mix(seed, byte - 256 if byte > 127 else byte)  # noqa: PLR2004 -- a signed byte
    return _finish(seed, len(value))


def _mix(state: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _32_BITS
    word = (word << 15 | word >> 17) * 0x1B873593 & _32_BITS
    state = (state ^ word) & _32_BITS
    return ((state << 13 | state >> 19) * 5 + 0xE6546B64) & _32_BITS


def _finish(state: int, length: int) -> int:
    state ^= length
    state = (state ^ state >> 16) * 0x85EBCA6B & _32_BITS
    state = (state ^ state >> 13) * 0xC2B2AE35 & _32_BITS
    return state ^ state >> 16
