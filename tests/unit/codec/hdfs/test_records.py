"""Records: the payload of deltas and snapshots."""

import struct
from collections.abc import Iterator

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity import row_checksum
from statemaint.errors import CodecError

END = struct.pack(">i", -1)
RECORDS = st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=200)))


def decode(payload: bytes, step: int = 7, *, row_checksums: bool = False) -> list[Record]:
    chunks = (payload[at : at + step] for at in range(0, len(payload), step))
    return list(records.decode(chunks, row_checksums=row_checksums))


def encode(*found: Record, row_checksums: bool = False) -> bytes:
    return b"".join(records.encode(found, row_checksums=row_checksums))


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
    with pytest.raises(CodecError, match="record 1 of a snapshot removes") as caught:
        list(records.snapshot_rows([(b"a", b"1"), (b"b", None)]))
    assert caught.value.offset == 0


def test_empty_keys_and_values_are_no_removals() -> None:
    found: list[Record] = [(b"", b""), (b"k", b"")]
    payload = encode(*found)
    assert list(records.decode([payload], removals=False)) == found
    with pytest.raises(CodecError, match="value size cannot be -1") as caught:
        list(records.decode([encode((b"k", None))], removals=False))
    assert caught.value.offset == 9


def test_a_piece_is_full_at_64_kib() -> None:
    found: list[Record] = [(b"", bytes(65_536 - 8)), (b"k", b"")]
    assert [len(piece) for piece in records.encode(found)] == [65_536, 13]


def test_a_record_that_ends_with_its_chunk_needs_no_other() -> None:
    payload = encode((b"k", b"v"))
    chunks = iter([payload[:10], b"?"])
    assert next(records.decode(chunks)) == (b"k", b"v")
    assert next(chunks) == b"?"


def test_the_last_record_of_a_key_counts() -> None:
    state = {b"a": b"1", b"b": b"1"}
    records.apply(state, [(b"a", b"2"), (b"a", b"3"), (b"b", None), (b"c", None)])
    assert state == {b"a": b"3"}


def test_a_snapshot_that_only_puts_is_read_whole() -> None:
    assert list(records.snapshot_rows([(b"a", b"1"), (b"b", b"2")])) == [(b"a", b"1"), (b"b", b"2")]


# -- row checksums


def crc(content: bytes) -> bytes:
    return struct.pack("<I", google_crc32c.value(content))


@given(RECORDS, st.integers(1, 400))
def test_row_checksums_stay_in_values_and_leave_keys(found: list[Record], step: int) -> None:
    payload = encode(*found, row_checksums=True)
    assert decode(payload, step, row_checksums=True) == [
        (key, value if value is None else crc(key + value) + value) for key, value in found
    ]


def test_the_bytes_with_row_checksums_are_sparks() -> None:
    stored = encode((b"k", b"value"), (b"gone", None), row_checksums=True)
    assert crc(b"123456789") == b"\x83\x92\x06\xe3"
    assert stored == (
        b"\0\0\0\1k\0\0\0\x09" + crc(b"kvalue") + b"value"
        b"\0\0\0\x08" + crc(b"gone") + b"gone\xff\xff\xff\xff" + END
    )


def test_a_value_that_was_read_can_be_written_as_it_is() -> None:
    payload = encode((b"k", b"value"), (b"l", b""), row_checksums=True)
    assert encode(*decode(payload, row_checksums=True)) == payload


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize(
    "record",
    [
        (b"first", crc(b"first1") + b"1"),
        (b"key", crc(b"keyvalue") + b"value"),
        (b"", crc(b"")),
        (crc(b"key") + b"key", None),
    ],
)
def test_a_changed_bit_does_not_match(record: Record, bit: int) -> None:
    first = row_checksum.seal((b"first", b"1"))
    for changed in flipped(record, bit):
        with pytest.raises(CodecError, match="row checksum is") as caught:
            decode(encode(first, changed), row_checksums=True)
        assert caught.value.offset == 18


def flipped(record: Record, bit: int) -> Iterator[Record]:
    """Yields the record with a bit changed in each byte of its key, and of its value."""
    key, value = record
    yield from ((changed, value) for changed in flips(key, bit))
    yield from ((key, changed) for changed in flips(value or b"", bit))


def flips(content: bytes, bit: int) -> Iterator[bytes]:
    for at, byte in enumerate(content):
        yield content[:at] + bytes([byte ^ 1 << bit]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ((b"k", b"abc"), "value of 3 bytes is too short"),
        ((b"k", b""), "value of 0 bytes is too short"),
        ((b"key", None), "key of a removal of 3 bytes is too short"),
    ],
)
def test_what_is_too_short_for_a_row_checksum_is_damage(record: Record, text: str) -> None:
    with pytest.raises(CodecError, match=text) as caught:
        decode(encode((b"", crc(b"")), record), row_checksums=True)
    assert caught.value.offset == 12


def test_the_last_record_counts_with_row_checksums_too() -> None:
    payload = encode((b"a", b"1"), (b"b", b"1"), (b"a", None), (b"b", b"2"), row_checksums=True)
    state: dict[bytes, bytes] = {}
    records.apply(state, records.decode([payload], row_checksums=True))
    assert state == {b"b": crc(b"b2") + b"2"}
