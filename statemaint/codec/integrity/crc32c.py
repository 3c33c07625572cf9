"""The CRC-32C of bytes in transit, as Spark's checksum file records it."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import google_crc32c

_PIECE = 64 * 1024


class ChecksummedChunks:
    """Chunks that are written to a file, and the CRC-32C of those that have passed.

    Attributes:
        crc32c: the checksum so far, unsigned; that of the file once all chunks have passed.
    """

    __slots__ = ("_chunks", "crc32c")

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.crc32c = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.crc32c = google_crc32c.extend(self.crc32c, chunk)
            yield chunk


class ChecksummedStream:
    """A stream that is read in order, and the size and CRC-32C of the bytes read so far.

    Attributes:
        crc32c: the checksum so far, unsigned; that of the file once `drain` has returned.
        size: the number of bytes so far.
    """

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
        """Reads the rest of the file that a decoder has left after the end of its format."""
        while self.read(_PIECE):
            pass
