"""Files of a local disk while they are open: small ones, large ones, and those that change."""

import os
import sys
from pathlib import Path

import pytest

from statemaint.errors import NotFoundError, StorageError, WrongKindError
from statemaint.storage import LocalStorage

# The kernel's own files: their sizes are 0 whatever they contain, and some cannot be read.
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
EDGE = 64 * 1024


@pytest.mark.parametrize("size", [0, 1, EDGE - 1, EDGE, EDGE + 1, 5 * EDGE])
def test_a_file_of_any_size_is_read_in_parts(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "1.delta").write_bytes(content)
    with LocalStorage(tmp_path).open("1.delta") as stream:
        first, rest = stream.read(1000), stream.read()
        stream.seek(0)
        again = stream.read()
    assert (first, rest, again) == (content[:1000], content[1000:], content)


@needs_proc
def test_a_file_with_more_than_its_size_is_read_to_its_end() -> None:
    with LocalStorage("/proc/self").open("status") as stream:
        lines = stream.read().splitlines()
    assert lines[0].startswith(b"Name:")
    assert any(line.startswith(b"VmRSS:") for line in lines)


@needs_proc
def test_a_file_that_cannot_be_read_is_a_storage_error_with_its_name() -> None:
    with (
        pytest.raises(StorageError, match="mem: Input/output error"),
        LocalStorage("/proc/self").open("mem"),
    ):
        pass


def test_no_file_stays_open(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for size in (10, 2 * EDGE):
        (tmp_path / "1.delta").write_bytes(bytes(size))
        before = _open_files()
        with storage.open("1.delta") as stream:
            stream.read(1)
        assert _open_files() == before
    with pytest.raises(NotFoundError), storage.open("2.delta"):
        pass
    (tmp_path / "3.delta").mkdir()
    with pytest.raises(WrongKindError), storage.open("3.delta"):
        pass
    assert _open_files() == before


def _open_files() -> int:
    return len(list(Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir()))
