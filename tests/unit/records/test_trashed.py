"""The runs in the trash, found without listing their files, and the index that saves looks."""

import json
from pathlib import Path

import pytest

from statemaint.maintain import maintain, undo
from statemaint.model.policy import Policy
from statemaint.records.manifest import FOLDER, manifest_path
from statemaint.records.trashed import (
    INDEX,
    empty,
    expired,
    forget_trashed,
    index_trash,
    size_of_trash,
    trashed_runs,
)
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage

DAY = 86400.0
POLICY = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0, trash_for=7 * DAY)


def looks(storage: HookedStorage) -> list[str]:
    """Returns the folders in the trash that were listed since the last call."""
    listed = [path for path in storage.paths("list") if path.startswith(FOLDER)]
    storage.calls.clear()
    return listed


def add(storage: Storage, run: str, *times: float, files: int = 1) -> None:
    """Adds a run's trash: a page of its manifest for each time until which files are kept."""
    for number in range(files):
        storage.write(f"{FOLDER}/{run}/state/0/0/{number}.delta", [b"123"], overwrite=True)
    for page, until in enumerate(times):
        line = json.dumps({"path": "state/0/0/0.delta", "until": until}).encode() + b"\n"
        storage.write(manifest_path(run, f"0-0.page-{page:06}"), [line], overwrite=True)


def test_no_look_at_the_trash_lists_its_files() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    for run in "abc":
        add(storage, run, 7.0, 9.0, files=50)
    assert trashed_runs(storage) == dict.fromkeys("abc", 5.0)
    assert not expired(storage, 8.0)
    assert set(looks(storage)) == {f"{FOLDER}/{run}/manifest" for run in "abc"}


def test_the_last_page_of_a_manifest_is_read_first() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "a", 1.0, 1.0, 1.0, 9.0)
    assert not expired(storage, 8.0)
    assert storage.requests["read"] == 2  # the index, and one page


def test_four_runs_that_are_kept_are_looked_at_and_the_others_wait() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    for number in range(9):
        add(storage, f"run-{number}", 7.0)
    assert not expired(storage, 6.0)
    assert len(looks(storage)) == 4
    assert expired(storage, 6.0).unknown == 9
    assert sorted(expired(storage, 7.0).runs) == [f"run-{number}" for number in range(9)]


def test_the_index_answers_for_the_runs_that_it_has() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    for number in range(9):
        add(storage, f"run-{number}", 7.0, files=2)
    index_trash(storage, 9, 0)
    assert len(looks(storage)) == 9
    found = expired(storage, 6.0)
    assert (found.runs, found.unknown) == ({}, 0)
    assert size_of_trash(storage) == (18, 54)
    assert len(trashed_runs(storage)) == 9
    assert looks(storage) == []


@pytest.mark.parametrize(("unknown", "files", "written"),
                         [(2, 999, False), (3, 0, True), (0, 1000, True)])  # fmt: skip
def test_the_index_is_written_when_it_is_worth_it(
    *, unknown: int, files: int, written: bool
) -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "run", 7.0)
    index_trash(storage, unknown, files)
    assert (INDEX in storage.files) is written


def test_what_has_expired_by_the_index_goes_only_if_its_manifests_agree() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "run", 7.0)
    index_trash(storage, 3, 0)
    add(storage, "run", 7.0, 12.0)
    assert not expired(storage, 8.0)
    assert expired(storage, 12.0)


def test_a_run_that_is_written_to_after_it_had_expired_stays() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "a", 7.0)
    add(storage, "b", 7.0)
    found = expired(storage, 8.0)
    add(storage, "a", 7.0, 12.0)
    gone: list[str] = []
    empty(
        storage,
        found,
        before=lambda: None,
        after=lambda page: gone.extend(one.path for one in page),
    )
    assert gone == [f"{FOLDER}/b/state/0/0/0.delta"]
    assert set(trashed_runs(storage)) == {"a"}


def test_a_disk_keeps_no_folder_of_an_emptied_trash_and_the_index_no_run(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for run in "abc":
        add(storage, run, 7.0)
    (tmp_path / FOLDER / "emptied").mkdir()
    index_trash(storage, 3, 0)
    assert (set(trashed_runs(storage)), size_of_trash(storage)) == ({*"abc"}, (3, 9))
    empty(storage, expired(storage, 7.0), before=lambda: None)
    assert (trashed_runs(storage), size_of_trash(storage)) == ({}, (0, 0))
    assert [*storage.folders(FOLDER)] == []


def test_the_folders_that_a_killed_run_has_emptied_are_deleted_by_the_next(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for run in "abc":
        add(storage, run, 7.0)
    index_trash(storage, 3, 0)
    for entry in [*storage.list(f"{FOLDER}/b")]:
        storage.delete(entry.path)
    assert set(expired(storage, 6.0).runs) == set()
    found = expired(storage, 7.0)
    assert set(found.runs) == {"a", "b", "c"}
    empty(storage, found, before=lambda: None)
    assert size_of_trash(storage) == (0, 0)


def cut(storage: MemoryStorage, run: str, page: int = 0) -> None:
    """Adds a page that a full disk cut in its first line."""
    storage.write(manifest_path(run, f"0-0.page-{page:06}"), [b'{"path":"state/0/0/9.de'])


def test_a_page_without_a_whole_line_keeps_no_trash_forever() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "a", 7.0)
    cut(storage, "a", 1)
    cut(storage, "b")
    assert set(expired(storage, 6.0).runs) == {"b"}
    assert set(expired(storage, 7.0).runs) == {"a", "b"}
    empty(storage, expired(storage, 7.0), before=lambda: None)
    assert storage.files == {}


def test_a_trash_without_a_whole_page_is_indexed_with_times_of_zero() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "a")
    line = b'{"path": "state/0/0/0.delta", "until": 99}\n'
    storage.write(manifest_path("b", ".0-0.page-000000"), [line])  # was never whole
    assert trashed_runs(storage) == {"a": 0.0, "b": 5.0}
    index_trash(storage, 3, 0)
    assert json.loads(storage.read(INDEX))["runs"] == {
        "a": {"since": 0.0, "until": 0.0, "files": 1, "bytes": 3},
        "b": {"since": 5.0, "until": 0.0, "files": 0, "bytes": 0},
    }


def test_a_file_whose_line_cannot_be_read_is_kept() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    cut(storage, "a")
    storage.write(f"{FOLDER}/a/state/0/0/9.delta", [b"123"])
    add(storage, "b", 7.0)
    storage.write(manifest_path("b", "0-0.page-000001"), [b'{"path":"state/0/0/1.delta"}\n'])
    assert not expired(storage, 1e12)


def test_runs_that_cannot_be_judged_hide_no_expired_one() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    for number in range(5):
        storage.write(manifest_path(f"a-{number}", "0-0.page-000000"), [b"{}\n"])
    add(storage, "b", 7.0)
    assert not expired(storage, 8.0)
    index_trash(storage, expired(storage, 8.0).unknown, 0)
    assert set(expired(storage, 8.0).runs) == {"b"}


def test_an_expired_run_is_listed_once_when_it_is_deleted() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "a", 7.0, files=20)
    found = expired(storage, 8.0)
    storage.calls.clear()
    empty(storage, found, before=lambda: None)
    assert looks(storage) == [f"{FOLDER}/a"]
    assert storage.files == {}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"runs": []}', b'{"runs": {"a": 1}}', b'{"runs": {"a": {}}}',
                b'{"runs": {"a": {"since": "x", "until": 99, "files": 1, "bytes": 1}}}', b"\xff"]
)  # fmt: skip
def test_an_index_that_cannot_be_read_is_as_none(content: bytes) -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "a", 7.0)
    storage.write(INDEX, [content])
    assert sorted(expired(storage, 8.0).runs) == ["a"]
    assert size_of_trash(storage) == (1, 3)


def test_a_run_of_the_index_that_is_not_in_the_trash_counts_for_nothing() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "a", 7.0)
    index_trash(storage, 3, 0)
    for path in list(storage.files):
        if path != INDEX:
            storage.delete(path)
    assert (trashed_runs(storage), size_of_trash(storage)) == ({}, (0, 0))
    add(storage, "b", 8.0)
    assert (set(trashed_runs(storage)), size_of_trash(storage)) == ({"b"}, (1, 3))


def test_a_run_is_taken_out_of_the_index_alone() -> None:
    storage = HookedStorage(clock=Clock(5.0))
    add(storage, "a", 7.0)
    add(storage, "b", 7.0)
    index_trash(storage, 3, 0)
    before = storage.files
    forget_trashed(storage, "none")
    assert storage.files == before
    forget_trashed(storage, "a")
    assert list(json.loads(storage.read(INDEX))["runs"]) == ["b"]


def neglected(clock: Clock) -> HookedStorage:
    return write_checkpoint(HookedStorage(clock=clock), partitions=1)


def test_an_undo_of_an_indexed_run_leaves_no_size_of_before() -> None:
    clock = Clock()
    storage = neglected(clock)
    storage.write("state/0/0/.17.snapshot.crc", [b"crc\0\0\0\2\0abcd"])
    clock.now += 2 * DAY
    maintain(storage, POLICY, run="run")
    index_trash(storage, 3, 0)
    assert size_of_trash(storage)[0] == 17
    assert list(undo(storage, "run").left) == ["state/0/0/.17.snapshot.crc"]
    assert size_of_trash(storage) == (1, 12)


def test_a_second_attempt_at_an_indexed_run_is_counted_again() -> None:
    clock = Clock()
    storage = neglected(clock)
    maintain(storage, POLICY.override(max_deletes_per_run=4), run="run")
    index_trash(storage, 3, 0)
    assert size_of_trash(storage)[0] == 4
    clock.now += 1
    maintain(storage, POLICY, run="run")
    assert size_of_trash(storage)[0] > 4
