"""The four compressions of Spark's state files, written anew: nothing here is of `statemaint`."""

import struct
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import cramjam
import lz4.block
import xxhash
from backports import zstd

_LZ4_HEAD = struct.Struct("<8sBiii")
_SEED, _MASK = 0x9747B28C, 0x0FFFFFFF
_RAW, _PACKED = 0x15, 0x25
_LZ4_END = _LZ4_HEAD.pack(b"LZ4Block", _RAW, 0, 0, 0)
_LZ4_BLOCK = 32768
_SNAPPY_HEAD = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_LZF_CHUNK = 65535
BROKEN = (struct.error, ValueError, IndexError, lz4.block.LZ4BlockError, zstd.ZstdError,
          cramjam.DecompressionError)  # fmt: skip
"""What unpacking garbage raises."""


def _to_lz4(payload: bytes) -> bytes:
    pieces = (payload[at : at + _LZ4_BLOCK] for at in range(0, len(payload), _LZ4_BLOCK))
    return b"".join(map(_lz4_block, pieces)) + _LZ4_END


def _lz4_block(payload: bytes) -> bytes:
    packed = lz4.block.compress(payload, store_size=False)
    method, body = (_PACKED, packed) if len(packed) < len(payload) else (_RAW, payload)
    check = xxhash.xxh32_intdigest(payload, _SEED) & _MASK
    head = _LZ4_HEAD.pack(b"LZ4Block", method, len(body), len(payload), check)
    return head + body


def _of_lz4(content: bytes) -> Iterator[bytes]:
    at = 0
    while True:
        magic, method, stored, size, check = _LZ4_HEAD.unpack_from(content, at)
        if magic != b"LZ4Block":
            raise ValueError("no block")
        if not size:
            return
        at += _LZ4_HEAD.size
        body = content[at : at + stored]
        raw = method & 0xF0 == _RAW & 0xF0
        payload: bytes = body if raw else lz4.block.decompress(body, uncompressed_size=size)
        if xxhash.xxh32_intdigest(payload, _SEED) & _MASK != check:
            raise ValueError("checksum")
        yield payload
        at += stored


def _to_zstd(payload: bytes) -> bytes:
    return bytes(zstd.compress(payload, 1))


def _of_zstd(content: bytes) -> Iterator[bytes]:
    yield bytes(zstd.decompress(content))


def _to_snappy(payload: bytes) -> bytes:
    pieces = (payload[at : at + _LZ4_BLOCK] for at in range(0, len(payload), _LZ4_BLOCK))
    blocks = [bytes(cramjam.snappy.compress_raw(one)) for one in pieces]
    return _SNAPPY_HEAD + b"".join(struct.pack(">i", len(one)) + one for one in blocks)


def _of_snappy(content: bytes) -> Iterator[bytes]:
    if content[:8] != _SNAPPY_HEAD[:8]:
        raise ValueError("no stream of snappy")
    at = len(_SNAPPY_HEAD)
    while at < len(content):
        (size,) = struct.unpack_from(">i", content, at)
        yield bytes(cramjam.snappy.decompress_raw(content[at + 4 : at + 4 + size]))
        at += 4 + size


def _to_lzf(payload: bytes) -> bytes:
    pieces = (payload[at : at + _LZF_CHUNK] for at in range(0, len(payload), _LZF_CHUNK))
    return b"".join(b"ZV\0" + struct.pack(">H", len(one)) + one for one in pieces)


def _of_lzf(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        magic, packed, stored = struct.unpack_from(">2sBH", content, at)
        if magic != b"ZV" or packed > 1:
            raise ValueError("no chunk")
        at += 5 + 2 * packed
        body = content[at : at + stored]
        yield _unpacked(body) if packed else body
        at += stored


def _unpacked(body: bytes) -> bytes:
    """Literal runs below 32; else three bits of length and thirteen of distance."""
    out, at = bytearray(), 0
    while at < len(body):
        control = body[at]
        at += 1
        if control < 32:
            out += body[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += body[at]
            at += 1
        begin = len(out) - ((control & 31) << 8) - body[at] - 1
        at += 1
        for place in range(begin, begin + length + 2):
            out.append(out[place])
    return bytes(out)


_TO: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {"lz4": _to_lz4, "zstd": _to_zstd, "snappy": _to_snappy, "lzf": _to_lzf}
)
_OF: Mapping[str, Callable[[bytes], Iterator[bytes]]] = MappingProxyType(
    {"lz4": _of_lz4, "zstd": _of_zstd, "snappy": _of_snappy, "lzf": _of_lzf}
)
CODECS = tuple(_TO)


def pack(payload: bytes, codec: str) -> bytes:
    return _TO[codec](payload)


def unpack(content: bytes, codec: str) -> bytes:
    """Returns what is in a file; raises one of `BROKEN` where it is cut or garbled."""
    return b"".join(_OF[codec](content))
