"""The checksums of keys and rows in RocksDB stores."""

import struct
from itertools import count

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.integrity import row_checksum
from statemaint.errors import CodecError

# What Spark 4.3.0 has in its database for the key of a list that was put and merged into, with the
# merge operator of version 1 (a delimiter) and of version 2.
KEY = b"\x02\0\0keyl"
LIST_1 = (
    b"X\x1aO\x02\4\0\0\0\0one,\x12\x1b\x03z\4\0\0\0\0two,\x03\xe4\xf9\x9c\6\0\0\0\0three"
    b",\x0c\x10\xa5\xa8\5\0\0\0\0four,\x06\xedg\x89\5\0\0\0\0five"
)
LIST_2 = (
    b"X\x1aO\x02\4\0\0\0\0one\x12\x1b\x03z\4\0\0\0\0two\x03\xe4\xf9\x9c\6\0\0\0\0three"
    b"\x0c\x10\xa5\xa8\5\0\0\0\0four\x06\xedg\x89\5\0\0\0\0five"
)
LISTS = pytest.mark.parametrize("value", [LIST_1, LIST_2], ids=["delimiter", "none"])


def crc(content: bytes) -> bytes:
    return struct.pack("<I", google_crc32c.value(content))


def test_the_bytes_are_sparks() -> None:
    assert row_checksum.seal_row(KEY, b"\0one") == LIST_1[:12]
    assert row_checksum.seal_key(b"\x02\0\0key1") == b"\x1d\x9a\x04m\x02\0\0key1"
    assert crc(b"123456789") == b"\x83\x92\x06\xe3"


@given(st.binary(), st.binary())
def test_what_was_sealed_comes_back(key: bytes, row: bytes) -> None:
    sealed = row_checksum.seal_row(key, row)
    assert sealed == crc(key + row) + struct.pack("<i", len(row)) + row
    assert row_checksum.bare_row(key, sealed, offset=0) == row
    assert row_checksum.bare_key(row_checksum.seal_key(key), offset=0) == key
    row_checksum.check_rows(key, sealed, offset=0)


@LISTS
def test_every_row_of_a_list_is_checked(value: bytes) -> None:
    row_checksum.check_rows(KEY, value, offset=0)
    for bit in range(len(value) * 8):
        changed = bytearray(value)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CodecError) as caught:
            row_checksum.check_rows(KEY, bytes(changed), offset=7)
        assert caught.value.offset == 7


def test_rows_are_separated_alike() -> None:
    mixed = LIST_1.replace(b"two,", b"two"), LIST_2.replace(b"four", b"four,")
    for value in (*mixed, LIST_1.replace(b"one,", b"one"), LIST_2.replace(b"one", b"one,")):
        with pytest.raises(CodecError):
            row_checksum.check_rows(KEY, value, offset=0)


@LISTS
def test_a_list_cut_within_a_row_is_damage(value: bytes) -> None:
    whole = {end for end in range(len(value) + 1) if value[:end].endswith((b"one", b"two"))}
    whole |= {end for end in range(len(value) + 1) if value[:end].endswith((b"three", b"four"))}
    for end in set(range(len(value))) - whole:
        with pytest.raises(CodecError):
            row_checksum.check_rows(KEY, value[:end], offset=0)


@pytest.mark.parametrize("delimiter", [b"", b","])
def test_a_checksum_that_begins_with_the_delimiters_byte_is_no_delimiter(delimiter: bytes) -> None:
    row = next(row for row in map(str.encode, map(str, count())) if crc(KEY + row)[:1] == b",")
    sealed = row_checksum.seal_row(KEY, row)
    row_checksum.check_rows(KEY, delimiter.join([sealed] * 3), offset=0)


@pytest.mark.parametrize("value", [b"", b"1234567", LIST_1[:8], LIST_1[:11]])
def test_a_value_without_a_whole_row_is_damage(value: bytes) -> None:
    for check in (row_checksum.check_rows, row_checksum.bare_row):
        with pytest.raises(CodecError):
            check(KEY, value, offset=0)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_an_extreme_length_of_a_row_is_damage(size: int) -> None:
    value = crc(KEY) + struct.pack("<i", size)
    with pytest.raises(CodecError, match=f"row of {size} bytes"):
        row_checksum.check_rows(KEY, value, offset=0)


def test_more_than_one_row_is_no_end_of_a_range() -> None:
    with pytest.raises(CodecError, match="bytes follow a row"):
        row_checksum.bare_row(KEY, LIST_2, offset=0)
    with pytest.raises(CodecError, match=r"^3 bytes follow a row"):
        row_checksum.bare_row(KEY, row_checksum.seal_row(KEY, b"end") + b"xyz", offset=0)


def test_a_row_of_a_list_may_be_empty() -> None:
    rows = [row_checksum.seal_row(KEY, row) for row in (b"", b"row")]
    row_checksum.check_rows(KEY, b",".join(rows), offset=0)


@pytest.mark.parametrize("sealed", [b"", b"123", b"\x1d\x9a\x04m\x02\0\0key2"])
def test_a_key_that_does_not_match_is_damage(sealed: bytes) -> None:
    with pytest.raises(CodecError):
        row_checksum.bare_key(sealed, offset=0)
