"""The two checksum files that may lie beside a state file.

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
from dataclasses import dataclass

import google_crc32c

from statemaint.errors import CodecError

_MAGIC = b"crc\x00"
_BYTES_PER_CHECKSUM = 512
_HEADER = struct.Struct(">4si")


def hadoop(content: bytes) -> bytes:
    """Returns the `.NAME.crc` that Hadoop would write beside a file."""
    step = _BYTES_PER_CHECKSUM
    sums = [zlib.crc32(content[at : at + step]) for at in range(0, len(content), step)]
    return _HEADER.pack(_MAGIC, step) + struct.pack(f">{len(sums)}I", *sums)


def hadoop_matches(side_file: bytes, content: bytes) -> bool:
    """Tells whether a `.NAME.crc` belongs to a file's content.

    Raises:
        CodecError: when the side file itself is malformed.
    """
    if len(side_file) < _HEADER.size or side_file[:4] != _MAGIC:
        raise CodecError("not a Hadoop checksum file", offset=0)
    _, step = _HEADER.unpack_from(side_file)
    if step <= 0 or (len(side_file) - _HEADER.size) % 4:
        raise CodecError(f"Hadoop checksum file with {step} bytes per checksum", offset=4)
    sums = [zlib.crc32(content[at : at + step]) for at in range(0, len(content), step)]
    return side_file[_HEADER.size :] == struct.pack(f">{len(sums)}I", *sums)


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """What Spark's checksum file says of its file: a signed CRC-32C and a size in bytes."""

    value: int
    size: int

    def matches(self, content: bytes) -> bool:
        """Tells whether it belongs to a file's content."""
        return (self.value, self.size) == (_signed(google_crc32c.value(content)), len(content))


def parse_spark(side_file: bytes) -> FileChecksum:
    """Returns what Spark's `NAME.crc` says.

    Raises:
        CodecError: when it is not that JSON, or of another algorithm.
    """
    try:
        fields = json.loads(side_file)
        algorithm, value, size = fields["algorithm"], fields["value"], fields["mainFileSize"]
    except (ValueError, TypeError, KeyError) as error:
        raise CodecError(f"not a Spark checksum file: {error!r}", offset=0) from error
    if algorithm != "CRC32C" or type(value) is not int or type(size) is not int:
        raise CodecError(f"checksum file of an unknown kind: {algorithm!r}", offset=0)
    return FileChecksum(value, size)


def _signed(value: int) -> int:
    signed: int = struct.unpack(">i", struct.pack(">I", value))[0]
    return signed
