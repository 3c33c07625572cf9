"""Rows as another provider stores them, with row checksums or without."""

import struct
from collections.abc import Callable, Iterable
from functools import partial

from statemaint.codec.integrity import row_checksum
from statemaint.codec.rows.state_row import NoPrefix, PrefixScan, RowLayout, Wrapping, entries
from statemaint.codec.rows.types import StructType
from statemaint.codec.rows.unsafe_write import row_of
from statemaint.errors import CodecError
from statemaint.model.checkpoint import Provider
from statemaint.records.savepoints import Shape

Row = tuple[bytes, bytes]
_INT, _VERSION = struct.Struct("<i"), b"\0"


def converter(
    old: Shape, new: Shape, layout: RowLayout, delimiter: bytes = b""
) -> Callable[[Row], Row]:
    """Returns the function that gives a row of one whole shape in another.

    `layout` is the one in RocksDB. From there to HDFS-backed stores and back, it must be one
    without column families, with keys in `NoPrefix` or `PrefixScan`. `delimiter` is between several
    rows in one value.
    """
    key_of = _key_of(old, new, layout)

    def convert(row: Row) -> Row:
        rows = _rows_in(row, old, layout, delimiter)
        key = key_of(row[0])
        return key, _value_of(key, rows, new, layout, delimiter)

    return convert


def _key_of(old: Shape, new: Shape, layout: RowLayout) -> Callable[[bytes], bytes]:
    if old.provider is new.provider:
        return lambda key: key
    match layout.encoder, new.provider:
        case NoPrefix(), Provider.ROCKSDB:
            return lambda key: _VERSION + key
        case NoPrefix(), _:
            return lambda key: key[1:]
        case PrefixScan(columns), Provider.ROCKSDB:
            return partial(_split, layout.key, columns)
        case PrefixScan(columns), _:
            return partial(_joined, layout.key, columns)
        case _:
            raise ValueError(f"only RocksDB has keys in {layout.encoder}")


def _split(kind: StructType, columns: int, key: bytes) -> bytes:
    parts = [(key, kind, number) for number in range(len(kind.fields))]
    front = _VERSION + row_of(parts[:columns])
    return _INT.pack(len(front)) + front + _VERSION + row_of(parts[columns:])


def _joined(kind: StructType, columns: int, key: bytes) -> bytes:
    if len(key) < _INT.size:
        raise CodecError(f"{len(key)} bytes are too few for a key", offset=0)
    end = _INT.size + int(_INT.unpack_from(key)[0])
    front, back = StructType(kind.fields[:columns]), StructType(kind.fields[columns:])
    rows = ((key[_INT.size + 1 : end], front), (key[end + 1 :], back))
    return row_of([(row, of, one) for row, of in rows for one in range(len(of.fields))])


def _rows_in(row: Row, shape: Shape, layout: RowLayout, delimiter: bytes) -> Iterable[bytes]:
    key, value = row
    if shape.provider is Provider.HDFS_BACKED:
        return (value[_INT.size :] if shape.row_checksums else value,)
    encoded: Iterable[bytes] = (value,)
    if layout.many:
        encoded = entries(key, value, Wrapping(0, bool(shape.row_checksums), delimiter))
    elif shape.row_checksums:
        encoded = (row_checksum.bare_row(key, value, offset=0),)
    return [one[len(_VERSION) :] for one in encoded]


def _value_of(
    key: bytes, rows: Iterable[bytes], shape: Shape, layout: RowLayout, delimiter: bytes
) -> bytes:
    if shape.provider is Provider.HDFS_BACKED:
        (row,) = rows
        return row_checksum.seal((key, row))[1] or b"" if shape.row_checksums else row
    encoded = [_VERSION + row for row in rows]
    if layout.many:
        encoded = [_INT.pack(len(row)) + row for row in encoded]
    if shape.row_checksums:
        encoded = [row_checksum.seal_row(key, row) for row in encoded]
    return delimiter.join(encoded)
