"""A disk that is full or fails while a savepoint is written to it: one line, and nothing starts."""

import errno
from pathlib import Path
from shutil import rmtree

import pytest

from statemaint.audit import digest_stores
from statemaint.errors import StorageError
from statemaint.savepoint import savepoint
from statemaint.savepoint.run import UNFINISHED
from statemaint.storage import LocalStorage, MemoryStorage
from tests.support.archived import archived
from tests.support.failing_disk import Calls, failing


def test_a_full_disk_leaves_what_the_same_call_completes(tmp_path: Path) -> None:
    source = MemoryStorage(archived(("4.3.0", "aggregation2")).files)
    expected, completed = digest_stores(source), 0
    said: set[str] = set()
    for at in range(0, 200, 3):
        dest = LocalStorage(tmp_path / str(at))
        calls = Calls()
        try:
            with failing(at=at, number=errno.ENOSPC, after=False) as calls:
                savepoint(source, dest)
        except StorageError as error:
            said.add(error.detail)
        if at > calls.number:
            break
        metadata = tmp_path / str(at) / "metadata"
        if not metadata.exists() or metadata.read_bytes() == UNFINISHED:
            rmtree(tmp_path / str(at) / "_statemaint" / "lease", ignore_errors=True)  # it ended
            savepoint(source, dest)
            completed += 1
        assert digest_stores(dest) == expected
    else:
        pytest.fail("a savepoint takes fewer calls")
    assert completed > 10
    assert said == {"No space left on device"}
