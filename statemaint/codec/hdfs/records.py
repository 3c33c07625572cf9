"""The records of deltas and snapshots, inside the compression.

    payload = record* end
    record  = keyLength(>i) key valueLength(>i) value       the key now has this value
            | keyLength(>i) key -1(>i)                       the key is removed (deltas only)
    end     = -1(>i)

Mirrors `HDFSBackedStateStoreProvider.writeUpdateToDeltaFile`, `updateFromDeltaFile` and
`writeSnapshotFile`. A delta may name a key more than once: the last record counts. Any negative
value length in a delta removes the key; in a snapshot it is damage. `row_checksum` has the grammar
of the checksums in values and in the keys of removals.
"""

import struct
from collections.abc import Iterable, Iterator

from statemaint.codec.compression.base import Payload
from statemaint.codec.integrity import row_checksum
from statemaint.codec.integrity.row_checksum import Record
from statemaint.errors import CodecError

__all__ = ["Record", "apply", "decode", "encode", "snapshot_rows"]

_INT = struct.Struct(">i")
_END = _INT.pack(-1)
_CHUNK = 64 * 1024


def encode(records: Iterable[Record], *, row_checksums: bool = False) -> Iterator[bytes]:
    """Yields the payload of some records in pieces of about 64 KiB; `None` removes its key."""
    pending = bytearray()
    for key, value in map(row_checksum.seal, records) if row_checksums else records:
        pending += _INT.pack(len(key)) + key
        pending += _END if value is None else _INT.pack(len(value)) + value
        if len(pending) >= _CHUNK:
            yield bytes(pending)
            pending.clear()
    yield bytes(pending) + _END


def decode(
    chunks: Iterable[bytes], *, row_checksums: bool = False, removals: bool = True
) -> Iterator[Record]:
    """Yields the records of a payload that arrives in pieces.

    Row checksums are all checked; a value keeps its checksum, the key of a removal comes bare.
    Without removals a negative value length is refused in Spark's words, as in a snapshot. The
    offset of a `CodecError` counts in the uncompressed payload; for a wrong checksum it is the
    start of the record.
    """
    reader = _Reader(chunks)
    while (length := reader.length()) != -1:
        if length < -1:
            raise CodecError(f"key size cannot be {length}", offset=reader.offset)
        start = reader.offset - _INT.size
        key = reader.take(length)
        size = reader.length()
        if size < 0 and not removals:
            raise CodecError(f"value size cannot be {size}", offset=reader.offset)
        record = key, (reader.take(size) if size >= 0 else None)
        yield row_checksum.verify(record, offset=start) if row_checksums else record
    if reader.has_more():
        raise CodecError("bytes follow the end of the records", offset=reader.offset)


class _Reader(Payload):
    __slots__ = ()

    def length(self) -> int:
        size: int
        at = self.at
        if at + _INT.size <= len(self.buffer):
            self.at += _INT.size
            (size,) = _INT.unpack_from(self.buffer, at)
        else:
            (size,) = _INT.unpack(self.take(_INT.size))
        return size

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.buffer):
            if (have := self.fill(count)) < count:
                raise CodecError(f"records end early: {have} of {count} bytes", offset=self.offset)
            end = count
        taken = self.buffer[self.at : end]
        self.at = end
        return taken


def apply(state: dict[bytes, bytes], delta: Iterable[Record]) -> None:
    """Applies a delta to a state, as faster folds must; a damaged one leaves it half changed."""
    for key, value in delta:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def snapshot_rows(records: Iterable[Record]) -> Iterator[tuple[bytes, bytes]]:
    """Yields a snapshot's records, which may contain no removal."""
    for number, (key, value) in enumerate(records):
        if value is None:
            raise CodecError(f"record {number} of a snapshot removes its key", offset=0)
        yield key, value
