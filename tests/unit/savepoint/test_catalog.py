"""The savepoints below a folder: where they are, what they are good for, what is not theirs."""

from pathlib import Path

import pytest

from statemaint.records.savepoints import SAVEPOINT, write_savepoint
from statemaint.savepoint.catalog import Savepoint, SavepointState, list_savepoints, look
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.checkpoints import NOW, write_checkpoint
from tests.support.faults import Clock
from tests.support.savepoints import ID, savepoint_note, savepoint_on_disk, write_small_savepoint

UNFINISHED = SavepointState.UNFINISHED


def seen(storage: Storage) -> Savepoint:
    savepoint = look(storage, "here")
    assert savepoint
    return savepoint


def unknown(savepoint: Savepoint) -> list[str]:
    return [entry.path for entry in savepoint.unknown]


def whole() -> MemoryStorage:
    storage = MemoryStorage(clock=Clock())
    write_small_savepoint(storage)
    return storage


def test_a_whole_savepoint_has_no_unknown_file() -> None:
    storage = whole()
    found = seen(storage)
    assert (found.state, found.unknown, found.why) == (SavepointState.WHOLE, (), "")
    assert found.bytes == sum(map(len, storage.files.values()))
    assert found.touched == NOW
    own = {SAVEPOINT, "metadata"}
    assert {one.path for one in found.named} == storage.files.keys() - own


def test_a_checkpoint_without_a_record_is_no_savepoint() -> None:
    storage = write_checkpoint(MemoryStorage())
    assert look(storage, "here") is None


@pytest.mark.parametrize(
    "path",
    [
        "commits/25", "offsets/25", "sources/0/1", "offsets/.25.tmp", "state/0/0/26.delta",
        "state/0/0/26.zip", "state/0/1/.26.delta.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp",
        "state/0/2/1.snapshot", "state/1/0/25.snapshot",
    ],
)  # fmt: skip
def test_a_file_beyond_the_record_in_logs_or_state_is_a_querys(path: str) -> None:
    storage = whole()
    storage.write(path, [b"x"])
    found = seen(storage)
    assert (found.state, unknown(found)) == (SavepointState.STARTED, [path])


def test_a_named_file_of_another_size_is_a_querys() -> None:
    storage = whole()
    storage.replace("commits/24", [b"v1\n{}\n"])
    assert seen(storage).state is SavepointState.STARTED


def test_a_query_that_began_while_it_expired_is_seen() -> None:
    storage = MemoryStorage(clock=Clock())
    write_small_savepoint(storage, whole=False, expired=NOW)
    assert seen(storage).state is SavepointState.EXPIRING
    storage.write("offsets/25", [b"x"])
    assert seen(storage).state is SavepointState.STARTED


@pytest.mark.parametrize(
    "path",
    [
        "state/0/0/.25.snapshot.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp",
        "offsets/.24.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp",
        ".metadata.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp",
        "_statemaint/.savepoint.json.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp",
        "_statemaint/savepoint/state-0-0.json", "_statemaint/metrics.json",
        "_statemaint/lease/0000000001.json",
        "_statemaint/remembered.zlib",
    ],
)  # fmt: skip
def test_what_an_interrupted_write_and_verify_leave_is_its_own(path: str) -> None:
    storage = whole()
    storage.write(path, [b"x"])
    assert (seen(storage).state, seen(storage).unknown) == (SavepointState.WHOLE, ())


@pytest.mark.parametrize("path", ["README.md", "_statemaint/ledger/0/0/x.jsonl", "metadata.old"])
def test_a_file_elsewhere_is_unknown_and_no_querys(path: str) -> None:
    storage = whole()
    storage.write(path, [b"x"])
    assert (seen(storage).state, unknown(seen(storage))) == (SavepointState.WHOLE, [path])


def test_all_in_the_folders_of_a_savepoint_that_is_being_written_is_its_own() -> None:
    storage = MemoryStorage(clock=Clock())
    write_small_savepoint(storage, ended=None)
    storage.write("offsets/24", [b"no store is proved yet"])
    storage.write("notes.txt", [b"x"])
    assert (seen(storage).state, unknown(seen(storage))) == (UNFINISHED, ["notes.txt"])


def test_a_savepoint_that_has_just_begun_is_unfinished() -> None:
    storage = MemoryStorage(clock=Clock())
    write_savepoint(storage, savepoint_note())  # `metadata` comes right after the record
    assert seen(storage).state is UNFINISHED


@pytest.mark.parametrize("content", [None, b'{"id":"other"}', f'{{"id":"{ID}"}}'.encode()])
def test_an_unfinished_savepoint_from_which_a_query_could_start_is_damaged(
    content: bytes | None,
) -> None:
    storage = MemoryStorage(clock=Clock())
    write_small_savepoint(storage, ended=None)
    if content:
        storage.replace("metadata", [content])
    else:
        storage.delete("metadata")
    assert seen(storage).state is SavepointState.DAMAGED


def test_a_savepoint_without_its_true_metadata_is_unfinished() -> None:
    storage = MemoryStorage(clock=Clock())
    write_small_savepoint(storage, whole=False)
    assert seen(storage).state is UNFINISHED


def test_missing_files_and_another_id_are_damage() -> None:
    storage = whole()
    storage.delete("state/0/1/25.snapshot")
    found = seen(storage)
    assert found.state is SavepointState.DAMAGED
    assert found.why == "state/0/1/25.snapshot is missing or has another size"
    for content in (b'{"id":"other"}', None):
        storage = whole()
        if content:
            storage.replace("metadata", [content])
        else:
            storage.delete("metadata")
        assert seen(storage).state is SavepointState.DAMAGED


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1}', b"[" * 100_000, b"\xff", b"null"],
)
def test_a_record_that_cannot_be_read_is_shown_in_one_line(content: bytes) -> None:
    storage = whole()
    storage.replace(SAVEPOINT, [content])
    found = seen(storage)
    assert (found.state, found.note) == (SavepointState.UNREADABLE, None)
    assert found.why.startswith(SAVEPOINT)
    assert "\n" not in found.why


@pytest.mark.parametrize("time", [b"NaN", b"Infinity", b"1e300", b"-1.0"])
def test_an_impossible_time_makes_a_record_unreadable(time: bytes) -> None:
    storage = whole()
    content = storage.read(SAVEPOINT).replace(b'"ended": 2000000000.0', b'"ended": ' + time)
    storage.replace(SAVEPOINT, [content])
    assert seen(storage).state is SavepointState.UNREADABLE


def test_a_folder_is_searched_for_savepoints_of_several_queries(tmp_path: Path) -> None:
    for folder in ("clicks/24", "clicks/48", "orders/24"):
        savepoint_on_disk(tmp_path / folder, batch=int(folder[-2:]))
    (tmp_path / "checkpoint").mkdir()
    write_checkpoint(LocalStorage(tmp_path / "checkpoint"))
    (tmp_path / "empty/folder").mkdir(parents=True)
    found = list_savepoints(f"{tmp_path}/")
    names = [one.address.removeprefix(f"{tmp_path}/") for one in found]
    assert names == ["clicks/24", "clicks/48", "orders/24"]
    assert {one.state for one in found} == {SavepointState.WHOLE}
    assert list_savepoints(str(tmp_path / "missing")) == ()


def test_a_listing_takes_three_requests_a_savepoint_and_those_for_folders(tmp_path: Path) -> None:
    made: list[LocalStorage] = []

    def opened(address: str) -> Storage:
        made.append(LocalStorage(Path(address)))
        return made[-1]

    for batch in range(10):
        savepoint_on_disk(tmp_path / str(batch), batch=batch)
    list_savepoints(str(tmp_path), opened=opened)
    reads = sum(
        storage.requests.get("read", 0) + storage.requests.get("open", 0) for storage in made
    )
    assert reads == 2 * 10
