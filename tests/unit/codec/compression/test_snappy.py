"""The Snappy stream: its bytes, and damage is named with its place."""

import io
import struct

import cramjam
import pytest

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.snappy import Snappy
from statemaint.errors import CodecError

HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
BODY = bytes(cramjam.snappy.compress_raw(b"a" * 1000))


def decode(stored: bytes) -> bytes:
    return b"".join(compression.decode(Snappy(), io.BytesIO(stored)))


def block(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_the_stream_follows_the_grammar_to_the_byte() -> None:
    assert b"".join(compression.encode(Snappy(), [b"a" * 1000])) == HEADER + block(BODY)


def test_blocks_are_32_kib() -> None:
    stored = b"".join(compression.encode(Snappy(), [bytes(100_000)]))
    sizes = [len(one.payload) for one in Snappy().blocks(io.BytesIO(stored))]
    assert sizes == [32768, 32768, 32768, 1696]


def test_reads_larger_blocks() -> None:
    payload = bytes(range(256)) * 8000
    assert decode(HEADER + block(bytes(cramjam.snappy.compress_raw(payload)))) == payload


def test_a_header_may_come_again_between_blocks() -> None:
    assert decode(HEADER + HEADER + block(BODY) + HEADER + block(BODY) + HEADER) == b"a" * 2000


def test_a_later_version_that_we_can_read_is_read() -> None:
    assert decode(HEADER[:8] + struct.pack(">ii", 2, 1) + block(BODY)) == b"a" * 1000


def test_a_block_without_payload_is_nothing() -> None:
    stored = HEADER + block(b"\0") + block(BODY)
    assert len(list(Snappy().blocks(io.BytesIO(stored)))) == 1
    assert decode(stored) == b"a" * 1000


@pytest.mark.parametrize(
    ("stored", "offset", "text"),
    [
        (b"", 0, "magic"),
        (HEADER[:9], 0, "header cut short: 9 bytes"),
        (b"x" * 16, 0, "magic"),
        (HEADER[:8] + struct.pack(">ii", 0, 0), 0, "version 0, which requires 0"),
        (HEADER[:8] + struct.pack(">ii", 2, 2), 0, "version 2, which requires 2"),
        (HEADER + b"\0\0\0", 16, "header cut short: 3 bytes"),
        (HEADER + HEADER[:10], 20, "cut short: 6 of 12"),
        (HEADER + HEADER[:7] + b"x" * 9, 16, "magic"),
        (HEADER + struct.pack(">i", 0), 16, "impossible block length 0"),
        (HEADER + struct.pack(">i", -5), 16, "impossible block length -5"),
        (HEADER + struct.pack(">i", 2**31 - 1) + BODY, 20, "of 2147483647 bytes"),
        (HEADER + block(BODY[:-1]), 20, "does not decompress"),
        (HEADER + block(BODY) + block(b"\x05\x10abcdef"), 24 + len(BODY), "does not decompress"),
        (HEADER + block(b"\xff\xff\xff\xff\x0f"), 20, "5 bytes cannot hold 4294967295"),
        (HEADER + block(b"\x6f\0\0\0\0"), 20, "5 bytes cannot hold 111"),
        (HEADER + block(b"\x6e\0\0\0\0"), 20, "does not decompress"),
        (HEADER + block(b"\xff" * 6), 20, "does not decompress"),
    ],
)
def test_damage_is_named_with_its_place(stored: bytes, offset: int, text: str) -> None:
    with pytest.raises(CodecError, match=text) as caught:
        decode(stored)
    assert caught.value.offset == offset
