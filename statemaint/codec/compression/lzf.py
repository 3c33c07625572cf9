"""The chunks that ning's `LZFOutputStream` writes.

    stream  = chunk*
    chunk   = "ZV" 0x00 length(>H) payload                          as it is
            | "ZV" 0x01 length(>H) payloadLength(>H) packed         length counts `packed`
    packed  = (literal | copy)*
    literal = 000nnnnn  bytes                     n + 1 bytes
    copy    = nnnddddd dddddddd, n from 1 to 6   n + 2 bytes from d + 1 bytes back
            | 111ddddd  n  dddddddd               n + 9 bytes from d + 1 bytes back

where d has 13 bits, the high ones first. A chunk holds at most 65535 bytes, and Spark fills it up.
Spark silently stops at a chunk without payload; no writer produces one, so here it is damage. There
is no checksum: a changed byte may remain unnoticed here, and in Spark.
"""

import struct
from array import array
from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass, field
from typing import BinaryIO

from statemaint.codec.compression.base import Block, Buffer, Encoder, ExactStream
from statemaint.errors import CodecError

_HEADER = struct.Struct(">2sBH")
_LENGTH = struct.Struct(">H")
_MAGIC = b"ZV"
_RAW, _PACKED = 0, 1
_LARGEST = 0xFFFF
_LITERALS = 32
_FURTHEST = 1 << 13
_SHORTEST, _LONGEST = 3, 264
_LONG = 7
_SLOTS = 1 << 14
_SPREAD = 0x9E3779B1  # an odd number without pattern: the golden ratio's

Table = MutableSequence[int]
Expand = Callable[[Buffer, bytearray], int]
Pack = Callable[[Buffer, bytearray, Table], int]

# The next two functions are plain arithmetic, so that they can be compiled as they are.


def expand(source: Buffer, destination: bytearray) -> int:  # noqa: C901
    """Writes the expanded bytes of a chunk; returns their number, negative for damage."""
    read = written = 0
    while read < len(source):
        control = int(source[read])
        read += 1
        if control < _LITERALS:
            size, start = control + 1, read
            read += size
            if read > len(source) or written + size > len(destination):
                return -1
            for step in range(size):
                destination[written + step] = source[start + step]
        else:
            size, is_long = 2 + (control >> 5), control >> 5 == _LONG
            if read + int(is_long) >= len(source):
                return -1
            if is_long:
                size += int(source[read])
                read += 1
            start = written - 1 - ((control & 31) << 8) - int(source[read])
            read += 1
            if start < 0 or written + size > len(destination):
                return -1
            for step in range(size):  # one by one: a copy may overlap the bytes just written
                destination[written + step] = destination[start + step]
        written += size
    return written


def pack(source: Buffer, destination: bytearray, table: Table) -> int:
    """Writes a chunk's packed bytes; returns their number, 0 when they may not fit."""
    # `table` records where three bytes were last seen. Its initial content affects only the choice
    # of copies, so one table can serve many chunks.
    read = written = control = literals = 0
    while read < len(source):
        near, size = 0, 0
        if read + _SHORTEST <= len(source):
            three = int(source[read]) << 16 | int(source[read + 1]) << 8 | int(source[read + 2])
            slot = (three * _SPREAD >> 16) & (len(table) - 1)
            near = int(table[slot])
            table[slot] = read
            most = min(_LONGEST, len(source) - read) if 0 < read - near <= _FURTHEST else 0
            while size < most and source[near + size] == source[read + size]:
                size += 1
        if written + _SHORTEST > len(destination):
            return 0
        if size < _SHORTEST:
            if literals % _LITERALS == 0:
                control, written = written, written + 1
            destination[control] = literals % _LITERALS
            destination[written] = source[read]
            literals, size = literals + 1, 1
        else:
            back, literals = read - near - 1, 0
            short = min(size - 2, _LONG)
            destination[written] = short << 5 | back >> 8
            if short == _LONG:
                written += 1
                destination[written] = size - 2 - _LONG
            written += 1
            destination[written] = back & 0xFF
        written += 1
        read += size
    return written


@dataclass(frozen=True, slots=True)
class Lzf:
    """Spark's `LZFCompressionCodec`; faster equivalents may replace this module's functions."""

    name = "lzf"
    block_size: int = _LARGEST
    expand: Expand = expand
    pack: Pack = pack

    def blocks(self, stream: BinaryIO) -> Iterator[Block]:
        source = ExactStream(stream)
        while header := source.header(_HEADER.size):
            kind, size = _parse(header, source.offset - _HEADER.size)
            length = source.body(_LENGTH.size) if kind == _PACKED else b""
            start = source.offset
            body = source.body(size)
            payload = self._expanded(body, _LENGTH.unpack(length)[0], start) if length else body
            yield Block(payload, header + length + body)

    def encoder(self) -> Encoder:
        return _Encoder(self.pack)

    def _expanded(self, body: bytes, size: int, offset: int) -> Buffer:
        payload = bytearray(size)
        expanded = self.expand(body, payload)
        if expanded < 0:
            raise CodecError("chunk does not decompress", offset=offset)
        if expanded != size:
            raise CodecError(f"chunk holds {expanded} of {size} bytes", offset=offset)
        return payload


@dataclass(frozen=True, slots=True)
class _Encoder(Encoder):
    pack: Pack
    table: Table = field(default_factory=lambda: array("i", bytes(4 * _SLOTS)))

    def block(self, payload: Buffer) -> bytes:
        # The room is just enough for a chunk that shrinks even with its longer header.
        packed = bytearray(max(0, len(payload) - _LENGTH.size - 1))
        size = self.pack(payload, packed, self.table)
        if not size:
            return _HEADER.pack(_MAGIC, _RAW, len(payload)) + payload
        return _HEADER.pack(_MAGIC, _PACKED, size) + _LENGTH.pack(len(payload)) + packed[:size]


def _parse(header: bytes, offset: int) -> tuple[int, int]:
    magic, kind, size = _HEADER.unpack(header)
    if magic != _MAGIC:
        raise CodecError("not an LZF chunk: the magic bytes are missing", offset=offset)
    if kind not in (_RAW, _PACKED):
        raise CodecError(f"unknown chunk type {kind}", offset=offset)
    if not size:
        raise CodecError("chunk without payload", offset=offset)
    return kind, size
