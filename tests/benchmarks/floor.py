"""The least that any maintenance must do: decompress, check, compress; nothing is parsed.

Each library at its fastest: cramjam decompresses into a buffer that stays in the cache, lz4
compresses. What is left of the time is memory and arithmetic, which no other program saves.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import cramjam
import lz4.block
import xxhash

BLOCK = 32 * 1024
_HEADER = struct.Struct("<8sBiii")
_MAGIC = b"LZ4Block"
_RAW, _LZ4, _LEVEL = 0x10, 0x20, 5
_SEED, _MASK = 0x9747B28C, 0x0FFFFFFF

Buffer = bytes | memoryview


def read(paths: Iterable[Path]) -> int:
    """Reads, decompresses and checks whole files; returns the bytes of their payload."""
    return sum(len(block) for path in paths for block in blocks(path.read_bytes()))


def write(payload: Buffer, path: Path) -> None:
    """Writes a payload as a state file; it is not synced, which Spark does not do either."""
    with path.open("wb") as stream:
        stream.writelines(compress([payload]))


def blocks(stored: bytes) -> Iterator[memoryview]:
    """Yields the payload of a file's blocks, each valid until the next is taken."""
    view, buffer, at = memoryview(stored), bytearray(BLOCK), 0
    reused = memoryview(buffer)
    while at < len(view):
        _, token, packed, original, checksum = _HEADER.unpack_from(view, at)
        body = view[at + _HEADER.size : at + _HEADER.size + packed]
        at += _HEADER.size + packed
        if token & 0xF0 == _LZ4:
            cramjam.lz4.decompress_block_into(body, buffer, output_len=original)
            body = reused[:original]
        if original and xxhash.xxh32_intdigest(body, _SEED) & _MASK != checksum:
            raise ValueError(f"a block before byte {at} does not match its checksum")
        yield body


def payload(path: Path) -> bytes:
    """Returns the whole payload of a state file."""
    return b"".join(bytes(block) for block in blocks(path.read_bytes()))


def compress(pieces: Iterable[Buffer]) -> Iterator[bytes]:
    """Yields the state file of a payload that comes in pieces of any size."""
    for block in _cut(pieces):
        packed = lz4.block.compress(block, store_size=False)
        shrinks = len(packed) < len(block)
        body, method = (packed, _LZ4) if shrinks else (bytes(block), _RAW)
        checksum = xxhash.xxh32_intdigest(block, _SEED) & _MASK
        yield _HEADER.pack(_MAGIC, method | _LEVEL, len(body), len(block), checksum)
        yield body
    yield _HEADER.pack(_MAGIC, _RAW | _LEVEL, 0, 0, 0)


def _cut(pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    rest = b""
    for piece in pieces:
        view = memoryview(rest + piece if rest else piece)
        whole = len(view) - len(view) % BLOCK
        for at in range(0, whole, BLOCK):
            yield view[at : at + BLOCK]
        rest = bytes(view[whole:])
    if rest:
        yield rest
