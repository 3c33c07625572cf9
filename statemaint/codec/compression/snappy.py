"""The stream that snappy-java's `SnappyOutputStream` writes.

    stream = header (header | block)*
    header = 0x82 "SNAPPY" 0x00 version(>i) compatible(>i)       both 1
    block  = length(>i) body
    body   = payloadLength(varint) (literal | copy)*              one raw Snappy block

Spark puts 32 KiB of payload in a block (`spark.io.compression.snappy.blockSize`). A header may be
repeated between blocks, where streams were concatenated. There is no checksum: a changed byte may
remain unnoticed here, and in Spark.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import cramjam

from statemaint.codec.compression.base import Block, Buffer, Encoder, ExactStream
from statemaint.errors import CodecError

_HEADER = struct.Struct(">8sii")
_LENGTH = struct.Struct(">i")
_MAGIC = b"\x82SNAPPY\x00"
_VERSION = 1
_MOST_PER_BYTE = 22  # a copy of 64 bytes takes three


@dataclass(frozen=True, slots=True)
class Snappy:
    """Spark's `SnappyCompressionCodec`."""

    name = "snappy"
    block_size: int = 32 * 1024

    def blocks(self, stream: BinaryIO) -> Iterator[Block]:
        """Yields blocks; memory is bounded by one, which expands to at most 22 times its bytes."""
        source = ExactStream(stream)
        _check_header(source.header(_HEADER.size), 0)
        while length := source.header(_LENGTH.size):
            start = source.offset - _LENGTH.size
            if length == _MAGIC[: _LENGTH.size]:
                _check_header(length + source.body(_HEADER.size - _LENGTH.size), start)
                continue
            size: int = _LENGTH.unpack(length)[0]
            if size <= 0:
                raise CodecError(f"impossible block length {size}", offset=start)
            body = source.body(size)
            if payload := _expand(body, start + _LENGTH.size):
                yield Block(payload, length + body)

    def encoder(self) -> Encoder:
        return _Encoder()


@dataclass(frozen=True, slots=True)
class _Encoder(Encoder):
    def begin(self) -> bytes:
        return _HEADER.pack(_MAGIC, _VERSION, _VERSION)

    def block(self, payload: Buffer) -> bytes:
        body = bytes(cramjam.snappy.compress_raw(payload))
        return _LENGTH.pack(len(body)) + body


def _check_header(header: bytes, offset: int) -> None:
    if len(header) != _HEADER.size or header[:8] != _MAGIC:
        raise CodecError("not a Snappy stream: the magic bytes are missing", offset=offset)
    _, version, compatible = _HEADER.unpack(header)
    if not compatible <= _VERSION <= version:
        text = f"Snappy stream of version {version}, which requires {compatible}"
        raise CodecError(text, offset=offset)


def _expand(body: bytes, offset: int) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(body)
        if size > len(body) * _MOST_PER_BYTE:
            raise CodecError(f"block of {len(body)} bytes cannot hold {size}", offset=offset)
        payload = bytearray(size)
        cramjam.snappy.decompress_raw_into(body, payload)
    except cramjam.DecompressionError as error:
        raise CodecError(f"block does not decompress: {error}", offset=offset) from error
    return payload
