"""The stream that lz4-java's `LZ4BlockOutputStream` writes; Spark's default codec for state.

    stream  = block* end
    block   = "LZ4Block" token(1) compressedLength(<i) originalLength(<i) checksum(<i) bytes
    token   = method | level          method 0x10 raw, 0x20 LZ4; at most 1 << (10 + level) bytes
    end     = a raw block of lengths and checksum 0
    checksum = xxHash32(original bytes, seed 0x9747b28c) & 0x0fffffff

Spark writes blocks of 32 KiB (`spark.io.compression.lz4.blockSize`), hence level 5. It also reads
larger blocks, several ended streams in a row, and a stream that lacks its end; so does `decode`.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import lz4.block
import xxhash

from statemaint.errors import CodecError

MAGIC = b"LZ4Block"
BLOCK_SIZE = 32 * 1024

_HEADER = struct.Struct("<8sBiii")
_RAW, _LZ4 = 0x10, 0x20
_METHOD, _LEVEL = 0xF0, 0x0F
_BASE_LEVEL = 10
_SEED = 0x9747B28C
_CHECKSUM_MASK = 0x0FFFFFFF


def encode(chunks: Iterable[bytes], *, block_size: int = BLOCK_SIZE) -> Iterator[bytes]:
    """Yields the stream of some payload, block by block.

    Args:
        chunks: the payload, in pieces of any size.
        block_size: a power of two from 1 KiB to 32 MiB; every block but the last is as large.
    """
    level = max(0, (block_size - 1).bit_length() - _BASE_LEVEL)
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        full = len(pending) - len(pending) % block_size
        for start in range(0, full, block_size):
            yield _block(bytes(pending[start : start + block_size]), level)
        del pending[:full]
    if pending:
        yield _block(bytes(pending), level)
    yield _HEADER.pack(MAGIC, _RAW | level, 0, 0, 0)


def _block(original: bytes, level: int) -> bytes:
    packed = lz4.block.compress(original, store_size=False)
    method, body = (_LZ4, packed) if len(packed) < len(original) else (_RAW, original)
    header = _HEADER.pack(MAGIC, method | level, len(body), len(original), _checksum(original))
    return header + body


def _checksum(original: bytes) -> int:
    return xxhash.xxh32_intdigest(original, _SEED) & _CHECKSUM_MASK


def decode(stream: BinaryIO) -> Iterator[bytes]:
    """Yields the payload of a stream, one block at a time, each checked.

    Memory is bounded by one block: a length field is believed only up to the limit that the
    block's own level sets.

    Raises:
        CodecError: on the first byte that does not follow the format.
    """
    offset = 0
    while header := stream.read(_HEADER.size):
        method, packed, original, checksum = _parse(header, offset)
        body_at = offset + _HEADER.size
        body = stream.read(packed)
        if len(body) != packed:
            raise CodecError(f"block cut short: {len(body)} of {packed} bytes", offset=body_at)
        if original:
            yield _payload(method, body, original, checksum, offset=body_at)
        offset = body_at + packed


def _parse(header: bytes, offset: int) -> tuple[int, int, int, int]:
    if len(header) != _HEADER.size:
        raise CodecError(f"block header cut short: {len(header)} bytes", offset=offset)
    magic, token, packed, original, checksum = _HEADER.unpack(header)
    method, limit = token & _METHOD, 1 << (_BASE_LEVEL + (token & _LEVEL))
    if magic != MAGIC:
        raise CodecError("not an LZ4 block: the magic bytes are missing", offset=offset)
    if method not in (_RAW, _LZ4):
        raise CodecError(f"unknown block method 0x{method:02x}", offset=offset)
    if not (0 <= original <= limit and 0 <= packed <= limit):
        raise CodecError(f"impossible block lengths {packed} and {original}", offset=offset)
    if (original == 0) != (packed == 0) or (method == _RAW and packed != original):
        raise CodecError(f"block lengths {packed} and {original} disagree", offset=offset)
    if original == 0 and checksum != 0:
        raise CodecError("end mark with a checksum", offset=offset)
    return method, packed, original, checksum


def _payload(method: int, body: bytes, original: int, checksum: int, *, offset: int) -> bytes:
    payload = body if method == _RAW else _decompress(body, original, offset)
    if _checksum(payload) != checksum & 0xFFFFFFFF:
        raise CodecError("block checksum does not match its bytes", offset=offset)
    return payload


def _decompress(body: bytes, original: int, offset: int) -> bytes:
    try:
        payload: bytes = lz4.block.decompress(body, uncompressed_size=original)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError) as error:
        raise CodecError(f"block does not decompress: {error}", offset=offset) from error
    if len(payload) != original:
        raise CodecError(f"block holds {len(payload)} of {original} bytes", offset=offset)
    return payload
