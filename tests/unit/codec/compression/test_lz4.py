"""The LZ4 block stream: what goes in comes out, and damage is named, never believed."""

import io
import struct
from contextlib import suppress

import lz4.block
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.compression import base as compression
from statemaint.codec.compression import lz4 as lz4_codec
from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.errors import CodecError

END = b"LZ4Block\x15" + bytes(12)


def decode(stored: bytes) -> bytes:
    return b"".join(compression.decode(Lz4Block(), io.BytesIO(stored)))


def encode(*chunks: bytes) -> bytes:
    return b"".join(compression.encode(Lz4Block(), chunks))


def test_an_empty_payload_is_an_end_mark() -> None:
    assert encode() == END


def test_a_block_follows_the_grammar_to_the_byte() -> None:
    payload = b"a" * 1000
    packed = lz4.block.compress(payload, store_size=False)
    checksum = xxhash.xxh32_intdigest(payload, 0x9747B28C) & 0x0FFFFFFF
    header = b"LZ4Block\x25" + struct.pack("<iii", len(packed), 1000, checksum)
    assert encode(payload) == header + packed + END


def test_what_does_not_shrink_is_stored_raw() -> None:
    payload = bytes(range(256))
    assert encode(payload)[8] == 0x15
    assert encode(payload)[21 : 21 + 256] == payload


def test_what_would_be_as_long_packed_is_stored_raw() -> None:
    """Java's writer packs a block only where that is shorter."""
    payload = bytes(range(14)) + b"\7" * 6 + bytes(range(200, 212))
    assert len(lz4.block.compress(payload, store_size=False)) == len(payload)
    assert encode(payload)[8] == 0x15


def test_blocks_are_32_kib_however_the_payload_arrives() -> None:
    whole = encode(bytes(100_000))
    assert whole == encode(*[bytes(1000)] * 100)
    assert whole.count(b"LZ4Block") == 5


def test_reads_larger_blocks_and_streams_in_a_row() -> None:
    payload = bytes(range(256)) * 8000
    stored = b"".join(compression.encode(Lz4Block(block_size=1 << 20), [payload]))
    assert stored[8] & 0x0F == 10
    assert decode(stored + encode(b"more")) == payload + b"more"


def test_reads_a_stream_without_its_end_as_spark_does() -> None:
    assert decode(encode(b"x" * 100).removesuffix(END)) == b"x" * 100


@pytest.mark.parametrize(
    ("stored", "offset", "text"),
    [
        (b"LZ4Blo", 0, "header cut short"),
        (b"LZ5Block\x15" + bytes(12), 0, "magic"),
        (b"LZ4Block\x35" + bytes(12), 0, "unknown block method 0x30"),
        (b"LZ4Block\x15" + struct.pack("<iii", 5, 6, 0), 0, "disagree"),
        (b"LZ4Block\x15" + struct.pack("<iii", 0, 0, 9), 0, "end mark with a checksum"),
        (b"LZ4Block\x25" + struct.pack("<iii", -1, 5, 0), 0, "impossible"),
        (b"LZ4Block\x25" + struct.pack("<iii", 5, 1 << 30, 0), 0, "impossible"),
        (b"LZ4Block\x25" + struct.pack("<iii", 1 << 30, 5, 0), 0, "impossible"),
        (b"LZ4Block\x2f" + struct.pack("<iii", 5, 5 * 255 + 1, 0) + b"xxxxx", 0, "impossible"),
        (b"LZ4Block\x25" + struct.pack("<iii", 5, 9, 0) + b"xxxxx", 21, "decompress"),
        (b"LZ4Block\x15" + struct.pack("<iii", 5, 5, 0) + b"xx", 21, "cut short: 2 of 5"),
        (b"LZ4Block\x15" + struct.pack("<iii", 5, 5, 1) + b"xxxxx", 21, "checksum"),
    ],
)
def test_damage_is_named_with_its_place(stored: bytes, offset: int, text: str) -> None:
    with pytest.raises(CodecError, match=text) as caught:
        decode(stored)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("tail", "ends"),
    [(END, True), (END[1:], False), (encode(b"x")[:21], False), (b"LZ4Blocc" + END[8:], False)],
)
def test_a_stream_ends_with_an_end_mark(tail: bytes, *, ends: bool) -> None:
    assert lz4_codec.is_end(tail) == ends


def test_the_end_of_a_stream_has_no_payload_even_where_its_checksum_is_zero() -> None:
    header = b"LZ4Block\x15" + struct.pack("<iii", 5, 5, 0)
    assert not lz4_codec.is_end(header)


def test_a_block_that_holds_less_than_it_says_is_damage() -> None:
    packed = lz4.block.compress(b"a" * 50, store_size=False)
    header = b"LZ4Block\x25" + struct.pack("<iii", len(packed), 60, 0)
    with pytest.raises(CodecError, match="block holds 50 of 60 bytes"):
        decode(header + packed)


def test_damage_in_a_later_block_is_named_at_that_block() -> None:
    first = encode(bytes(40_000)).removesuffix(END)
    second = first.rindex(b"LZ4Block")
    with pytest.raises(CodecError) as caught:
        decode(first[: second + 21] + b"\xff" + first[second + 22 :])
    assert caught.value.offset == second + 21


@given(st.data())
def test_a_flipped_bit_is_an_error_or_changes_nothing(data: st.DataObject) -> None:
    payload = data.draw(st.binary(min_size=1, max_size=3000))
    stored = bytearray(encode(payload))
    bit = data.draw(st.integers(0, len(stored) * 8 - 1))
    stored[bit // 8] ^= 1 << (bit % 8)
    with suppress(CodecError):
        assert decode(bytes(stored)) == payload
