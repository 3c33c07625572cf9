"""Damaged and forged files: a named error or the truth, never a crash, and never memory for a lie.

`python -m tests.fuzz` asks the same of the same decoders for as long as it is given.
"""

import io
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.base import Compression
from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.rocksdb import changelog, snapshot_zip
from statemaint.codec.rocksdb.changelog import Change
from statemaint.errors import CodecError
from tests.fuzz.folds import FOLDS
from tests.fuzz.mutate import mutated
from tests.fuzz.stretches import STRETCHES
from tests.fuzz.targets import TARGETS, Target
from tests.support import rocks_files
from tests.support.checkpoints import changes, delta_bytes

MOST_MEMORY = 4 * 1024 * 1024
LZ4_END = b"LZ4Block\x15" + bytes(12)
CODECS = pytest.mark.parametrize("codec", COMPRESSIONS)
CHECKED = pytest.mark.parametrize("row_checksums", [False, True], ids=["plain", "row checksums"])
ALL = {**TARGETS, **FOLDS, **STRETCHES}
EVERY_TARGET = pytest.mark.parametrize("target", ALL.values(), ids=ALL)


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails when more than a few MiB are allocated at any one time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


def read(codec: Compression, stored: bytes, *, row_checksums: bool = False) -> list[Record]:
    # A buffered file, unlike a BytesIO, allocates all that it is asked for.
    stream = io.BufferedReader(io.BytesIO(stored))
    chunks = compression.decode(codec, stream)
    return list(records.decode(chunks, row_checksums=row_checksums))


def delta(codec: str, *, row_checksums: bool = False) -> bytes:
    rows = [(key, None if value is None else bytes(range(100)) * 3) for key, value in changes(9)]
    return delta_bytes(rows, codec=codec, row_checksums=row_checksums)


@EVERY_TARGET
def test_a_real_file_passes(target: Target) -> None:
    for seed in target.seeds():
        target.check(seed)


@EVERY_TARGET
@settings(max_examples=60)
@given(random=st.randoms(use_true_random=False), data=st.data())
def test_a_changed_file_is_an_error_or_harmless(
    target: Target, random: Random, data: st.DataObject
) -> None:
    seed = data.draw(st.sampled_from([*target.seeds()]))
    target.check(target.variant(seed, random))


@EVERY_TARGET
@settings(max_examples=60)
@given(garbage=st.binary(max_size=200))
def test_garbage_is_an_error_or_harmless(target: Target, garbage: bytes) -> None:
    target.check(garbage)


@CODECS
@CHECKED
def test_a_file_cut_anywhere_is_an_error(codec: str, *, row_checksums: bool) -> None:
    whole = delta(codec, row_checksums=row_checksums)
    for end in range(len(whole)):
        if whole[end:] == LZ4_END:  # Spark reads this one too, and nothing is missing
            continue
        with pytest.raises(CodecError):
            read(COMPRESSIONS[codec], whole[:end], row_checksums=row_checksums)


@CODECS
@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), 1 << 27])
@pytest.mark.parametrize("order", ["big", "little"])
def test_an_extreme_length_is_an_error_and_no_allocation(
    codec: str, number: int, order: str
) -> None:
    whole = delta(codec)
    with little_memory():
        for at in range(len(whole) - 3):
            forged = number.to_bytes(4, "big" if order == "big" else "little", signed=True)
            check_forged(COMPRESSIONS[codec], whole[:at] + forged + whole[at + 4 :])


@CODECS
@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), -2, 1 << 27])
def test_an_extreme_length_of_a_record_is_an_error_and_no_allocation(
    codec: str, number: int
) -> None:
    payload = b"".join(records.encode(changes(9)))
    with little_memory():
        for at in range(len(payload) - 3):
            forged = payload[:at] + number.to_bytes(4, "big", signed=True) + payload[at + 4 :]
            stored = b"".join(compression.encode(COMPRESSIONS[codec], [forged]))
            check_forged(COMPRESSIONS[codec], stored)


def check_forged(codec: Compression, stored: bytes) -> None:
    try:
        found = read(codec, stored)
    except CodecError:
        return
    assert sum(len(key) + len(value or b"") for key, value in found) < 100_000


@given(random=st.randoms(use_true_random=False))
def test_a_changed_block_of_lz4_is_never_believed(random: Random) -> None:
    payload = b"".join(records.encode(changes(9)))
    stored = b"".join(compression.encode(Lz4Block(), [payload]))
    try:
        found = b"".join(compression.decode(Lz4Block(), io.BytesIO(mutated(stored, random))))
    except CodecError:
        return
    assert found.replace(payload, b"") == b""  # whole blocks may be missing, or come twice


def test_row_checksums_find_every_changed_bit() -> None:
    payload = b"".join(records.encode(changes(9), row_checksums=True))
    expected = list(records.decode([payload], row_checksums=True))
    for bit in range(len(payload) * 8):
        changed = bytearray(payload)
        changed[bit // 8] ^= 1 << bit % 8
        with suppress(CodecError):  # other negative lengths of a removal's value mean the same
            assert list(records.decode([bytes(changed)], row_checksums=True)) == expected


# -- RocksDB


CHANGELOGS = [
    b"".join(compression.decode(Lz4Block(), io.BytesIO(stored)))
    for stored in rocks_files.CHANGELOGS
]


def read_changelog(payload: bytes, *, row_checksums: bool = False) -> list[Change]:
    return list(changelog.decode([payload], row_checksums=row_checksums)[1])


@pytest.mark.parametrize("payload", CHANGELOGS)
@CHECKED
def test_a_changelog_cut_anywhere_is_an_error(payload: bytes, *, row_checksums: bool) -> None:
    for end in range(len(payload)):
        with pytest.raises(CodecError):
            read_changelog(payload[:end], row_checksums=row_checksums)
        with pytest.raises(CodecError):
            read_changelog(payload + payload[end:], row_checksums=row_checksums)


@pytest.mark.parametrize("payload", CHANGELOGS)
@CHECKED
@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), -2, 1 << 27])
def test_an_extreme_length_in_a_changelog_is_an_error_and_no_allocation(
    payload: bytes, number: int, *, row_checksums: bool
) -> None:
    with little_memory():
        for at in range(len(payload) - 3):
            forged = payload[:at] + number.to_bytes(4, "big", signed=True) + payload[at + 4 :]
            with suppress(CodecError):
                found = read_changelog(forged, row_checksums=row_checksums)
                assert sum(len(key) + len(value or b"") for _, key, value in found) < len(payload)


def test_a_zip_cut_anywhere_is_an_error() -> None:
    for end in range(len(rocks_files.ZIP)):
        for read in (snapshot_zip.parse_metadata, snapshot_zip.members):
            with pytest.raises(CodecError):
                read(rocks_files.ZIP[:end])


def test_an_extreme_number_in_a_zip_is_no_allocation() -> None:
    with little_memory():
        for at in range(rocks_files.ZIP.index(b"PK\1\2"), len(rocks_files.ZIP) - 3):
            for number in (0x7FFFFFFF, 0xFFFFFFFF):
                forged = bytearray(rocks_files.ZIP)
                forged[at : at + 4] = number.to_bytes(4, "little")
                with suppress(CodecError):
                    snapshot_zip.members(bytes(forged))
