"""The Zstandard stream: what Spark may have written is read, in bounded pieces."""

import io
import struct
import sys

import pytest

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.zstd import Zstd
from statemaint.errors import CodecError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FRAME = zstd.compress(b"a" * 1000, 1)
PARAMETER = zstd.CompressionParameter
PIECE = 16 * 1024


def decode(stored: bytes) -> bytes:
    return b"".join(compression.decode(Zstd(), io.BytesIO(stored)))


def encode(*chunks: bytes) -> bytes:
    return b"".join(compression.encode(Zstd(), chunks))


def noise(size: int) -> bytes:
    return b"".join(struct.pack("<I", number * 2654435761 % 2**32) for number in range(size // 4))


def test_any_decoder_reads_what_it_writes() -> None:
    payload = noise(300_000)
    assert zstd.decompress(encode(payload)) == payload


def test_writes_one_frame_with_a_checksum() -> None:
    stored = encode(bytes(500_000))
    decoder = zstd.ZstdDecompressor()
    decoder.decompress(stored)
    assert (decoder.eof, decoder.unused_data) == (True, b"")
    assert stored[4] & 0x04  # the descriptor's flag


def test_reads_frames_in_a_row_wherever_they_end() -> None:
    frames = [zstd.compress(noise(size), 1) for size in range(0, 60_000, 4096)]
    assert decode(b"".join(frames)) == b"".join(noise(size) for size in range(0, 60_000, 4096))


def test_many_small_frames_are_read() -> None:
    assert decode(zstd.compress(b"x") * 5000) == b"x" * 5000


def test_a_skippable_frame_is_nothing() -> None:
    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 20_000) + bytes(20_000)
    assert decode(skipped + FRAME + skipped) == b"a" * 1000


def test_what_expands_enormously_comes_in_pieces() -> None:
    stored = zstd.compress(bytes(1 << 26), 1)
    assert len(stored) < PIECE
    sizes = [len(block.payload) for block in Zstd().blocks(io.BytesIO(stored))]
    assert max(sizes) == 128 * 1024
    assert sum(sizes) == 1 << 26


def with_window(log: int) -> bytes:
    options: dict[int, int] = {
        PARAMETER.window_log: log,
        PARAMETER.enable_long_distance_matching: 1,
    }
    compressor = zstd.ZstdCompressor(options=options)
    return compressor.compress(b"a" * 1000) + compressor.flush()


def test_a_window_of_128_mib_is_the_largest() -> None:
    assert decode(with_window(27)) == b"a" * 1000
    with pytest.raises(CodecError, match="too much memory"):
        decode(with_window(28))


@pytest.mark.parametrize("end", range(1, len(FRAME)))
def test_a_frame_cut_anywhere_is_damage(end: int) -> None:
    with pytest.raises(CodecError, match="frame cut short") as caught:
        decode(FRAME[:end])
    assert caught.value.offset == end


@pytest.mark.parametrize("garbage", [b"\0", b"garbage", bytes(100)])
def test_garbage_after_a_frame_is_damage(garbage: bytes) -> None:
    with pytest.raises(CodecError, match="does not decompress") as caught:
        decode(FRAME + garbage)
    assert caught.value.offset == len(FRAME)


def test_damage_is_named_with_the_piece_it_is_in() -> None:
    stored = bytearray(encode(noise(100_000)))
    stored[3 * PIECE + 100] ^= 1
    with pytest.raises(CodecError, match="does not decompress") as caught:
        decode(bytes(stored))
    # Found at the end of a block, or by the checksum at the end of the frame.
    assert caught.value.offset % PIECE == 0
    assert caught.value.offset >= 3 * PIECE
