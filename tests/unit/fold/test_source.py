"""The files of one store as a fold reads them: what lies beside them may be of any size."""

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.codec.integrity import checksum_file
from statemaint.errors import CodecError, StaleChecksumError
from statemaint.fold import Source
from statemaint.storage import LocalStorage
from tests.support.checkpoints import delta_bytes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DELTA = "state/0/0/1.delta"


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Fails when the block takes more memory than so many bytes at any time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size


def beside(tmp_path: Path, content: bytes, size: int) -> Source:
    """A delta, and a checksum file that begins like this and has so many bytes."""
    path = tmp_path / DELTA
    path.parent.mkdir(parents=True)
    path.write_bytes(delta_bytes({}))
    side = path.with_name(f"{path.name}.crc")
    side.write_bytes(content)
    os.truncate(side, size)
    storage = LocalStorage(tmp_path)
    return Source(storage, Lz4Block(), row_checksums=False, key=bytes(16)).beside(DELTA)


@pytest.mark.parametrize("size", [64 * KIB + 1, 100 * MIB, 3 * GIB])
def test_a_checksum_file_of_any_size_is_refused_without_being_read(
    tmp_path: Path, size: int
) -> None:
    source = beside(tmp_path, b"PK\x03\x04", size)
    with at_most(2 * MIB), pytest.raises(StaleChecksumError, match="more than 64 KiB"):
        list(source.records(DELTA))


def test_a_checksum_file_with_blanks_at_its_end_counts(tmp_path: Path) -> None:
    content = delta_bytes({})
    fitting = LocalStorage(tmp_path)
    source = beside(tmp_path, b"", 0)
    sums: dict[str, int] = {}
    list(Source(fitting, Lz4Block(), row_checksums=False, key=bytes(16), sums=sums).records(DELTA))
    text = checksum_file.spark(sums[DELTA], len(content), 1.7e9)
    (tmp_path / f"{DELTA}.crc").write_bytes(text.ljust(64 * KIB))
    assert list(source.records(DELTA)) == []


@pytest.mark.parametrize("size", [128 * MIB + 1, 3 * GIB])
def test_nothing_is_read_of_a_local_file_that_is_too_large_to_be_read_whole(
    tmp_path: Path, size: int
) -> None:
    (tmp_path / "5").touch()
    os.truncate(tmp_path / "5", size)
    with at_most(MIB), pytest.raises(CodecError, match="5: it has more than 128 MiB"):
        LocalStorage(tmp_path).read("5")
