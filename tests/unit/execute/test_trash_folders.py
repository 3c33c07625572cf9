"""The trash of several runs: what has expired, and in which order it goes."""

import json
import math
from pathlib import Path

import pytest

from statemaint.errors import AlreadyExistsError, LeaseLostError
from statemaint.execute.trash import Trash
from statemaint.listing import Entry
from statemaint.records.manifest import FOLDER, manifest_path
from statemaint.records.runs import FOLDER as RUNS
from statemaint.records.runs import RememberedRuns, forget
from statemaint.records.trashed import empty, expired, size_of_trash, trashed_runs
from statemaint.storage import LocalStorage, MemoryStorage
from statemaint.undo.run import _Undo
from statemaint.workers import nothing
from tests.support.faults import Clock


def trash(*runs: tuple[str, float]) -> MemoryStorage:
    """Returns the trash of some runs, one file each, kept until a time."""
    storage = MemoryStorage(clock=Clock(5.0))
    for run, until in runs:
        storage.write(f"{FOLDER}/{run}/state/0/0/1.delta", [b"?"])
        line = json.dumps({"path": "state/0/0/1.delta", "until": until}).encode() + b"\n"
        storage.write(manifest_path(run, "repair"), [line])
    return storage


def test_the_trash_of_each_run_expires_by_itself_a_manifest_last() -> None:
    storage = trash(("a", 7.0), ("b", 8.0), ("c", 7.0))
    gone = expired(storage, 7.0)
    assert gone.runs == {
        run: frozenset([storage.stat(manifest_path(run, "repair"))]) for run in ("a", "c")
    }
    assert not expired(storage, 6.9)
    assert trashed_runs(storage) == {"a": 5.0, "b": 5.0, "c": 5.0}


def test_the_bytes_in_the_trash_are_those_of_its_files() -> None:
    storage = trash(("a", 7.0), ("b", 8.0))
    storage.write(f"{FOLDER}/b/commits/7", [b"12345"])
    assert size_of_trash(storage)[1] == 7
    assert size_of_trash(MemoryStorage())[1] == 0


def test_manifests_are_deleted_after_all_files() -> None:
    storage = trash(("a", 7.0), ("b", 7.0))
    seen: list[set[str]] = []
    empty(storage, expired(storage, 7.0), before=lambda: seen.append(set(storage.files)))
    manifests = {manifest_path(run, "repair") for run in "ab"}
    assert [len(one) for one in seen] == [4, 3, 2, 1]
    assert seen[2] == manifests
    assert storage.files == {}


def test_a_run_is_remembered_while_it_is_listed_or_in_the_trash() -> None:
    window = RememberedRuns(since=0.0, runs=frozenset({"a"}), trashed={"b": 1.0})
    assert [window.remembers(run) for run in "abc"] == [True, True, False]


def test_a_disk_keeps_no_folder_of_a_forgotten_run(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for run in "ab":
        storage.write(f"{RUNS}/{run}/all.json", [b"{}"])
    forget(storage, RememberedRuns(frozenset("b"), since=math.inf), before=nothing)
    assert [*storage.folders(RUNS)] == ["b"]


# -- single moves


HOME = "state/0/0"
KEPT = f"{FOLDER}/run/{HOME}/1.delta"


def test_a_move_that_was_cut_short_ends_and_another_file_of_the_name_stays() -> None:
    for content, ends in ((b"same", True), (b"another", False)):
        storage = MemoryStorage({f"{HOME}/1.delta": b"same", KEPT: content})
        entry = storage.stat(f"{HOME}/1.delta")
        if ends:
            Trash(storage, "run", 60.0).put(entry)
        else:
            with pytest.raises(AlreadyExistsError):
                Trash(storage, "run", 60.0).put(entry)
        assert (entry.path in storage.files) is not ends
        assert storage.read(KEPT) == content


def test_the_manifests_of_an_undone_run_go_under_its_lease_alone() -> None:
    manifest = manifest_path("run", "repair")
    storage = MemoryStorage({KEPT: b"?", manifest: b"{}", "commits/0": b""})
    calls: list[bool] = []

    def before() -> None:
        calls.append(KEPT in storage.files)
        if not calls[-1]:
            raise LeaseLostError("memory:", 1)

    assert [one.comes_back for one in _Undo(storage, "run", before).put_back()] == [True]
    assert calls == [True, False]
    assert manifest in storage.files


def test_a_checksum_stays_with_its_file() -> None:
    owner, side = f"{HOME}/1.delta", f"{HOME}/.1.delta.crc"
    trashed = {path: Entry(f"{FOLDER}/run/{path}", 1, None) for path in (owner, side)}
    undo = _Undo(MemoryStorage({entry.path: b"?" for entry in trashed.values()}), "run")
    for left, reasons in (({owner}, {}), (set[str](), {owner: "it was written again"})):
        undo._reasons = reasons
        said = undo._against_checksum(trashed[side], side, left)
        assert said == f"{owner} stays in the trash"
