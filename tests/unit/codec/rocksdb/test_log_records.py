"""RocksDB's log format: every damage is seen, whole files of RocksDB's own pass."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rocksdb.log_records import check
from statemaint.errors import CodecError
from statemaint.fold.rocksdb.database import opened

BLOCK, HEADER = 32 * 1024, 7


def record(kind: int, body: bytes) -> bytes:
    value = google_crc32c.value(bytes([kind]) + body)
    masked = ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<IHB", masked, len(body), kind) + body


def written(*payloads: bytes) -> bytes:
    """Writes payloads as `log::Writer` does: in pieces that end where a block does."""
    log = b""
    for payload in payloads:
        first, rest = True, payload
        while first or rest:
            if BLOCK - len(log) % BLOCK < HEADER:
                log += bytes(BLOCK - len(log) % BLOCK)
            room = BLOCK - len(log) % BLOCK - HEADER
            piece, rest = rest[:room], rest[room:]
            log += record({(1, 1): 1, (1, 0): 2, (0, 0): 3, (0, 1): 4}[first, not rest], piece)
            first = False
    return log


SOUND = written(b"one", b"", b"two" * 30_000, b"x" * (BLOCK - 20), b"three")


def test_records_that_go_over_many_blocks_pass() -> None:
    check(SOUND)
    check(b"")


@given(st.lists(st.sampled_from([0, 1, 100, BLOCK - 15, BLOCK - 14, BLOCK - 13, BLOCK, 3 * BLOCK])))
def test_whatever_the_writer_writes_passes(sizes: list[int]) -> None:
    check(written(*(bytes(size) for size in sizes)))


def test_rocksdb_s_own_files_pass() -> None:
    with TemporaryDirectory() as place:
        with opened("new", Path(place), b",", create=True) as database:
            for number in range(300):
                database.write([(b"key %d" % number, b"value")])
                database.flush()
        logs = [*Path(place, "db").glob("MANIFEST-*"), *Path(place, "db").glob("*.log")]
        assert max(file.stat().st_size for file in logs) > BLOCK
        for file in logs:
            check(file.read_bytes())


@given(st.integers(0, len(SOUND) - 1), st.integers(1, 255))
def test_a_changed_byte_is_damage(at: int, change: int) -> None:
    content = bytearray(SOUND)
    content[at] ^= change
    with pytest.raises(CodecError):
        check(bytes(content))


@given(st.integers(1, len(SOUND) - 1))
def test_a_cut_record_is_damage(end: int) -> None:
    whole = {10, 17}  # behind the first records, which are too short for a block's end
    if end not in whole and SOUND[:end] not in (
        written(b"one", b"", b"two" * 30_000),
        written(b"one", b"", b"two" * 30_000, b"x" * (BLOCK - 20)),
    ):
        with pytest.raises(CodecError):
            check(SOUND[:end])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (record(9, b"compressed"), "kind 9"),
        (record(0, b""), "kind 0"),
        (record(3, b"middle"), "kind 3"),
        (record(2, b"first") + record(1, b"whole"), "kind 1"),
        (record(2, b"first"), "within one"),
        (record(1, b"whole")[:5], "header cut short"),
        (written(b"x" * (BLOCK - 2 * HEADER + 3)) + b"\1\0\0\0", "after the last record"),
        (written(b"x" * (BLOCK - HEADER - 3)) + bytes(3) + record(9, b"next block"), "kind 9"),
        (written(b"x" * (BLOCK - 3 * HEADER)) + record(1, b"x" * 40), "cut short"),
    ],
)
def test_what_rocksdb_would_not_write_is_refused(content: bytes, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        check(content)
