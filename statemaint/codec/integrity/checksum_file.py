"""The two checksum files that a state file may have beside it, and the CRC-32C of bytes in transit.

Hadoop's `.NAME.crc`, on local disk only:

    "crc" 0x00 bytesPerChecksum(>i) (CRC-32(>I) of each bytesPerChecksum bytes of the file)*

Spark's `NAME.crc` (4.1 for every store, later only with checkpoint structure V2), one JSON line:

    {"algorithm":"CRC32C","value":-2093388049,"mainFileSize":119,"timestampMs":...,"creator":...}

where value is the signed 32-bit CRC-32C of the stored bytes. Mirrors Hadoop's `ChecksumFileSystem`
and Spark's `ChecksumCheckpointFileManager`.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import BinaryIO

import google_crc32c

from statemaint.errors import CodecError

MOST_BYTES = 64 * 1024
"""The size of the largest of Spark's checksum files that is read: they have about 200 bytes."""
_MAGIC = b"crc\x00"
_BYTES_PER_CHECKSUM = 512
_MOST_BYTES_PER_CHECKSUM = 1 << 24
_HEADER = struct.Struct(">4si")
_PIECE = 64 * 1024


def hadoop(content: bytes) -> bytes:
    """Returns the `.NAME.crc` that Hadoop would write beside a file."""
    step = _BYTES_PER_CHECKSUM
    sums = [zlib.crc32(content[at : at + step]) for at in range(0, len(content), step)]
    return _HEADER.pack(_MAGIC, step) + struct.pack(f">{len(sums)}I", *sums)


def hadoop_matches(side_file: bytes, content: BinaryIO) -> bool:
    """Returns whether a `.NAME.crc` belongs to a file, which is read to its end."""
    if len(side_file) < _HEADER.size or side_file[:4] != _MAGIC:
        raise CodecError("not a Hadoop checksum file", offset=0)
    _, step = _HEADER.unpack_from(side_file)
    sums = side_file[_HEADER.size :]
    if not 0 < step <= _MOST_BYTES_PER_CHECKSUM or len(sums) % 4:
        raise CodecError(f"Hadoop checksum file with {step} bytes per checksum", offset=4)
    expected = (sums[at : at + 4] for at in range(0, len(sums), 4))
    pieces = iter(lambda: content.read(step), b"")
    return all(
        piece is not None and checksum == zlib.crc32(piece).to_bytes(4)
        for piece, checksum in zip_longest(pieces, expected)
    )


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """The content of Spark's checksum file: a signed CRC-32C and a size in bytes."""

    value: int
    size: int

    def fits(self, crc32c: int, size: int) -> bool:
        return (self.value, self.size) == (_signed(crc32c), size)

    def matches(self, content: bytes) -> bool:
        return self.fits(google_crc32c.value(content), len(content))


def spark(crc32c: int, size: int, modified: float) -> bytes:
    """Returns the `NAME.crc` of a file, without the creator, which Spark does not require."""
    fields = {
        "algorithm": "CRC32C",
        "value": _signed(crc32c),
        "mainFileSize": size,
        "timestampMs": int(modified * 1000),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def parse_spark(side_file: bytes) -> FileChecksum:
    try:
        fields = json.loads(side_file)
        algorithm, value, size = fields["algorithm"], fields["value"], fields["mainFileSize"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CodecError(f"not a Spark checksum file: {error!r}", offset=0) from error
    if algorithm != "CRC32C" or type(value) is not int or type(size) is not int:
        raise CodecError(f"checksum file of an unknown kind: {algorithm!r}", offset=0)
    return FileChecksum(value, size)


def _signed(value: int) -> int:
    return int(*struct.unpack(">i", struct.pack(">I", value)))


class ChecksummedChunks:
    """Chunks that are written to a file, and the unsigned CRC-32C of those that have passed."""

    __slots__ = ("_chunks", "crc32c")

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.crc32c = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.crc32c = google_crc32c.extend(self.crc32c, chunk)
            yield chunk


class ChecksummedStream:
    """A stream that is read in order, and the size and unsigned CRC-32C of its bytes so far."""

    __slots__ = ("_ended", "_stream", "crc32c", "size")

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._ended = stream, False
        self.crc32c = self.size = 0

    def read(self, size: int = -1) -> bytes:
        """Returns up to `size` bytes, all by default; no bytes at the end, however often called."""
        if self._ended:  # a decoder reads twice at the end of each file, and most files are small
            return b""
        if content := self._stream.read(size):
            self.crc32c = google_crc32c.extend(self.crc32c, content)
            self.size += len(content)
        else:
            self._ended = size != 0
        return content

    def drain(self) -> None:
        """Reads what a decoder has left after the end of its format: the rest of the file."""
        while self.read(_PIECE):
            pass
