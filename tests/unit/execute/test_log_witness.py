"""What a run notes of the world that it takes files from."""

import google_crc32c
import pytest

from statemaint.errors import Superseded
from statemaint.execute.trash import (
    _judged,
    _witnessed,
    is_log_entry,
    log_entries,
    log_of,
    maintained,
    sealed,
)
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import classify_any
from statemaint.model.proof import FileRecord
from statemaint.records.manifest import StoreWorld
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import STORE, files, names, store
from tests.support.faults import Clock
from tests.support.rocks import rocks_store

HOME = STORE.directory


def test_the_log_is_the_changes_or_the_zips_where_there_are_none() -> None:
    def log(one: Store) -> list[str]:
        return names(file.entry.path for file in log_of(one.files))

    assert log(store("1d 2d 2s 2c 5t")) == ["1.delta", "2.delta"]
    assert log(store("2s 2k")) == []
    assert log(rocks_store("1c 2z:a sa")) == ["1.changelog"]
    assert log(rocks_store("2z:a 3z:a 3k sa")) == ["2.zip", "3.zip"]
    assert log_of(iter(files("1d 2d"))) == files("1d 2d")


LOGS = ("commits/0", "commits/17", "offsets/3", "state/0/_metadata/v2/3", "state/2/_metadata/v2/0")
NO_LOGS = (
    "commits/.17.crc", "commits/017", "commits/x", "commits/old/3", "metadata", "sources/0/3",
    "state/0/_metadata/metadata", "state/0/_metadata/v2/.3.crc", "state/0/0/3",
    "offsets/1000000000000000000",
)  # fmt: skip


def test_only_batches_of_the_logs_are_their_entries() -> None:
    storage = MemoryStorage(dict.fromkeys((*LOGS, *NO_LOGS, "state/9/_metadata/v2/1"), b""))
    assert [one.path for one in log_entries(storage, (2, 0))] == [*LOGS]
    assert all(map(is_log_entry, LOGS))
    assert not any(map(is_log_entry, NO_LOGS))


def stored(*versions: int, at: float = 5.0) -> tuple[MemoryStorage, Store]:
    storage = MemoryStorage(clock=Clock(at))
    for version in versions:
        storage.write(f"{HOME}/{version}.delta", [b"%d" % version])
    return storage, Store(STORE, tuple(classify_any(one) for one in storage.list(HOME)))


def test_the_first_change_above_what_goes_is_noted_with_its_bytes() -> None:
    storage, one = stored(1, 2, 3, 4)
    entries = [file.entry for file in log_of(one.files)]
    sums = {f"{HOME}/3.delta": google_crc32c.value(b"3")}
    expected = tuple(FileRecord.of(entry, sums) for entry in entries)
    assert maintained(storage, one, 9, 2) == StoreWorld(HOME, 9, expected)
    unread = tuple(FileRecord.of(entry, {}) for entry in entries)
    assert maintained(storage, one, None, 4).files == unread
    assert maintained(storage, one, None, 0).files[0].sum == google_crc32c.value(b"1")


def test_where_it_was_replaced_meanwhile_only_the_listing_is_noted() -> None:
    storage, one = stored(1, 2)
    listed = tuple(FileRecord.of(file.entry, {}) for file in log_of(one.files))
    storage.write(f"{HOME}/2.delta", [b"other"], overwrite=True)
    assert maintained(storage, one, 9, 1).files == listed


def test_a_fingerprint_is_of_the_very_file_that_was_listed() -> None:
    storage, one = stored(1)
    entry = log_of(one.files)[0].entry
    sums = {entry.path: google_crc32c.value(b"1")}
    assert sealed(storage, entry) == FileRecord.of(entry, sums)
    for other in (Entry(entry.path, 2, entry.modified), Entry(entry.path, 1, 6.0)):
        with pytest.raises(Superseded, match=entry.path):
            sealed(storage, other)
    storage.delete(entry.path)
    with pytest.raises(Superseded, match=entry.path):
        sealed(storage, entry)


# -- what a repair and a rollback note


def real(notation: str) -> tuple[MemoryStorage, Store]:
    names = [one.entry.path for one in files(notation)]
    storage = MemoryStorage(dict.fromkeys(names, b"?"), clock=Clock(5.0))
    return storage, Store(STORE, tuple(classify_any(one) for one in storage.list(HOME)))


@pytest.mark.parametrize(
    ("notation", "version", "read"),
    [
        ("1d 2d 3d 3s 4d", 3, ["1.delta", "2.delta", "3.delta"]),
        ("3d 4d 4s 5d 6d 7d", 6, ["5.delta", "6.delta"]),
        ("1d 2d 4d", 4, ["1.delta", "2.delta", "4.delta"]),
    ],
    ids=["the whole log", "from a snapshot on", "a log with a gap"],
)
def test_the_changes_that_a_snapshot_was_compared_with_are_noted_with_their_bytes(
    notation: str, version: int, read: list[str]
) -> None:
    storage, one = real(notation)
    seen = _judged(storage, one, version)
    assert [found.path for found in seen] == [file.entry.path for file in log_of(one.files)]
    assert names(found.path for found in seen if found.sum is not None) == read


@pytest.mark.parametrize(
    ("name", "read"),
    [("3.delta", True), ("3.changelog", True), ("3.snapshot", False), ("3.zip", False)],
)
def test_only_changes_are_read_for_their_bytes(name: str, *, read: bool) -> None:
    storage = MemoryStorage({f"{HOME}/{name}": b"?"})
    (entry,) = storage.list(HOME)
    assert (_witnessed(storage, entry).sum is not None) is read
