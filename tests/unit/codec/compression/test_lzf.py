"""LZF chunks: the bytes, damage with its place, and two engines that must agree."""

import hashlib
import io
import struct
from array import array
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.compression import base as compression
from statemaint.codec.compression import lzf
from statemaint.codec.compression.lzf import Lzf
from statemaint.errors import CodecError

TEXTS = st.one_of(
    st.binary(max_size=400),
    st.lists(st.sampled_from([b"abc", b"key-1", bytes(300), b"\x01"]), max_size=60).map(b"".join),
)


@dataclass(frozen=True)
class Compiled:
    """The module's functions as an engine compiles them."""

    expand: lzf.Expand
    pack: lzf.Pack


@pytest.fixture(scope="module", params=["plain", "compiled"])
def codec(request: pytest.FixtureRequest) -> Lzf:
    if request.param == "plain":
        return Lzf()
    numba = pytest.importorskip("numba")
    return Lzf(expand=numba.njit(lzf.expand), pack=numba.njit(lzf.pack))


def decode(codec: Lzf, stored: bytes) -> bytes:
    return b"".join(compression.decode(codec, io.BytesIO(stored)))


def encode(codec: Lzf, *chunks: bytes) -> bytes:
    return b"".join(compression.encode(codec, chunks))


def packed(content: bytes, size: int) -> bytes:
    return b"ZV\x01" + struct.pack(">HH", len(content), size) + content


@given(payload=TEXTS)
def test_both_engines_write_the_same_and_read_it(codec: Lzf, payload: bytes) -> None:
    stored = encode(codec, payload)
    assert stored == encode(Lzf(), payload)
    assert decode(codec, stored) == payload


def test_chunks_are_as_large_as_they_can_be(codec: Lzf) -> None:
    stored = encode(codec, bytes(140_000))
    sizes = [len(block.payload) for block in codec.blocks(io.BytesIO(stored))]
    assert sizes == [65535, 65535, 8930]


def test_what_does_not_shrink_is_stored_as_it_is(codec: Lzf) -> None:
    payload = bytes(range(256))
    assert encode(codec, payload) == b"ZV\x00\x01\x00" + payload


def test_a_chunk_is_packed_only_where_that_is_shorter(codec: Lzf) -> None:
    for size in range(1, 40):
        stored = encode(codec, b"a" * size)
        assert len(stored) <= size + 5
        assert (stored[2] == 1) == (len(stored) < size + 5)


def test_a_chunk_that_packing_shortens_by_a_byte_is_packed(codec: Lzf) -> None:
    assert encode(codec, b"a" * 8) == packed(b"\x00a\xa0\x00", 8)


def test_packed_bytes_may_fill_their_room(codec: Lzf) -> None:
    for room, size in ((5, 5), (4, 0)):
        assert codec.pack(b"a" * 100, bytearray(room), array("i", bytes(4 * 16384))) == size


@pytest.mark.parametrize(
    ("content", "payload"),
    [
        (b"\x02abc", b"abc"),
        (b"\x1f" + bytes(range(32)), bytes(range(32))),
        (b"\x00a\x20\x00", b"aaaa"),
        (b"\x00a\xc0\x00", b"a" * 9),
        (b"\x00a\xe0\x00\x00", b"a" * 10),
        (b"\x00a\xe0\xff\x00", b"a" * 265),
        (b"\x02abc\x60\x02", b"abcabcab"),
        (b"\x02abc\x20\x01\x00x", b"abcbcbx"),
    ],
)
def test_reads_literals_and_copies(codec: Lzf, content: bytes, payload: bytes) -> None:
    assert decode(codec, packed(content, len(payload))) == payload


MARK = hashlib.shake_128(b"mark").digest(24)


@pytest.mark.parametrize("distance", [64, 255, 256, 257, 8191, 8192, 8193])
def test_copies_reach_8_kib_back(codec: Lzf, distance: int) -> None:
    payload = MARK + bytes(distance - len(MARK)) + MARK
    stored = encode(codec, payload)
    assert decode(codec, stored) == payload
    assert (stored.count(MARK[4:20]) == 1) == (distance <= 8192)


def test_the_same_rows_become_the_same_bytes_in_every_release(codec: Lzf) -> None:
    """A snapshot that is written again is the same file, as long as its copies are found alike."""
    rows = b"".join(b"key-%06d %d" % (number, number * number) for number in range(500))
    stored = encode(codec, rows)
    assert (len(rows), len(stored)) == (8037, 4360)
    assert hashlib.sha256(stored).hexdigest()[:16] == "a4ea444287a00415"


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 65, 200])
def test_literals_come_in_runs_of_32_at_most(codec: Lzf, size: int) -> None:
    payload = hashlib.shake_128(b"literals").digest(size) + bytes(1000)
    stored = encode(codec, payload)
    assert stored[2] == 1
    assert decode(codec, stored) == payload


def test_a_copy_from_the_furthest_place_is_read(codec: Lzf) -> None:
    literals = b"".join(b"\x1f" + bytes([number]) * 32 for number in range(256))
    assert decode(codec, packed(literals + b"\x3f\xff", 8195)) == (
        b"".join(bytes([number]) * 32 for number in range(256)) + bytes(3)
    )


def test_what_a_table_holds_from_before_does_no_harm(codec: Lzf) -> None:
    table = array("i", [60_000, -5, 3, 0] * 4096)
    payload, room = b"abcabcabc" * 30, bytearray(400)
    size = codec.pack(payload, room, table)
    assert decode(codec, packed(bytes(room[:size]), len(payload))) == payload


@pytest.mark.parametrize(
    ("stored", "offset", "text"),
    [
        (b"ZV", 0, "header cut short"),
        (b"ZW\x00\x00\x01x", 0, "magic"),
        (b"ZV\x02\x00\x01x", 0, "unknown chunk type 2"),
        (b"ZV\x00\x00\x00", 0, "without payload"),
        (b"ZV\x00\x00\x05abc", 5, "cut short: 3 of 5"),
        (b"ZV\x01\x00\x05\x00", 5, "cut short: 1 of 2"),
        (b"ZV\x01\x00\x05\x00\x09abc", 7, "cut short: 3 of 5"),
        (b"ZV\x00\x00\x01x" + packed(b"\x00a", 2), 13, "chunk holds 1 of 2"),
        (packed(b"\x00a", 0), 7, "does not decompress"),
        (packed(b"\x02ab", 3), 7, "does not decompress"),
        (packed(b"\x02abc", 2), 7, "does not decompress"),
        (packed(b"\x02abc\x20", 6), 7, "does not decompress"),
        (packed(b"\x02abc\xe0", 16), 7, "does not decompress"),
        (packed(b"\x02abc\xe0\x00", 16), 7, "does not decompress"),
        (packed(b"\x02abc\x20\x03", 6), 7, "does not decompress"),
        (packed(b"\x02abc\x20\x00", 5), 7, "does not decompress"),
        (packed(b"\x20\x00", 3), 7, "does not decompress"),
    ],
)
def test_damage_is_named_with_its_place(codec: Lzf, stored: bytes, offset: int, text: str) -> None:
    with pytest.raises(CodecError, match=text) as caught:
        decode(codec, stored)
    assert caught.value.offset == offset


@given(content=st.binary(min_size=1, max_size=200), size=st.integers(0, 600))
def test_garbage_does_the_same_in_both_engines(codec: Lzf, content: bytes, size: int) -> None:
    found, expected = bytearray(size), bytearray(size)
    assert codec.expand(content, found) == lzf.expand(content, expected)
    assert found == expected
