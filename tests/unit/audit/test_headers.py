"""What `verify` sees without decoding: how files begin and end, and whose word it takes."""

import hashlib
import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import BinaryIO

import pytest

from statemaint.audit import verify
from statemaint.audit.rebuild import seems_whole
from statemaint.codec.compression import base as compression
from statemaint.codec.compression import lz4 as lz4_block
from statemaint.codec.compression.lz4 import HEADER_SIZE
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import PUT, Header
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.files import Delta
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage
from tests.matrix.test_damage import ROCKS, flip, maintained, stored, table
from tests.support.checkpoints import delta_bytes, snapshot_bytes, state_at, write_checkpoint
from tests.support.states import source

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
CODECS = sorted(COMPRESSIONS)
LARGE = {
    bytes([7, number]): hashlib.shake_128(bytes([number])).digest(9000) for number in range(64)
}
"""Rows that no compression shrinks, of more than half a mebibyte: many blocks of any codec."""
PATH = "state/0/0/20.delta"


class Counting(MemoryStorage):
    """Counts the bytes that are read of the files that are opened."""

    taken: dict[str, int]

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        self.taken = getattr(self, "taken", {})
        taken = self.taken

        class Counted(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                found = super().read(size)
                taken[path] = taken.get(path, 0) + len(found)
                return found

        yield Counted(self.read(path))


def large(codec: str) -> Counting:
    """Batches 16 to 24 are in the log; what version 20 changes is large."""
    storage = write_checkpoint(Counting(), partitions=1, codec=codec)
    storage.write(PATH, [delta_bytes(LARGE.items(), codec=codec)], overwrite=True)
    return storage


def found(storage: MemoryStorage, *, deep: bool = False) -> list[tuple[Finding, tuple[int, ...]]]:
    return [(one, one.batches) for one in verify(storage, deep=deep).findings]


def spoil(storage: MemoryStorage, at: int) -> None:
    content = bytearray(storage.read(PATH))
    content[at] ^= 0x10
    storage.write(PATH, [bytes(content)], overwrite=True)


@pytest.mark.no_cover
@pytest.mark.parametrize("codec", CODECS)
def test_reads_the_first_block_and_the_end(codec: str) -> None:
    storage = large(codec)
    size = len(storage.read(PATH))
    assert found(storage) == []
    assert 0 < storage.taken[PATH] <= 3 * 64 * 1024 < size
    storage.taken.clear()
    assert found(storage, deep=True) == []
    assert storage.taken[PATH] >= size


def test_a_look_at_large_files_loads_no_compiler() -> None:
    script = """
import sys
from statemaint.audit import verify
from tests.unit.audit.test_headers import large
storage = large("lz4")
assert not verify(storage).findings
assert not {"numba", "numpy", "llvmlite"} & set(sys.modules)
assert not verify(storage, deep=True).findings
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.no_cover
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("at", [0, 1])
def test_a_bit_of_the_magic_is_found_as_a_deep_look_finds_it(codec: str, at: int) -> None:
    storage = large(codec)
    spoil(storage, at)
    ((one, batches),) = found(storage)
    assert (one.code, one.path, one.offset) == (FindingCode.CORRUPT_FILE, PATH, 0)
    assert batches == tuple(range(19, 25))
    assert verify(storage).versions_checked == 3
    assert found(storage, deep=True)[0] == (one, batches)


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_file_is_found(codec: str) -> None:
    storage = large(codec)
    storage.write(PATH, [b""], overwrite=True)
    assert [one.code for one, _ in found(storage)] == [FindingCode.CORRUPT_FILE]
    assert found(storage) == found(storage, deep=True)[:1]


@pytest.mark.no_cover
@pytest.mark.parametrize("codec", CODECS)
def test_of_what_is_cut_the_end_is_missed_where_there_is_one(codec: str) -> None:
    storage = large(codec)
    content = storage.read(PATH)
    for size in (len(content) // 2, len(content) - 1):
        storage.write(PATH, [content[:size]], overwrite=True)
        told = [one.code for one, _ in found(storage)]
        assert told == ([FindingCode.CORRUPT_FILE] if codec == "lz4" else [])
        assert {one.code for one, _ in found(storage, deep=True)} == {FindingCode.CORRUPT_FILE}


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_bit_in_the_middle_takes_a_deep_look(codec: str) -> None:
    storage = large(codec)
    spoil(storage, len(storage.read(PATH)) // 2)
    assert found(storage) == []
    assert {one.code for one, _ in found(storage, deep=True)} == {FindingCode.CORRUPT_FILE}


def test_a_stream_without_its_end_is_sound_to_spark() -> None:
    storage = large("lz4")
    storage.write(PATH, [storage.read(PATH)[:-HEADER_SIZE]], overwrite=True)
    assert found(storage) == found(storage, deep=True) == []


def test_the_first_record_must_be_one() -> None:
    storage = large("lz4")
    lz4 = COMPRESSIONS["lz4"]
    for first in (b"\xff\xff\xff\xfe", b"\xff\xff\xff\xff more", b"\0\0"):
        storage.write(PATH, [*compression.encode(lz4, [first])], overwrite=True)
        assert [one.code for one, _ in found(storage)] == [FindingCode.CORRUPT_FILE]
    # What a delta may do, a snapshot may not.
    storage.write(PATH, [delta_bytes([(b"gone", None)])], overwrite=True)
    assert found(storage) == []
    storage.write("state/0/0/20.snapshot", [delta_bytes([(b"gone", None)])])
    assert [one.code for one, _ in found(storage)] == [FindingCode.CORRUPT_FILE]


def test_row_checksums_are_of_the_first_record_too() -> None:
    storage = write_checkpoint(MemoryStorage(), partitions=1, row_checksums=True)
    assert found(storage) == []
    storage.write(PATH, [delta_bytes([(b"key", b"value")])], overwrite=True)
    assert [one.code for one, _ in found(storage)] == [FindingCode.CORRUPT_FILE]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_header_of_a_changelog_is_looked_at(number: int) -> None:
    unique = "00000000-1111-2222-3333-444444444444"
    lineage = ((1, unique),) if number > 2 else ()
    payload = b"".join(changelog.encode(Header(number, lineage), [(PUT, b"key", b"value")]))
    assert seems(payload)
    if number > 1:
        assert not seems(payload.replace(f"v{number}".encode(), b"v9"))
        assert not seems(payload[:3])
    if lineage:
        assert not seems(payload.replace(unique[:8].encode(), b"(damaged"))
        assert not seems(payload.replace(b'"version":1', b'"version":0'))


def seems(payload: bytes) -> bool:
    storage, path = MemoryStorage(), "state/0/0/2.changelog"
    storage.write(path, [*compression.encode(COMPRESSIONS["lz4"], [payload])])
    return seems_whole(source(storage), Delta(2, Entry(path, 1, None)))


def test_an_end_is_an_end_mark_and_nothing_else() -> None:
    end = COMPRESSIONS["lz4"].encoder().end()
    assert lz4_block.is_end(end)
    assert not any(lz4_block.is_end(wrong) for wrong in (b"", end[1:], end + b"x", bytes(21)))
    for at in range(len(end)):
        flipped = bytearray(end)
        flipped[at] ^= 0x40
        assert not lz4_block.is_end(bytes(flipped)), at
    block = COMPRESSIONS["lz4"].encoder().block(b"payload")
    assert not lz4_block.is_end(block[:HEADER_SIZE])


# -- attestations


@pytest.fixture
def attested() -> Counting:
    """Snapshots of versions 17 and 25, each with its attestation; every change has its own time."""
    times = count(1000.0)
    storage = write_checkpoint(Counting(clock=lambda: next(times)), partitions=1)
    maintain(storage, TIGHT)
    assert storage.files.keys() >= {"state/0/0/17.snapshot", "state/0/0/25.snapshot"}
    storage.taken.clear()
    return storage


def test_a_snapshot_is_believed_while_its_attestation_is_of_it(attested: Counting) -> None:
    assert found(attested) == []
    assert sorted(attested.taken) == [f"state/0/0/{version}.delta" for version in range(18, 25)]
    assert verify(attested).versions_checked == 9


@pytest.mark.parametrize("state", [24, 25])
def test_one_that_was_replaced_since_is_read_and_compared(attested: Counting, state: int) -> None:
    other = snapshot_bytes(dict(reversed(state_at(state).items())))
    attested.write("state/0/0/25.snapshot", [other], overwrite=True)
    mismatch = [FindingCode.SNAPSHOT_MISMATCH] if state == 24 else []
    assert [one.code for one, _ in found(attested)] == mismatch
    assert attested.taken["state/0/0/25.snapshot"] >= len(other)
    assert verify(attested).versions_checked == 9 - len(mismatch)


def test_a_zip_is_read_with_its_tables_when_it_was_replaced_since() -> None:
    files = dict(maintained(ROCKS))
    path = table(files)
    files[path] = flip(20)(files[path]) or b""
    told = [FindingCode.CORRUPT_FILE]
    assert [one.code for one, _ in found(stored(files))] == [], "its size is as it was"
    later = MemoryStorage(files, clock=lambda: 1.5, tagged=False)
    assert [one.code for one, _ in found(later)] == told
    later.delete("_statemaint/attestations/0/0/default.json")
    assert found(later) == [], "the scan has read the zip, and nobody else has proved it"
    assert [one.code for one, _ in found(later, deep=True)] == told


@pytest.mark.no_cover
def test_one_that_nobody_proved_is_looked_at_like_any_file(attested: Counting) -> None:
    attested.delete("_statemaint/attestations/0/0/default.json")
    attested.write("state/0/0/25.snapshot", [snapshot_bytes(LARGE)], overwrite=True)
    assert found(attested) == []
    assert 0 < attested.taken["state/0/0/25.snapshot"] < 100_000
    assert [one.code for one, _ in found(attested, deep=True)] == [FindingCode.SNAPSHOT_MISMATCH]
