"""A standard Zstandard stream (RFC 8878), as zstd-jni writes it for Spark.

    stream = frame*
    frame  = 28 b5 2f fd  descriptor(1)  window and sizes  block*  checksum(<I, optional)
           | 5? 2a 4d 18  length(<I)  bytes that mean nothing

Spark writes one frame of level 1 without a checksum (`spark.io.compression.zstd.level`); our frame
has one, which Spark's reader verifies. Blocks of a frame depend on each other, so none can be
copied. A frame may request a window of at most 128 MiB, the limit of this library and of Spark's.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

if sys.version_info >= (3, 14):  # pragma: no cover
    from compression import zstd
else:  # pragma: no cover
    from backports import zstd

from statemaint.codec.compression.base import Block, Buffer, Encoder, ExactStream
from statemaint.errors import CodecError

# The rest of a piece after the end of a frame is copied, so pieces are small.
_PIECE = 16 * 1024
_MOST = 128 * 1024


@dataclass(frozen=True, slots=True)
class Zstd:
    """Spark's `ZStdCompressionCodec`.

    Attributes:
        level: Spark's default is 1.
    """

    name = "zstd"
    level: int = 1

    @property
    def block_size(self) -> int:
        """Returns the number of payload bytes that the format itself puts in a block."""
        return _MOST

    def blocks(self, stream: BinaryIO) -> Iterator[Block]:
        """Yields a stream's payload in pieces of at most 128 KiB, whatever its expanded size."""
        source = ExactStream(stream)
        rest = source.piece(_PIECE)
        while rest:
            frame = _Frame(source, rest)
            yield from frame
            rest = frame.rest

    def encoder(self) -> Encoder:
        parameter = zstd.CompressionParameter
        options: dict[int, int] = {
            parameter.compression_level: self.level,
            parameter.checksum_flag: 1,
        }
        return _Encoder(zstd.ZstdCompressor(options=options))


@dataclass(frozen=True, slots=True)
class _Encoder(Encoder):
    frame: zstd.ZstdCompressor

    def block(self, payload: Buffer) -> bytes:
        return self.frame.compress(payload)

    def end(self) -> bytes:
        return self.frame.flush()


@dataclass(slots=True)
class _Frame:
    """One frame while it is read; `rest` is read data after the frame, or not yet used."""

    source: ExactStream
    rest: bytes
    start: int = 0
    frame: zstd.ZstdDecompressor = field(default_factory=zstd.ZstdDecompressor)

    def __iter__(self) -> Iterator[Block]:
        while not self.frame.eof:
            if payload := self._step(self._input()):
                yield Block(payload)
        self.rest = self.frame.unused_data or self.source.piece(_PIECE)

    def _input(self) -> bytes:
        """Returns the next piece of the frame, empty while the last one still gives payload."""
        if not self.frame.needs_input:
            return b""
        piece = self.rest or self.source.piece(_PIECE)
        self.rest, self.start = b"", self.source.offset - len(piece)
        if not piece:
            raise CodecError("frame cut short", offset=self.source.offset)
        return piece

    def _step(self, data: bytes) -> bytes:
        try:
            return self.frame.decompress(data, _MOST)
        except zstd.ZstdError as error:
            text = f"frame does not decompress: {error}"
            raise CodecError(text, offset=self.start) from error
