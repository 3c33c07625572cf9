"""The stream that lz4-java's `LZ4BlockOutputStream` writes; Spark's default codec for state.

    stream  = block* end
    block   = "LZ4Block" token(1) compressedLength(<i) originalLength(<i) checksum(<i) bytes
    token   = method | level          method 0x10 raw, 0x20 LZ4; at most 1 << (10 + level) bytes
    end     = a raw block of lengths and checksum 0
    checksum = xxHash32(original bytes, seed 0x9747b28c) & 0x0fffffff

Spark writes blocks of 32 KiB (`spark.io.compression.lz4.blockSize`), hence level 5. It also reads
larger blocks, several ended streams in a row, and a stream without its end; so do we.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import cramjam
import lz4.block
import xxhash

from statemaint.codec.compression.base import Block, Buffer, Encoder, ExactStream
from statemaint.errors import CodecError

MAGIC = b"LZ4Block"

_HEADER = struct.Struct("<8sBiii")
HEADER_SIZE = _HEADER.size
_RAW, _LZ4 = 0x10, 0x20
_METHOD, _LEVEL = 0xF0, 0x0F
_BASE_LEVEL = 10
_SEED = 0x9747B28C
_CHECKSUM_MASK = 0x0FFFFFFF
_MOST_PER_BYTE = 255  # a match grows by as much with each byte of its length


@dataclass(frozen=True, slots=True)
class Lz4Block:
    """Spark's `LZ4CompressionCodec`; `block_size` is a power of two from 1 KiB to 32 MiB."""

    name = "lz4"
    block_size: int = 32 * 1024

    def blocks(self, stream: BinaryIO) -> Iterator[Block]:
        # Memory is bounded by a block: a length field is trusted only up to the limit that the
        # block's own level sets, and to the most that its stored bytes can expand to.
        source = ExactStream(stream)
        while header := source.header(_HEADER.size):
            offset = source.offset
            method, packed, original, checksum = _parse(header, offset - _HEADER.size)
            body = source.body(packed)
            if not original:
                continue
            payload = body if method == _RAW else _decompress(body, original, offset)
            if _checksum(payload) != checksum & 0xFFFFFFFF:
                raise CodecError("block checksum does not match its bytes", offset=offset)
            yield Block(payload, header + body)

    def encoder(self) -> Encoder:
        return _Encoder(self.level)

    @property
    def level(self) -> int:
        return max(0, (self.block_size - 1).bit_length() - _BASE_LEVEL)


@dataclass(frozen=True, slots=True)
class _Encoder(Encoder):
    level: int

    def block(self, payload: Buffer) -> bytes:
        packed = lz4.block.compress(payload, store_size=False)
        shrinks = len(packed) < len(payload)
        method, body = (_LZ4, packed) if shrinks else (_RAW, bytes(payload))
        lengths = len(body), len(payload)
        return _HEADER.pack(MAGIC, method | self.level, *lengths, _checksum(payload)) + body

    def end(self) -> bytes:
        return _HEADER.pack(MAGIC, _RAW | self.level, 0, 0, 0)


def is_end(tail: bytes) -> bool:
    """Returns whether a file's last `HEADER_SIZE` bytes are the end of a stream."""
    try:
        return len(tail) == HEADER_SIZE and _parse(tail, 0)[2] == 0
    except CodecError:
        return False


def _checksum(original: Buffer) -> int:
    return xxhash.xxh32_intdigest(original, _SEED) & _CHECKSUM_MASK


def _parse(header: bytes, offset: int) -> tuple[int, int, int, int]:
    magic, token, packed, original, checksum = _HEADER.unpack(header)
    method, limit = token & _METHOD, 1 << (_BASE_LEVEL + (token & _LEVEL))
    if magic != MAGIC:
        raise CodecError("not an LZ4 block: the magic bytes are missing", offset=offset)
    if method not in (_RAW, _LZ4):
        raise CodecError(f"unknown block method 0x{method:02x}", offset=offset)
    if not (0 <= original <= min(limit, packed * _MOST_PER_BYTE) and packed <= limit):
        raise CodecError(f"impossible block lengths {packed} and {original}", offset=offset)
    if (original == 0) != (packed == 0) or (method == _RAW and packed != original):
        raise CodecError(f"block lengths {packed} and {original} disagree", offset=offset)
    if original == 0 and checksum != 0:
        raise CodecError("end mark with a checksum", offset=offset)
    return method, packed, original, checksum


def _decompress(body: bytes, original: int, offset: int) -> bytearray:
    # The buffer is ours: the call then reports the actual size, and lets other threads run.
    payload = bytearray(original)
    try:
        size = cramjam.lz4.decompress_block_into(body, payload, output_len=original)
    except cramjam.DecompressionError as error:
        raise CodecError(f"block does not decompress: {error}", offset=offset) from error
    if size != original:
        raise CodecError(f"block holds {size} of {original} bytes", offset=offset)
    return payload
