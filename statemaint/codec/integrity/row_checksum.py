"""The checksums of keys and rows of a query that enables row checksums (Spark 4.2+).

HDFS-backed, in deltas; a snapshot has the same puts:

    put       = key, checksum(<i) row         checksum = CRC-32C of key row
    tombstone = checksum(<i) key              checksum = CRC-32C of key

RocksDB, in changelogs of every format, and values in the database itself:

    value    = row (delimiter row)*           several rows in a store of lists, else one; in a list
                                              the bytes of each are length(<i) row
    row      = checksum(<i) length(<i) bytes  checksum = CRC-32C of key bytes
    deleted  = checksum(<i) key               checksum = CRC-32C of key
    end      = row                            of a deleted range, its key being the range's begin

The setting is `spark.sql.streaming.stateStore.rowChecksum.enabled`, pinned in the offset log. A
value is copied with its checksum; a key is stored bare, with its column family's number in front if
there is one, but for that of a removal in a log. The delimiter is empty, or "," with the merge
operator of version 1 (`stateStore.rocksdb.mergeOperatorVersion`). Mirrors
`KeyValueChecksumEncoder`, `KeyValueIntegrityVerifier` and `RocksDB.verifyChangelogRecord`, which
checks only the first row of a value.
"""

import struct

import google_crc32c

from statemaint.errors import CodecError

Record = tuple[bytes, bytes | None]

_CHECKSUM, _HEAD = struct.Struct("<I"), struct.Struct("<Ii")
_DELIMITER = b","


def seal_key(key: bytes) -> bytes:
    return _CHECKSUM.pack(google_crc32c.value(key)) + key


def bare_key(sealed: bytes, *, offset: int) -> bytes:
    """Returns the key of a removal without its checksum, which is compared."""
    key = _bare(sealed, "key of a removal", offset)
    _must_equal(_CHECKSUM.unpack_from(sealed)[0], google_crc32c.value(key), offset)
    return key


# -- HDFS-backed


def seal(record: Record) -> Record:
    key, row = record
    if row is None:
        return seal_key(key), None
    return key, _CHECKSUM.pack(_checksum(key, row)) + row


def verify(record: Record, *, offset: int) -> Record:
    """Returns a verified record: a put as it is, a tombstone with its bare key."""
    key, value = record
    if value is None:
        return bare_key(key, offset=offset), None
    row = _bare(value, "value", offset)
    _must_equal(_CHECKSUM.unpack_from(value)[0], _checksum(key, row), offset)
    return record


# -- RocksDB


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
    end = _check_row(key, value, 0, offset)
    width = _delimiter_width(key, value, end)
    while end < len(value):
        if value[end : end + width] != _DELIMITER[:width]:
            raise CodecError("rows are not all separated in the same way", offset=offset)
        end = _check_row(key, value, end + width, offset)


def _delimiter_width(key: bytes, value: bytes, end: int) -> int:
    """Returns the width of the delimiter, given where the second row would begin without one."""
    # A checksum may begin with the delimiter's byte, so the reading that matches decides.
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
    stored, size = _HEAD.unpack_from(value, start)
    row = value[begin : begin + max(size, 0)]
    if len(row) != size:
        raise CodecError(f"row of {size} bytes has {len(row)} in its value", offset=offset)
    _must_equal(stored, _checksum(key, row), offset)
    return begin + len(row)


def _checksum(key: bytes, row: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(key), row))


def _bare(sealed: bytes, what: str, offset: int) -> bytes:
    if len(sealed) < _CHECKSUM.size:
        text = f"{what} of {len(sealed)} bytes is too short for a row checksum"
        raise CodecError(text, offset=offset)
    return sealed[_CHECKSUM.size :]


def _must_equal(stored: int, computed: int, offset: int) -> None:
    if stored != computed:
        text = f"row checksum is {stored:08x}, its bytes have {computed:08x}"
        raise CodecError(text, offset=offset)
