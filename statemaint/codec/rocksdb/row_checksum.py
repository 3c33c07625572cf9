"""The checksums of keys and rows in a RocksDB store of a query that enables them (Spark 4.2+).

    value    = row (delimiter row)*           several rows in a store of lists, else one
    row      = checksum(<i) length(<i) bytes  checksum = CRC-32C of key bytes
    deleted  = checksum(<i) key               checksum = CRC-32C of key
    end      = row                            of a deleted range, its key being the range's begin

A value is stored like this in changelogs of every format and in the database itself. The key that
it covers begins with its column family's number and is stored bare; only the key of a delete has a
checksum, and only in a changelog. The delimiter is empty, or "," with the merge operator of
version 1 (`stateStore.rocksdb.mergeOperatorVersion`). This is not the grammar of HDFS-backed stores
(`row_checksum`), which has no length. Mirrors `KeyValueChecksumEncoder` and
`RocksDB.verifyChangelogRecord`, which checks only the first row of a value.
"""

import struct

import google_crc32c

from statemaint.codec.hdfs import row_checksum
from statemaint.errors import CodecError

_HEAD = struct.Struct("<Ii")
_DELIMITER = b","


def seal_key(key: bytes) -> bytes:
    """Returns the key of a delete with its checksum."""
    return row_checksum.seal((key, None))[0]


def bare_key(sealed: bytes, *, offset: int) -> bytes:
    """Returns the key of a delete without its checksum."""
    return row_checksum.verify((sealed, None), offset=offset)[0]


def seal_row(key: bytes, row: bytes) -> bytes:
    """Returns a value of one row, or the end of a range, with its checksum."""
    return _HEAD.pack(_checksum(key, row), len(row)) + row


def bare_row(key: bytes, value: bytes, *, offset: int) -> bytes:
    """Returns the one row of a value, or the end of a range, without its checksum."""
    end = _check_row(key, value, 0, offset)
    if end != len(value):
        raise CodecError(f"{len(value) - end} bytes follow a row", offset=offset)
    return value[_HEAD.size :]


def check_rows(key: bytes, value: bytes, *, offset: int) -> None:
    """Checks that all rows of a value match their checksums."""
    end = _check_row(key, value, 0, offset)
    width = _delimiter_width(key, value, end)
    while end < len(value):
        if value[end : end + width] != _DELIMITER[:width]:
            raise CodecError("rows are not all separated in the same way", offset=offset)
        end = _check_row(key, value, end + width, offset)


def _delimiter_width(key: bytes, value: bytes, end: int) -> int:
    """Returns the width of the delimiter, given where the second row would begin without one.

    A checksum may begin with the delimiter's byte, so the reading that matches decides.
    """
    if value[end : end + 1] != _DELIMITER:
        return 0
    try:
        _check_row(key, value, end, 0)
    except CodecError:
        return len(_DELIMITER)
    return 0


def _check_row(key: bytes, value: bytes, start: int, offset: int) -> int:
    """Returns the end of a row in a value."""
    begin = start + _HEAD.size
    if begin > len(value):
        raise CodecError(f"value of {len(value)} bytes is too short for a row", offset=offset)
    stored: int
    size: int
    stored, size = _HEAD.unpack_from(value, start)
    row = value[begin : begin + max(size, 0)]
    if len(row) != size:
        raise CodecError(f"row of {size} bytes has {len(row)} in its value", offset=offset)
    if (computed := _checksum(key, row)) != stored:
        text = f"row checksum is {stored:08x}, its bytes have {computed:08x}"
        raise CodecError(text, offset=offset)
    return begin + size


def _checksum(key: bytes, row: bytes) -> int:
    checksum: int = google_crc32c.extend(google_crc32c.value(key), row)
    return checksum
