"""Beside which file of the query another one is put."""

import pytest

from statemaint.execute.fence import Neighbours
from statemaint.storage import MemoryStorage

HOME = "state/0/0"


@pytest.mark.parametrize(
    ("beside", "path", "newest"),
    [
        ("8.delta 10.delta 9.delta 12.snapshot", f"{HOME}/3.delta", "10.delta"),
        ("8.snapshot 10.snapshot", f"{HOME}/3.delta", "10.snapshot"),
        ("8.changelog 9.zip SSTs/a.sst", f"{HOME}/SSTs/b.sst", "8.changelog"),
        ("8.changelog 9.zip", f"{HOME}/logs/b.log", "8.changelog"),
        ("left/8.delta .9.delta.crc x", f"{HOME}/3.delta", None),
        ("", f"{HOME}/3.delta", None),
    ],
)
def test_a_neighbour_is_the_newest_change_in_the_folder_or_the_newest_commit(
    beside: str, path: str, newest: str | None
) -> None:
    files = dict.fromkeys((f"{HOME}/{name}" for name in beside.split()), b"")
    logs = dict.fromkeys(("commits/9", "commits/10", "offsets/11"), b"")
    found = Neighbours(MemoryStorage(files | logs)).of(path)
    assert found == (f"{HOME}/{newest}" if newest else "commits/10")


def test_entries_of_a_log_are_beside_the_newest_of_that_log() -> None:
    storage = MemoryStorage(dict.fromkeys(("commits/10", "offsets/9", "offsets/11"), b""))
    assert Neighbours(storage).of("offsets/3") == "offsets/11"
    assert Neighbours(MemoryStorage()).of("offsets/3") is None


def test_each_folder_is_listed_once_and_a_newer_file_is_noted() -> None:
    storage = MemoryStorage({f"{HOME}/8.delta": b""})
    found = Neighbours(storage)
    assert found.of(f"{HOME}/3.delta") == found.of(f"{HOME}/SSTs/a.sst") == f"{HOME}/8.delta"
    assert storage.requests["list"] == 1
    found.note(f"{HOME}/9.delta")
    assert found.of(f"{HOME}/SSTs/a.sst") == f"{HOME}/9.delta"
    assert storage.requests["list"] == 1
