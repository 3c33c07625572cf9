"""Keys and values of RocksDB stores, made from rows and taken apart again.

The grammar is in `state_row`, which reads columns; here rows stay bytes. Mirrors
`RocksDBStateEncoder.scala`.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from statemaint.codec.integrity import row_checksum
from statemaint.codec.rows.state_row import (
    FLOATING,
    NEGATIVE,
    NULL,
    NUMBERS,
    POSITIVE,
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    TimestampFirst,
    TimestampLast,
    Wrapping,
    entries,
    flipped,
    number_digits,
    number_name,
)
from statemaint.codec.rows.types import StructType
from statemaint.codec.rows.unsafe_read import row_reader
from statemaint.codec.rows.unsafe_write import RowWriter, null_bits, prefix_of, row_of
from statemaint.errors import CodecError, UnsupportedError

_INT, _MOMENT, _VERSION, _WORD = struct.Struct("<i"), struct.Struct(">Q"), b"\0", 8
_HIGHEST_BIT = 1 << 63
_Rows = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """The encoding of keys, without their column family."""

    encode: _Rows
    decode: _Rows
    # Encodes the row of the columns in front, with which all keys begin that have them.
    prefix: _Rows | None = None
    ranged: bool = False  # whether keys sort as their columns do


def key_codec(kind: StructType, encoder: KeyEncoder) -> KeyCodec:
    match encoder:
        case NoPrefix():
            return KeyCodec(_VERSION.__add__, lambda key: key[len(_VERSION) :])
        case PrefixScan(columns):
            apart = tuple(range(columns))
            return _split(kind, apart, _VERSION.__add__, lambda front: front[len(_VERSION) :])
        case RangeScan(ordinals):
            ordered, unordered = _ordering(kind.only(ordinals))
            return _split(kind, ordinals, ordered, unordered, ranged=True)
        case TimestampFirst() | TimestampLast():
            return _timed(kind, first=isinstance(encoder, TimestampFirst))
        case _:
            raise UnsupportedError("the state store", f"keys in {encoder}", "those of RocksDB")


def _split(
    kind: StructType,
    apart: tuple[int, ...],
    to_front: _Rows,
    of_front: _Rows,
    *,
    ranged: bool = False,
) -> KeyCodec:
    front = kind.only(apart)
    others = tuple(column for column in range(len(kind.fields)) if column not in apart)
    back = kind.only(others)

    def prefix(row: bytes) -> bytes:
        encoded = to_front(row)
        return _INT.pack(len(encoded)) + encoded

    def encode(row: bytes) -> bytes:
        key = prefix(row_of([(row, kind, column) for column in apart]))
        rest = _VERSION + row_of([(row, kind, column) for column in others])
        return key + rest if others or not ranged else key

    def decode(key: bytes) -> bytes:
        if len(key) < _INT.size:
            raise CodecError(f"{len(key)} bytes are too few for a key", offset=0)
        end = _INT.size + int(_INT.unpack_from(key)[0])
        first, rest = of_front(key[_INT.size : end]), key[end + len(_VERSION) :]
        parts = {column: (first, front, at) for at, column in enumerate(apart)}
        parts |= {column: (rest, back, at) for at, column in enumerate(others)}
        return row_of([parts[column] for column in range(len(kind.fields))])

    return KeyCodec(encode, decode, prefix, ranged)


def _timed(kind: StructType, *, first: bool) -> KeyCodec:
    """Returns the encoding of keys whose last column, a time, stands before or behind them."""
    last = len(kind.fields) - 1
    rest_of, moment = kind.only(tuple(range(last))), kind.only((last,))
    end = null_bits(last + 1) + _WORD * (last + 1)

    def encode(row: bytes) -> bytes:
        time = _MOMENT.pack(int.from_bytes(row[end - _WORD : end], "little") ^ _HIGHEST_BIT)
        rest = _VERSION + prefix_of(row, kind, last)
        return time + rest if first else rest + time

    def decode(key: bytes) -> bytes:
        at = 0 if first else len(key) - _MOMENT.size
        if len(key) <= _MOMENT.size:
            raise CodecError(f"{len(key)} bytes are too few for a key", offset=0)
        word = (_MOMENT.unpack_from(key, at)[0] ^ _HIGHEST_BIT).to_bytes(_WORD, "little")
        rest = (key[_MOMENT.size :] if first else key[:at])[len(_VERSION) :]
        columns = [(rest, rest_of, column) for column in range(last)]
        return row_of([*columns, (bytes(null_bits(1)) + word, moment, 0)])

    return KeyCodec(encode, decode)


def _ordering(front: StructType) -> tuple[_Rows, _Rows]:
    """Returns the functions that turn a row of numbers into one whose bytes sort, and back."""
    names = [number_name(field.type) for field in front.fields]
    binary = [{"name": str(at), "type": "binary", "nullable": True} for at in range(len(names))]
    writer = RowWriter({"type": "struct", "fields": binary})
    read, start = row_reader(writer.struct), null_bits(len(names))

    def ordered(row: bytes) -> bytes:
        nulls, columns = int.from_bytes(row[:start], "little"), list[bytes]()
        for at, name in enumerate(names):
            word = row[start + _WORD * at :][:_WORD]
            columns.append(_ordered(name, None if nulls >> at & 1 else word))
        return _VERSION + writer.write(columns)

    def unordered(encoded: bytes) -> bytes:
        nulls, words = 0, b""
        for at, column in enumerate(read(encoded, len(_VERSION), len(encoded) - len(_VERSION))):
            digits = number_digits(names[at], column, 0)
            nulls |= (digits is None) << at
            words += (digits or b"")[::-1].ljust(_WORD, b"\0")
        return nulls.to_bytes(start, "little") + words

    return ordered, unordered


def _ordered(name: str, word: bytes | None) -> bytes:
    size = NUMBERS[name].size
    if word is None:
        return bytes([NULL]) + bytes(size)
    digits = word[:size][::-1]
    if not digits[0] >> 7:
        return bytes([POSITIVE]) + digits
    return bytes([NEGATIVE]) + (flipped(digits) if name in FLOATING else digits)


# -- values


def entry_of(row: bytes, *, many: bool) -> bytes:
    encoded = _VERSION + row
    return _INT.pack(len(encoded)) + encoded if many else encoded


def value_of(key: bytes, rows: Iterable[bytes], wrapping: Wrapping, *, many: bool) -> bytes:
    """Returns the value of a whole key: exactly one row, unless values have `many`."""
    encoded = [entry_of(row, many=many) for row in rows]
    if wrapping.checksums:
        encoded = [row_checksum.seal_row(key, row) for row in encoded]
    return wrapping.delimiter.join(encoded)


def rows_in(key: bytes, value: bytes, wrapping: Wrapping, *, many: bool) -> list[bytes]:
    """Returns the rows of the value of a whole key; checksums are compared."""
    if wrapping.checksums and not many:
        value = row_checksum.bare_row(key, value, offset=0)
    encoded = entries(key, value, wrapping) if many else (value,)
    return [row[len(_VERSION) :] for row in encoded]
