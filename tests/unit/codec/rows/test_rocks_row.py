"""Keys of RocksDB stores: what is encoded is what the reader of states finds, and decodes again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rows.rocks_row import key_codec
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


@pytest.mark.parametrize("encoder", TIMED)
def test_a_key_without_room_for_its_time_is_an_error(encoder: KeyEncoder) -> None:
    with pytest.raises(CodecError, match="8 bytes are too few for a key"):
        key_codec(KEY, encoder).decode(bytes(8))


def test_an_ordered_number_of_another_size_is_an_error() -> None:
    key = key_codec(KEY, RangeScan((1,))).encode(RowWriter(KEY).write(("k", 1)))
    short = StructType((KEY.fields[0], Field("at", AtomicType("short"))))
    with pytest.raises(CodecError, match="010000000000000001 is not an ordered short"):
        key_codec(short, RangeScan((1,))).decode(key)


def test_keys_of_the_hdfs_backed_provider_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="keys in Bare"):
        key_codec(KEY, Bare())
