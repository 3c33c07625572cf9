"""Expiry deletes what a record names, in an order that leaves nothing startable at any kill."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from statemaint.codec.metadata.logs import parse_query_id
from statemaint.errors import CodecError, ConfigError, LeaseHeldError, Superseded
from statemaint.execute.lease import acquire
from statemaint.records.claims import Holder
from statemaint.records.savepoints import SAVEPOINT, read_savepoint
from statemaint.savepoint import savepoint
from statemaint.savepoint.catalog import Savepoint, SavepointState, list_savepoints, look
from statemaint.savepoint.expiry import carry_out, expire, restore
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.checkpoints import NOW, paths, write_checkpoint
from tests.support.faults import Clock, Crash, CrashingStorage
from tests.support.savepoints import ID, savepoint_on_disk, write_small_savepoint

LEFT_OVER = "state/0/0/.25.snapshot.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp"


def listed(storage: Storage) -> Savepoint:
    savepoint = look(storage, "here")
    assert savepoint
    return savepoint


def expire_in(storage: Storage, savepoint: Savepoint) -> Savepoint:
    return expire(savepoint, "here", opened=lambda _: storage)


def expired(storage: Storage) -> tuple[list[int], tuple[str, ...] | None]:
    """Deletes a savepoint; returns the sizes of its files, and what is left."""
    done = expire_in(storage, listed(storage))
    return [entry.size for entry in done.named], done.left


def files_of_a_savepoint(*more: str) -> dict[str, bytes]:
    storage = MemoryStorage(clock=Clock())
    write_small_savepoint(storage)
    for path in more:
        storage.write(path, [b"x"])
    return storage.files


def without_lease(storage: MemoryStorage) -> dict[str, bytes]:
    return {path: content for path, content in storage.files.items() if "lease" not in path}


def refused(files: dict[str, bytes]) -> bool:
    """Returns whether a Spark refuses to start, since it cannot read `metadata`."""
    try:
        parse_query_id(files["metadata"])
    except CodecError:
        return True
    return False


def changes() -> int:
    storage = CrashingStorage(files_of_a_savepoint(LEFT_OVER), at=10**6, after=False, clock=Clock())
    expired(storage)
    return storage.changes


def test_nothing_is_left_of_an_expired_savepoint() -> None:
    storage = MemoryStorage(files_of_a_savepoint(LEFT_OVER, "_statemaint/metrics.json"))
    sizes, left = expired(storage)
    assert (sorted(sizes), left) == ([1, 2, 2, 3, 4, 5, 6, 8], ())
    assert storage.files == {}


@pytest.mark.parametrize("at", range(changes()))
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_leaves_it_whole_or_not_startable_and_the_next_expiry_completes_it(
    *, at: int, after: bool
) -> None:
    files = files_of_a_savepoint(LEFT_OVER)
    storage = CrashingStorage(dict(files), at=at, after=after, clock=Clock())
    with pytest.raises(Crash):
        expired(storage)
    left = storage.files
    of_ours = {path for path in left if path.startswith("_statemaint/")}
    blank = dict.fromkeys(of_ours, b"")
    untouched = {**left, **blank} == {**files, **blank}
    assert untouched or left.keys() == of_ours or refused(left)
    again = MemoryStorage(left, clock=lambda: NOW + 100)  # the lease has expired
    if left:
        expired(again)
    assert again.files == {}


def test_an_unknown_file_stays_and_nothing_becomes_startable() -> None:
    clock = Clock()
    storage = MemoryStorage(files_of_a_savepoint("README.md"), clock=clock)
    for files in (7, 0):  # a second expiry finds the same
        sizes, left = expired(storage)
        clock.now += 100
        assert (len(sizes), left) == (files, ("README.md",))
        others = {path for path in storage.files if "lease" not in path}
        assert others == {"README.md", SAVEPOINT, "metadata"}
        assert refused(storage.files)
    storage.delete("README.md")
    expired(storage)
    assert storage.files == {}


def test_of_an_abandoned_savepoint_all_is_deleted_in_the_folders_of_logs_and_state() -> None:
    storage = MemoryStorage(clock=Clock())
    write_small_savepoint(storage, ended=None)
    storage.write("state/0/2/25.snapshot", [b"unproved"])
    storage.write("offsets/24", [b"v1"])
    storage.write("notes.txt", [b"x"])
    sizes, left = expired(storage)
    assert (sorted(sizes), left) == ([2, 4, 8, 8], ("notes.txt",))
    assert refused(storage.files)
    storage.delete("notes.txt")
    expired(storage)
    assert storage.files == {}


def test_a_savepoint_that_another_run_writes_is_left_to_it() -> None:
    storage = MemoryStorage(clock=Clock())
    write_small_savepoint(storage, ended=None)
    acquire(storage, Holder("other"))
    before = storage.files
    with pytest.raises(LeaseHeldError):
        expired(storage)
    assert storage.files == before


def test_an_expiring_savepoint_is_completed_by_no_run(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    write_checkpoint(LocalStorage(tmp_path / "source"))
    savepoint_on_disk(tmp_path / "to", whole=False, expired=NOW)
    with pytest.raises(ConfigError, match="being deleted"):
        savepoint(LocalStorage(tmp_path / "source"), LocalStorage(tmp_path / "to"))


def test_a_real_savepoint_is_whole_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    write_checkpoint(LocalStorage(tmp_path / "source"))
    savepoint(LocalStorage(tmp_path / "source"), LocalStorage(tmp_path / "to/24"))
    [made] = list_savepoints(str(tmp_path / "to"))
    assert (made.state, made.unknown) == (SavepointState.WHOLE, ())
    expire(made, str(tmp_path / "to"))
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda storage: storage.write("offsets/25", [b"x"]),
        lambda storage: storage.delete("commits/24"),
        lambda storage: storage.replace("metadata", [b'{"id":"x"}']),
        lambda storage: storage.delete(SAVEPOINT),
    ],
)
def test_what_has_changed_since_the_listing_is_left_alone(
    change: Callable[[Storage], object],
) -> None:
    storage = MemoryStorage(files_of_a_savepoint())
    savepoint = listed(storage)
    change(storage)
    before = storage.files
    with pytest.raises(Superseded, match="no longer as it was listed"):
        expire_in(storage, savepoint)
    assert without_lease(storage) == before


@pytest.mark.parametrize(
    ("path", "state"),
    [("commits/25", SavepointState.STARTED), (SAVEPOINT, SavepointState.UNREADABLE)],
)
def test_a_checkpoint_or_an_unreadable_savepoint_is_never_deleted(
    path: str, state: SavepointState
) -> None:
    storage = MemoryStorage(files_of_a_savepoint())
    storage.replace(path, [b"x"])
    before = storage.files
    savepoint = listed(storage)
    assert savepoint.state is state
    with pytest.raises(Superseded):
        expire_in(storage, savepoint)
    assert without_lease(storage) == before


class Beginning(MemoryStorage):
    """A query begins at the moment when `metadata` is replaced."""

    def replace(self, path: str, chunks: Sequence[bytes]) -> None:  # type: ignore[override]
        super().replace(path, chunks)
        if path == "metadata" and "offsets/25" not in self.files:
            self.write("offsets/25", [b"v1"])


def test_a_query_that_begins_meanwhile_keeps_its_checkpoint() -> None:
    before = files_of_a_savepoint()
    storage = Beginning(before, clock=Clock())
    with pytest.raises(Superseded, match="a query has begun to run from it"):
        expired(storage)
    assert without_lease(storage) == {**before, "offsets/25": b"v1"}
    assert parse_query_id(storage.files["metadata"]) == ID


def test_a_checkpoint_whose_expiry_was_killed_as_its_query_began_is_restored() -> None:
    storage = MemoryStorage(clock=Clock())
    note = write_small_savepoint(storage, whole=False, expired=NOW)
    storage.write("offsets/25", [b"v1"])
    restore(storage, note)
    assert parse_query_id(storage.files["metadata"]) == ID
    found = read_savepoint(storage)
    assert found
    assert found.expired is None


def test_no_folder_is_left_on_disk(tmp_path: Path) -> None:
    for batch in (24, 48):
        savepoint_on_disk(tmp_path / f"clicks/{batch}", batch=batch)
    first, second = list_savepoints(str(tmp_path))
    expire(first, str(tmp_path))
    assert [one.name for one in (tmp_path / "clicks").iterdir()] == ["48"]
    assert list_savepoints(str(tmp_path)) == (second,)
    expire(second, second.address)
    assert paths(LocalStorage(tmp_path)) == []


def test_a_link_out_of_the_savepoint_is_not_followed(tmp_path: Path) -> None:
    root, other = tmp_path / "to/24", tmp_path / "other"
    savepoint_on_disk(root)
    (root / "state/0/1").rename(other)
    (root / "state/0/1").symlink_to(other)
    savepoint = list_savepoints(str(tmp_path / "to"))[0]
    assert savepoint.state is SavepointState.STARTED  # its state is not what the record says
    assert (other / "25.snapshot").exists()


def test_without_rules_nothing_expires() -> None:
    storage = MemoryStorage(files_of_a_savepoint())
    assert [*carry_out([listed(storage)], "here", opened=lambda _: storage)] == []
    assert storage.files == files_of_a_savepoint()
