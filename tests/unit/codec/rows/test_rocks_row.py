"""Keys of RocksDB stores: what is encoded is what the reader of states finds, and decodes again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rows.rocks_row import key_codec, rows_in, value_of
from statemaint.codec.rows.state_row import (
    Bare,
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    RowLayout,
    TimestampFirst,
    TimestampLast,
    Wrapping,
    key_reader,
)
from statemaint.codec.rows.types import AtomicType, Field, StructType, parse_struct
from statemaint.codec.rows.unsafe_write import RowWriter
from statemaint.errors import CodecError, UnsupportedError

KEY = parse_struct(
    {
        "type": "struct",
        "fields": [
            {"name": "name", "type": "string", "nullable": True, "metadata": {}},
            {"name": "at", "type": "long", "nullable": False, "metadata": {}},
        ],
    }
)
TIMED = (TimestampFirst(), TimestampLast())
ENCODERS = (NoPrefix(), PrefixScan(1), RangeScan((1,)), *TIMED)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
NUMBERS: dict[str, st.SearchStrategy[float]] = {
    "byte": st.integers(-128, 127),
    "short": st.integers(-(1 << 15), (1 << 15) - 1),
    "integer": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": LONGS,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
}


@pytest.mark.parametrize("encoder", ENCODERS)
@given(name=st.none() | st.text(max_size=20), at=LONGS)
def test_an_encoded_key_is_read_and_decoded(encoder: KeyEncoder, name: str | None, at: int) -> None:
    row, codec = RowWriter(KEY).write((name, at)), key_codec(KEY, encoder)
    key = codec.encode(row)
    assert key_reader(RowLayout(KEY, StructType(()), encoder), Wrapping())(key) == (name, at)
    assert codec.decode(key) == row


@given(st.lists(LONGS, min_size=2, max_size=6, unique=True))
def test_keys_with_their_time_in_front_sort_by_it(times: list[int]) -> None:
    codec, writer = key_codec(KEY, TimestampFirst()), RowWriter(KEY)
    keys = {codec.encode(writer.write(("k", at))): at for at in times}
    assert [keys[key] for key in sorted(keys)] == sorted(times)


@pytest.mark.parametrize("name", NUMBERS)
@given(data=st.data())
def test_keys_in_ranges_sort_by_their_number_and_nulls_are_last(
    name: str, data: st.DataObject
) -> None:
    kind = StructType((Field("at", AtomicType(name)),))
    codec, writer = key_codec(kind, RangeScan((0,))), RowWriter(kind)
    numbers = sorted(data.draw(st.lists(NUMBERS[name], min_size=2, max_size=6, unique=True)))
    rows = [writer.write((number,)) for number in (*numbers, None)]
    keys = [codec.encode(row) for row in rows]
    assert keys == sorted(keys)
    assert [codec.decode(key) for key in keys] == rows
    assert codec.prefix
    assert [codec.prefix(row) for row in rows] == keys


def test_only_keys_in_ranges_are_ranged() -> None:
    ranged = [encoder for encoder in ENCODERS if key_codec(KEY, encoder).ranged]
    assert ranged == [RangeScan((1,))]


@pytest.mark.parametrize("encoder", TIMED)
def test_a_key_of_64_columns_has_its_time_in_the_last(encoder: KeyEncoder) -> None:
    kind = StructType(tuple(Field(f"c{at}", AtomicType("long")) for at in range(64)))
    row, codec = RowWriter(kind).write(range(64)), key_codec(kind, encoder)
    assert codec.decode(codec.encode(row)) == row


@pytest.mark.parametrize(
    ("encoder", "size"), [*((encoder, 8) for encoder in TIMED), (PrefixScan(1), 3)]
)
def test_a_key_without_room_for_its_time_or_prefix_is_an_error(
    encoder: KeyEncoder, size: int
) -> None:
    with pytest.raises(CodecError, match=f"{size} bytes are too few for a key") as caught:
        key_codec(KEY, encoder).decode(bytes(size))
    assert caught.value.offset == 0


@pytest.mark.parametrize("encoder", [PrefixScan(1), RangeScan((1,))])
def test_a_key_that_is_cut_short_is_an_error(encoder: KeyEncoder) -> None:
    codec = key_codec(KEY, encoder)
    key = codec.encode(RowWriter(KEY).write(("8 bytes.", 1)))
    for end in range(len(key)):
        with pytest.raises(CodecError):
            codec.decode(key[:end])


def test_a_value_is_its_row_if_the_checksum_matches() -> None:
    value = value_of(b"key", [b"row"], Wrapping(checksums=True), many=False)
    assert rows_in(b"key", value, Wrapping(checksums=True), many=False) == [b"row"]
    with pytest.raises(CodecError, match="row checksum") as caught:
        rows_in(b"another", value, Wrapping(checksums=True), many=False)
    assert caught.value.offset == 0


def test_an_ordered_number_of_another_size_is_an_error() -> None:
    key = key_codec(KEY, RangeScan((1,))).encode(RowWriter(KEY).write(("k", 1)))
    short = StructType((KEY.fields[0], Field("at", AtomicType("short"))))
    with pytest.raises(CodecError, match="010000000000000001 is not an ordered short") as caught:
        key_codec(short, RangeScan((1,))).decode(key)
    assert caught.value.offset == 0


def test_keys_of_the_hdfs_backed_provider_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="keys in Bare"):
        key_codec(KEY, Bare())
