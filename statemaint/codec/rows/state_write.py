"""The writer of keys and values in RocksDB stores; `state_row` reads them and has their grammar.

It takes whole rows, as HDFS-backed stores have them, and mirrors `RocksDBStateEncoder.scala`. The
column family's number, row checksums and delimiters are not written here.
"""

import struct
from collections.abc import Callable

from statemaint.codec.rows.state_row import (
    Bare,
    NoPrefix,
    PrefixScan,
    RangeScan,
    RowLayout,
    TimestampFirst,
    TimestampLast,
)
from statemaint.codec.rows.types import AtomicType, Field, StructType
from statemaint.codec.rows.unsafe_read import row_reader
from statemaint.codec.rows.unsafe_write import RowWriter, prefix_of, row_of

VERSION = b"\0"
_INT, _MOMENT, _BIG_ENDIAN = struct.Struct("<i"), struct.Struct(">Q"), struct.Struct(">q")
_LONG, _BINARY = AtomicType("long"), AtomicType("binary")
_HIGHEST_BIT = 1 << 63

Encoder = Callable[[bytes], bytes]


def key_encoder(layout: RowLayout) -> Encoder:
    """Returns the function that encodes a key's row; a `ValueError` if it is not known here."""
    kind, columns = layout.key, len(layout.key.fields)
    match layout.encoder:
        case Bare():
            return lambda row: row
        case NoPrefix():
            return lambda row: VERSION + row
        case PrefixScan(count):
            return lambda row: _split(kind, count, row)
        case TimestampFirst():
            return lambda row: _moment(kind, row) + VERSION + prefix_of(row, kind, columns - 1)
        case TimestampLast():
            return lambda row: VERSION + prefix_of(row, kind, columns - 1) + _moment(kind, row)
        case RangeScan(ordinals) if all(kind.fields[at].type == _LONG for at in ordinals):
            return lambda row: _ordered(kind, ordinals, row)
        case _:
            raise ValueError(f"keys in {layout.encoder} are not written")


def entry_encoder(layout: RowLayout) -> Encoder:
    """Returns the function that encodes a row of a value, or one of several in a value."""
    if isinstance(layout.encoder, Bare):
        return lambda row: row
    if layout.many:
        return lambda row: _INT.pack(len(VERSION) + len(row)) + VERSION + row
    return lambda row: VERSION + row


def _split(kind: StructType, columns: int, row: bytes) -> bytes:
    parts = [(row, kind, number) for number in range(len(kind.fields))]
    front = VERSION + row_of(parts[:columns])
    return _INT.pack(len(front)) + front + VERSION + row_of(parts[columns:])


def _moment(kind: StructType, row: bytes) -> bytes:
    end = 8 * ((len(kind.fields) + 63) // 64 + len(kind.fields))
    return _MOMENT.pack(int.from_bytes(row[end - 8 : end], "little") ^ _HIGHEST_BIT)


def _ordered(kind: StructType, ordinals: tuple[int, ...], row: bytes) -> bytes:
    """Returns a key that sorts by some columns first: long numbers that are not null."""
    columns = [(row, kind, place) for place in range(len(kind.fields))]
    first, others = [columns[at] for at in ordinals], [*{*range(len(columns))} - {*ordinals}]
    words = row_reader(kind.only(ordinals))(each := row_of(first), 0, len(each))
    signed = [bytes([number >= 0]) + _BIG_ENDIAN.pack(number) for number in words]
    ordered = VERSION + RowWriter(StructType((Field("", _BINARY),) * len(signed))).write(signed)
    back = VERSION + row_of([columns[at] for at in sorted(others)]) if others else b""
    return _INT.pack(len(ordered)) + ordered + back
