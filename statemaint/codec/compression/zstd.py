"""A standard Zstandard stream (RFC 8878), as zstd-jni writes it for Spark.

    stream = frame*
    frame  = 28 b5 2f fd  descriptor(1)  window and sizes  block*  checksum(<I, optional)
           | 5? 2a 4d 18  length(<I)  bytes that mean nothing

Spark writes one frame of level 1 without a checksum (`spark.io.compression.zstd.level`); our frame
has one, which Spark's reader verifies. Blocks of a frame depend on each other, so none can be
copied. A frame may request a window of at most 128 MiB, the limit of this library and of Spark's.
"""

import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO

if sys.version_info >= (3, 14):  # pragma: no cover
    from compression import zstd
else:  # pragma: no cover
    from backports import zstd

from statemaint.codec.compression.base import Block, Buffer, Encoder, ExactStream
from statemaint.errors import CodecError

# The rest of a piece after the end of a frame is copied, so pieces are small.
_PIECE = 16 * 1024


@dataclass(frozen=True, slots=True)
class Zstd:
    """Spark's `ZStdCompressionCodec`, whose default level is 1."""

    name = "zstd"
    block_size = 128 * 1024  # the format itself puts no more in a block
    level: int = 1

    def blocks(self, stream: BinaryIO) -> Iterator[Block]:
        """Yields a stream's payload in pieces of at most 128 KiB, whatever its expanded size."""
        source = ExactStream(stream)
        piece = source.piece(_PIECE)
        while piece:
            piece = yield from _frame(source, piece)

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


def _frame(source: ExactStream, piece: bytes) -> Generator[Block, None, bytes]:
    """Yields the blocks of a frame, given its first piece; returns the first piece after it."""
    frame, start = zstd.ZstdDecompressor(), source.offset - len(piece)
    while True:
        try:
            payload = frame.decompress(piece, Zstd.block_size)
        except zstd.ZstdError as error:
            raise CodecError(f"frame does not decompress: {error}", offset=start) from error
        if payload:
            yield Block(payload)
        if frame.eof:
            return frame.unused_data or source.piece(_PIECE)
        piece = b""
        if frame.needs_input:
            start = source.offset
            piece = source.piece(_PIECE)
            if not piece:
                raise CodecError("frame cut short", offset=start)
