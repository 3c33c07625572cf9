"""What every compression promises, and which one a setting names."""

import hashlib
import io
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.base import Compression
from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.codec.compression.lzf import Lzf
from statemaint.codec.compression.registry import COMPRESSIONS, named
from statemaint.codec.compression.snappy import Snappy
from statemaint.codec.compression.zstd import Zstd
from statemaint.errors import CodecError

ALL = pytest.mark.parametrize("codec", COMPRESSIONS.values(), ids=COMPRESSIONS)
IN_BLOCKS = pytest.mark.parametrize(
    "codec", [Lz4Block(), Lzf(), Snappy()], ids=lambda one: one.name
)
ROWS = b"".join(b"key-%06d %d" % (number, number % 7) for number in range(40_000))
NOISE = hashlib.shake_128(b"noise").digest(len(ROWS))


class Trickle(io.BytesIO):
    """A stream that hands out less than it is asked for, as a network's may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size, 1000) if size and size > 0 else size)


def encode(codec: Compression, *chunks: bytes) -> bytes:
    return b"".join(compression.encode(codec, chunks))


def decode(codec: Compression, stored: bytes) -> bytes:
    return b"".join(compression.decode(codec, io.BytesIO(stored)))


def pieces(payload: bytes, steps: list[int]) -> Iterator[bytes]:
    at = 0
    for step in steps:
        yield payload[at : at + step]
        at += step
    yield payload[at:]


@ALL
@given(
    payload=st.one_of(
        st.binary(max_size=300),
        st.builds(lambda part, times: part * times, st.binary(max_size=40), st.integers(0, 9000)),
    ),
    steps=st.lists(st.integers(0, 70_000), max_size=4),
)
def test_decodes_what_it_encodes_however_the_payload_arrives(
    codec: Compression, payload: bytes, steps: list[int]
) -> None:
    stored = encode(codec, *pieces(payload, steps))
    assert decode(codec, stored) == payload
    assert stored == encode(codec, payload)


@ALL
@settings(max_examples=15)
@given(blocks=st.integers(1, 3), more=st.integers(-2, 2), shrinks=st.booleans())
@example(blocks=1, more=0, shrinks=True)
def test_decodes_what_it_encodes_around_the_bounds_of_blocks(
    codec: Compression, blocks: int, more: int, *, shrinks: bool
) -> None:
    size = codec.block_size * blocks + more
    payload = (ROWS if shrinks else NOISE)[:size]
    assert len(payload) == size
    assert decode(codec, encode(codec, payload)) == payload


@ALL
def test_reads_a_stream_that_hands_out_little(codec: Compression) -> None:
    stored = encode(codec, ROWS)
    assert b"".join(compression.decode(codec, Trickle(stored))) == ROWS


@IN_BLOCKS
def test_damage_has_the_same_place_in_a_stream_that_hands_out_little(codec: Compression) -> None:
    stored = encode(codec, ROWS) + b"no header of a block"
    places = set()
    for stream in (io.BytesIO(stored), Trickle(stored)):
        with pytest.raises(CodecError) as caught:
            list(codec.blocks(stream))
        places.add(caught.value.offset)
    assert len(places) == 1


@ALL
def test_reads_streams_in_a_row(codec: Compression) -> None:
    assert decode(codec, encode(codec, ROWS) + encode(codec, b"more")) == ROWS + b"more"


@ALL
def test_takes_any_buffer(codec: Compression) -> None:
    kinds = (bytes, bytearray, memoryview)
    assert len({encoded_by(codec, kind(ROWS[:1000])) for kind in kinds}) == 1
    assert len({encoded_by(codec, kind(bytes(range(100)))) for kind in kinds}) == 1


def encoded_by(codec: Compression, payload: compression.Buffer) -> bytes:
    encoder = codec.encoder()
    return encoder.begin() + encoder.block(payload) + encoder.end()


@ALL
def test_no_block_is_larger_than_the_codecs(codec: Compression) -> None:
    sizes = [len(block.payload) for block in codec.blocks(io.BytesIO(encode(codec, ROWS)))]
    assert max(sizes) <= codec.block_size
    assert sum(sizes) == len(ROWS)


@IN_BLOCKS
def test_blocks_can_be_copied_to_another_stream_as_they_are(codec: Compression) -> None:
    blocks = list(codec.blocks(io.BytesIO(encode(codec, ROWS))))
    encoder = codec.encoder()
    own = encoder.block(b"own")
    stored = [block.stored or b"" for block in reversed(blocks)]
    expected = b"".join(block.payload for block in reversed(blocks))
    assert decode(codec, encoder.begin() + b"".join([*stored, own]) + encoder.end()) == (
        expected + b"own"
    )


def test_no_piece_of_zstd_can_be_copied() -> None:
    assert {block.stored for block in Zstd().blocks(io.BytesIO(encode(Zstd(), ROWS)))} == {None}


@ALL
@given(garbage=st.binary(min_size=1, max_size=300))
def test_garbage_is_a_codec_error(codec: Compression, garbage: bytes) -> None:
    with pytest.raises(CodecError):
        decode(codec, garbage)


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("lz4", "lz4"),
        ("LZ4", "lz4"),
        ("ZStd", "zstd"),
        ("snappy", "snappy"),
        ("lzf", "lzf"),
        ("org.apache.spark.io.LZ4CompressionCodec", "lz4"),
        ("org.apache.spark.io.LZFCompressionCodec", "lzf"),
        ("org.apache.spark.io.SnappyCompressionCodec", "snappy"),
        ("org.apache.spark.io.ZStdCompressionCodec", "zstd"),
    ],
)
def test_sparks_names_name_a_codec(setting: str, name: str) -> None:
    assert named(setting) is COMPRESSIONS[name]


@pytest.mark.parametrize(
    "setting", ["", "gzip", "org.apache.spark.io.zstdcompressioncodec", "com.example.Codec"]
)
def test_other_names_name_none(setting: str) -> None:
    assert named(setting) is None
