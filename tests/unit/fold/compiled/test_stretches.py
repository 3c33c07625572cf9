"""LZ4 in stretches: what the compiled loops take, leave to the clear reader, and write."""

import io
import struct

import lz4.block
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.lz4 import HEADER_SIZE, Lz4Block
from statemaint.codec.compression.snappy import Snappy
from statemaint.fold.compiled.kernels.lz4 import MOST, xxh32
from statemaint.fold.compiled.output import compressor_for
from statemaint.fold.compiled.window import SLACK
from tests.fuzz.stretches import clear, fed, guarded, packed

SEED = 0x9747B28C
HEADER = struct.Struct("<8sBiii")
PIECES = st.binary(max_size=40) | st.sampled_from([b"key-", bytes(64), b"ab" * 30])
PAYLOADS = st.lists(PIECES, max_size=60).map(b"".join)


def block(body: bytes, payload: bytes, *, token: int = 0x25) -> bytes:
    checksum = xxhash.xxh32_intdigest(payload, SEED) & 0x0FFFFFFF
    return HEADER.pack(b"LZ4Block", token, len(body), len(payload), checksum) + body


@pytest.mark.parametrize("size", [*range(70), 32 * 1024])
def test_the_checksum_is_xxhash32(size: int) -> None:
    content = np.frombuffer(np.random.default_rng(size).bytes(size + SLACK), np.uint8)
    expected = xxhash.xxh32_intdigest(content[3:size].tobytes(), SEED)
    assert xxh32(content, 3, max(0, size - 3)) == expected


@given(payload=PAYLOADS)
def test_reads_what_the_library_writes(payload: bytes) -> None:
    stored = b"".join(encode(Lz4Block(1024), [payload]))
    found = clear(stored)
    assert found is not None
    assert b"".join(part for part, _ in found) == payload
    assert fed(stored, 1) == fed(stored, 10_000) == guarded(stored) == found


@given(payload=PAYLOADS, size=st.sampled_from([1024, 32 * 1024, MOST]))
def test_the_library_reads_what_it_writes(payload: bytes, size: int) -> None:
    stored = packed(payload, size)
    found = clear(stored)
    assert found is not None
    lengths = [len(part) for part, _ in found]
    assert lengths[:-1] == [size] * (len(payload) // size - (len(payload) % size == 0))
    for part, whole in found:
        _, token, length, original, _ = HEADER.unpack_from(whole)
        body = whole[HEADER_SIZE:]
        assert token in (0x15, 0x25)
        assert length <= original == len(part)
        plain = lz4.block.decompress(body, uncompressed_size=original) if token == 0x25 else body
        assert plain == part


def test_compresses_as_well_as_the_library() -> None:
    random = np.random.default_rng(1)
    rows = b"".join(
        struct.pack(">i16sIi8x24s", 28, b"%016d" % number, int(random.integers(99)), 24, bytes(24))
        for number in range(4000)
    )
    expected = len(b"".join(encode(Lz4Block(), [rows])))
    assert len(rows) / 10 < len(packed(rows, 32 * 1024)) < 1.05 * expected


def test_what_does_not_shrink_is_stored_raw() -> None:
    noise = np.random.default_rng(2).bytes(MOST + 7)
    stored = packed(noise, MOST)
    assert len(stored) == len(noise) + 2 * HEADER_SIZE
    assert clear(stored) == fed(stored, MOST) == guarded(stored)


@pytest.mark.parametrize("size", [1 << 10, 1 << 20, 1 << 25])
def test_blocks_of_any_size_across_the_parts_that_a_file_is_read_in(size: int) -> None:
    noise = np.random.default_rng(3).bytes(1_500_000)
    stored = b"".join(encode(Lz4Block(size), [noise, bytes(1_000_000), noise]))
    assert fed(stored, 500_000) == clear(stored)


PAYLOAD = b"0123456789" * 5
FORGED = {
    "a match before the block's first byte": block(b"\x1fa\x02\x00" + bytes(40), PAYLOAD),
    "a match beyond the end": block(b"\x1fa\x01\x00\xff\xff" + bytes(40), PAYLOAD),
    "a match into the last five bytes": block(b"\x1ea\x01\x00" + b"\x1dbcd" + bytes(9), bytes(32)),
    "literals beyond the end": block(b"\xf0\xff\xff" + PAYLOAD, PAYLOAD),
    "literals that go on for ever": block(b"\xf0" + b"\xff" * 60, PAYLOAD),
    "a match that goes on for ever": block(b"\x1fa\x01\x00" + b"\xff" * 60, PAYLOAD),
    "too little": block(b"\x50abcde", PAYLOAD),
    "nothing but a token": block(b"\x00", b"a"),
    "nothing at all": block(b"", PAYLOAD),
    "another checksum": block(PAYLOAD, PAYLOAD[::-1], token=0x15),
    "an unknown method": block(PAYLOAD, PAYLOAD, token=0x35),
    "a block above its level": block(bytes(3000), bytes(3000), token=0x10),
    "raw bytes of two lengths": block(PAYLOAD[1:], PAYLOAD, token=0x15),
    "an end with a checksum": HEADER.pack(b"LZ4Block", 0x15, 0, 0, 1),
    "other magic bytes": b"lz4Block" + block(PAYLOAD, PAYLOAD, token=0x15)[8:],
    "a negative length": HEADER.pack(b"LZ4Block", 0x25, -5, 50, 0) + PAYLOAD,
    "a negative size": HEADER.pack(b"LZ4Block", 0x25, 5, -50, 0) + PAYLOAD,
    "more than so few bytes can hold": HEADER.pack(b"LZ4Block", 0x25, 1, 256, 0) + b"a",
}


@pytest.mark.parametrize("kind", FORGED)
def test_is_unsure_of_a_forged_block(kind: str) -> None:
    healthy = block(PAYLOAD, PAYLOAD, token=0x15)
    for stored in (FORGED[kind], healthy + FORGED[kind], FORGED[kind] + healthy):
        assert clear(stored) is None
        assert fed(stored, 10_000) is None
        assert guarded(stored) is None


# Blocks that would be right, checksum and all, were it not for one rule.
RULES = {
    "a match into the block before": block(
        b"\x1fa\x32\x00\x00\x50" + PAYLOAD[:5], b"a" + (PAYLOAD + b"a")[1:20] + PAYLOAD[:5]
    ),
    "a match in the last twelve bytes": block(
        b"\xa0" + PAYLOAD[:10] + b"\x0a\x00\x60" + PAYLOAD[4:10], PAYLOAD[:14] + PAYLOAD[4:10]
    ),
    "more literals than there are to be": block(b"\xf0\xb9" + bytes(200), bytes(20)),
}


@pytest.mark.parametrize("kind", RULES)
def test_keeps_to_the_rules_where_the_checksum_fits(kind: str) -> None:
    stored = block(PAYLOAD, PAYLOAD, token=0x15) + RULES[kind]
    assert clear(stored) is fed(stored, 10_000) is guarded(stored) is None


@pytest.mark.parametrize("behind", [b"L", b"LZ4Block", HEADER.pack(b"LZ4Block", 0x15, 9, 9, 0)])
def test_is_unsure_of_a_file_that_ends_within_a_block(behind: bytes) -> None:
    stored = block(PAYLOAD, PAYLOAD, token=0x15) + behind
    assert clear(stored) is fed(stored, 10_000) is guarded(stored) is None


def test_what_only_the_library_accepts_is_left_to_it() -> None:
    body, healthy = b"\x1fa\x00\x00\xff\xff\xff\xea\x50aaaaa", block(PAYLOAD, PAYLOAD, token=0x15)
    payload = lz4.block.decompress(body, uncompressed_size=1024)
    odd = block(body, payload)
    for stored in (odd, healthy + odd + healthy, odd + odd):
        assert guarded(stored) is None
        assert fed(stored, 10_000) == clear(stored) is not None


def test_any_other_compression_is_written_block_by_block() -> None:
    codec, payload = Snappy(block_size=100), np.arange(250, dtype=np.uint8)
    encoder = codec.encoder()
    stored = encoder.begin() + bytes(compressor_for(codec, encoder)(payload, 250)) + encoder.end()
    parts = [bytes(one.payload) for one in codec.blocks(io.BytesIO(stored))]
    assert [len(part) for part in parts] == [100, 100, 50]
    assert b"".join(parts) == payload.tobytes()


def test_blocks_too_large_for_the_table_are_left_to_the_library() -> None:
    codec, payload = Lz4Block(2 * MOST), np.zeros(3 * MOST, np.uint8)
    stored = bytes(compressor_for(codec, codec.encoder())(payload, 3 * MOST))
    assert [len(part) for part, _ in clear(stored) or ()] == [2 * MOST, MOST]
