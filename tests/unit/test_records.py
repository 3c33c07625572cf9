"""Records: the payload of deltas and snapshots."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec import records
from statemaint.codec.records import Record
from statemaint.errors import CodecError

END = struct.pack(">i", -1)
RECORDS = st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=200)))


def decode(payload: bytes, step: int = 7) -> list[Record]:
    chunks = (payload[at : at + step] for at in range(0, len(payload), step))
    return list(records.decode(chunks))


@given(RECORDS, st.integers(1, 400))
def test_decodes_what_it_encodes_in_chunks_of_any_size(found: list[Record], step: int) -> None:
    assert decode(b"".join(records.encode(found)), step) == found


def test_the_bytes_are_sparks() -> None:
    stored = b"".join(records.encode([(b"k", b"value"), (b"gone", None)]))
    assert stored == b"\0\0\0\1k\0\0\0\5value\0\0\0\4gone\xff\xff\xff\xff" + END


def test_a_long_payload_comes_in_pieces() -> None:
    found: list[Record] = [(bytes([number]), bytes(10_000)) for number in range(20)]
    pieces = list(records.encode(found))
    assert len(pieces) == 3
    assert decode(b"".join(pieces), step=4096) == found


def test_an_empty_batch_is_only_the_end() -> None:
    assert decode(END) == []


def test_any_negative_value_length_removes() -> None:
    assert decode(b"\0\0\0\1k" + struct.pack(">i", -9) + END) == [(b"k", None)]


@pytest.mark.parametrize(
    ("payload", "offset", "text"),
    [
        (b"", 0, "end early"),
        (b"\0\0\0\5ab", 4, "end early: 2 of 5"),
        (b"\0\0\0\1k\0\0\0\2v", 9, "end early: 1 of 2"),
        (b"\0\0\0\1k\0\0\0\1v", 10, "end early: 0 of 4"),
        (struct.pack(">i", -2), 4, "key size cannot be -2"),
        (END + b"x", 4, "bytes follow the end"),
        (b"\x7f\xff\xff\xffk", 4, "end early: 1 of 2147483647"),
    ],
)
def test_damage_is_named_with_its_place(payload: bytes, offset: int, text: str) -> None:
    with pytest.raises(CodecError, match=text) as caught:
        decode(payload)
    assert caught.value.offset == offset


def test_a_snapshot_may_not_remove() -> None:
    with pytest.raises(CodecError, match="record 1 of a snapshot removes"):
        list(records.snapshot_rows([(b"a", b"1"), (b"b", None)]))


def test_the_last_record_of_a_key_counts() -> None:
    state = {b"a": b"1", b"b": b"1"}
    records.apply(state, [(b"a", b"2"), (b"a", b"3"), (b"b", None), (b"c", None)])
    assert state == {b"a": b"3"}
