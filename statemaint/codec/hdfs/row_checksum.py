"""The checksum of each record of a query that enables row checksums (Spark 4.2+).

    put       = key, checksum(<i) row       checksum = CRC-32C of key row
    tombstone = checksum(<i) key            checksum = CRC-32C of key

The setting is `spark.sql.streaming.stateStore.rowChecksum.enabled`, pinned in the offset log. A
snapshot has the same puts, so a value is copied with its checksum; a key never has a checksum while
it is compared. Mirrors `KeyValueChecksumEncoder` and `KeyValueIntegrityVerifier`.
"""

import struct

import google_crc32c

from statemaint.errors import CodecError

Record = tuple[bytes, bytes | None]

_CHECKSUM = struct.Struct("<I")


def seal(record: Record) -> Record:
    """Returns a record with its checksum, in the value of a put and in the key of a tombstone."""
    key, row = record
    if row is None:
        return _CHECKSUM.pack(google_crc32c.value(key)) + key, None
    return key, _CHECKSUM.pack(_of_put(key, row)) + row


def verify(record: Record, *, offset: int) -> Record:
    """Returns a verified record: a put as it is, a tombstone with its bare key."""
    key, value = record
    if value is None:
        bare = _bare(key, "key of a removal", offset)
        _must_equal(_CHECKSUM.unpack_from(key)[0], google_crc32c.value(bare), offset)
        return bare, None
    row = _bare(value, "value", offset)
    _must_equal(_CHECKSUM.unpack_from(value)[0], _of_put(key, row), offset)
    return record


def _of_put(key: bytes, row: bytes) -> int:
    checksum: int = google_crc32c.extend(google_crc32c.value(key), row)
    return checksum


def _bare(sealed: bytes, what: str, offset: int) -> bytes:
    if len(sealed) < _CHECKSUM.size:
        text = f"{what} of {len(sealed)} bytes is too short for a row checksum"
        raise CodecError(text, offset=offset)
    return sealed[_CHECKSUM.size :]


def _must_equal(stored: int, computed: int, offset: int) -> None:
    if stored != computed:
        text = f"row checksum is {stored:08x}, its bytes have {computed:08x}"
        raise CodecError(text, offset=offset)
