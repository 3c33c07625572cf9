"""What a manifest of the trash says, line by line, and what is made of a line that says less."""

import json
from typing import Any

import pytest

from statemaint.listing import Entry
from statemaint.model.ids import UnitId
from statemaint.model.proof import FileRecord
from statemaint.records.manifest import (
    Contents,
    LogWorld,
    Note,
    StoreWorld,
    contents,
    folder_of,
    manifest_path,
    newest_pages,
    page_name,
    render,
)
from statemaint.storage import MemoryStorage
from tests.support.faults import Clock

HOME = "state/0/0"
TRASH = "_statemaint/trash/run"


def seen(
    path: str, size: int = 5, modified: float | None = 1.5, crc32c: int | None = None
) -> FileRecord:
    return FileRecord(path, size, modified, sum=crc32c)


WORLD = StoreWorld(HOME, 9, (seen(f"{HOME}/3.delta"), seen(f"{HOME}/4.delta", 6, None, 7)))
OTHER = StoreWorld("state/0/1", None, ())
LOGS = LogWorld(4, (seen("commits/3"),), (seen("commits/4", crc32c=8),), (seen(f"{HOME}/4.delta"),))
NOTES = (
    Note(seen(f"{HOME}/1.delta"), 60.0, 30.0, world=WORLD),
    Note(seen(f"{HOME}/2.delta", 6, None, 9), 61.0, 30.0, world=WORLD),
    Note(seen(f"{HOME}/2.snapshot"), 62.0, 30.0, world=WORLD, stale=True),
    Note(seen(f"{HOME}/.8.delta.crc"), 63.0, 30.0, seen(f"{HOME}/8.delta"), world=WORLD),
    Note(seen("state/0/1/1.delta"), 64.0, 30.0, world=OTHER),
    Note(seen("state/0/2/1.delta"), 65.0, 30.0),
)


def stored(*lines: bytes, name: str = "0-0.page-000001", at: float = 30.0) -> MemoryStorage:
    storage = MemoryStorage(clock=Clock(at))
    storage.write(manifest_path("run", name), lines)
    return storage


def notes(*lines: dict[str, Any]) -> dict[str, Note]:
    content = [json.dumps(one).encode() + b"\n" for one in lines]
    return dict(contents(stored(*content), "run").notes)


# -- writing and reading


def test_what_is_written_is_read_again() -> None:
    found = contents(stored(render(NOTES, LOGS)), "run")
    assert [*found.notes.values()] == [*NOTES]
    assert [*found.notes] == [one.seen.path for one in NOTES]
    assert found.logs == LOGS
    assert not found.of_rollback


def test_a_line_has_what_differs_and_a_world_once() -> None:
    lines = [json.loads(line) for line in render(NOTES, LOGS).splitlines()]
    files = [["3.delta", 5, 1.5], ["4.delta", 6, None, 7]]
    assert lines == [
        {"path": f"{HOME}/1.delta", "bytes": 5, "modified": 1.5, "until": 60.0,
         "world": {"directory": HOME, "target": 9, "files": files},
         "logs": {"version": 4, "left": [["commits/3", 5, 1.5]],
                  "removed": [["commits/4", 5, 1.5, 8]], "newest": [[f"{HOME}/4.delta", 5, 1.5]]}},
        {"path": f"{HOME}/2.delta", "bytes": 6, "modified": None, "until": 61.0, "crc32c": 9},
        {"path": f"{HOME}/2.snapshot", "bytes": 5, "modified": 1.5, "until": 62.0, "stale": True},
        {"path": f"{HOME}/.8.delta.crc", "bytes": 5, "modified": 1.5, "until": 63.0,
         "beside": [f"{HOME}/8.delta", 5, 1.5]},
        {"path": "state/0/1/1.delta", "bytes": 5, "modified": 1.5, "until": 64.0,
         "world": {"directory": "state/0/1", "target": None, "files": []}},
        {"path": "state/0/2/1.delta", "bytes": 5, "modified": 1.5, "until": 65.0},
    ]  # fmt: skip
    assert render(NOTES[:1]).startswith(b'{"path":"state/0/0/1.delta","bytes":5,')
    assert render(NOTES[:1]).endswith(b"}\n")


def test_the_logs_are_on_the_first_line_alone_and_count_wherever_they_are() -> None:
    assert b'"logs"' not in b"".join(render(NOTES, LOGS).splitlines()[1:])
    storage = stored(render(NOTES[:1]))
    storage.write(manifest_path("run", "rollback"), [render(NOTES[1:], LOGS)])
    found = contents(storage, "run")
    assert found.logs == LOGS
    assert found.of_rollback


# -- lines of earlier builds, and of nobody


def test_a_line_of_an_earlier_build_is_of_a_file_of_unknown_time() -> None:
    line = {"path": f"{HOME}/1.delta", "bytes": 5, "until": 60}
    assert notes(line) == {f"{HOME}/1.delta": Note(seen(f"{HOME}/1.delta", 5, None), 60, 30.0)}


@pytest.mark.parametrize(
    "line",
    [
        {"bytes": "5", "modified": 1.5},
        {"bytes": 5, "modified": "now"},
        {"bytes": 5, "modified": 1.5, "crc32c": "x"},
        {"bytes": 5, "modified": 1.5, "crc32c": None},
        {},
    ],
)
def test_a_line_of_a_file_of_unknown_size_is_of_a_file_that_is_no_other(
    line: dict[str, Any],
) -> None:
    assert notes({"path": "x", "until": 60, **line}) == {"x": Note(seen("x", -1, None), 60, 30.0)}


@pytest.mark.parametrize("until", [None, "later", [1]])
def test_a_line_that_does_not_say_until_when_has_expired(until: object) -> None:
    found = notes({"path": "x", "bytes": 1, "modified": 2, "until": until})
    assert found == {"x": Note(seen("x", 1, 2), 0.0, 30.0)}
    assert notes({"path": "x", "bytes": 1, "modified": 2})["x"].until == 0.0


def test_a_line_without_a_path_moved_no_file() -> None:
    moved = {"path": "x", "bytes": 1, "modified": 2, "until": 3.5}
    assert list(notes({"bytes": 1}, {"path": 7}, moved)) == ["x"]


@pytest.mark.parametrize("stale", [False, None, 1, "true"])
def test_only_true_is_stale(stale: object) -> None:
    line = {"path": "x", "bytes": 1, "modified": 2, "until": 3.5}
    assert notes({**line, "stale": True})["x"].stale
    assert not notes({**line, "stale": stale})["x"].stale


def test_of_two_lines_of_a_file_the_later_one_counts_and_its_place() -> None:
    first = {"path": "x", "bytes": 1, "modified": 2, "until": 3.5}
    found = notes(first, {**first, "path": "y"}, {**first, "until": 4.5})
    assert [(path, note.until) for path, note in found.items()] == [("y", 3.5), ("x", 4.5)]


@pytest.mark.parametrize(
    "world",
    [
        None,
        [],
        {},
        {"directory": 7, "target": 1, "files": []},
        {"directory": HOME, "target": "1", "files": []},
        {"directory": HOME, "target": 1, "files": {}},
        {"directory": HOME, "target": 1},
        {"directory": HOME, "target": 1, "files": [["3.delta", 5, 1.5], ["4.delta", "x", 1]]},
        {"directory": HOME, "target": 1, "files": [["3.delta", 5, 1.5, 1, 1]]},
    ],
)
def test_an_unreadable_world_is_none(world: object) -> None:
    line = {"path": f"{HOME}/1.delta", "bytes": 1, "modified": 2, "until": 3.5}
    assert notes({**line, "world": world})[f"{HOME}/1.delta"].world is None


def test_a_world_counts_for_the_lines_of_its_directory_alone_and_from_there_on() -> None:
    line = {"bytes": 1, "modified": 2, "until": 3.5}
    world = {"directory": HOME, "target": 1, "files": [["3.delta", 5, 1.5]]}
    found = notes(
        {**line, "path": f"{HOME}/1.delta"},
        {**line, "path": f"{HOME}/2.delta", "world": world},
        {**line, "path": "state/0/1/2.delta"},
        {**line, "path": f"{HOME}/SSTs/x.sst"},
        {**line, "path": f"{HOME}/3.delta"},
    )
    expected = StoreWorld(HOME, 1, (seen(f"{HOME}/3.delta"),))
    assert [note.world for note in found.values()] == [None, expected, None, None, expected]


@pytest.mark.parametrize(
    "logs",
    [
        None,
        [],
        {"left": [], "removed": [], "newest": []},
        {"version": "4", "left": [], "removed": [], "newest": []},
        {"version": 4, "removed": [], "newest": []},
        {"version": 4, "left": [], "newest": []},
        {"version": 4, "left": [], "removed": []},
        {"version": 4, "left": [], "removed": [["commits/3"]], "newest": []},
    ],
)
def test_unreadable_logs_are_none(logs: object) -> None:
    line = json.dumps({"path": "x", "logs": logs}).encode() + b"\n"
    assert contents(stored(line, name="rollback"), "run").logs is None


# -- files


def test_contents_tell_manifests_from_files_and_both_from_other_runs() -> None:
    storage = stored(render(NOTES[:1]))
    storage.write(f"{TRASH}/{HOME}/1.delta", [b"12345"])
    storage.write(f"{TRASH}-2/{HOME}/2.delta", [b"12345"])
    found = contents(storage, "run")
    assert [one.path for one in found.manifests] == [f"{TRASH}/manifest/0-0.page-000001.jsonl"]
    assert {path: one.path for path, one in found.files.items()} == {
        f"{HOME}/1.delta": f"{TRASH}/{HOME}/1.delta"
    }
    assert found.run == "run"
    assert found.path_of(found.files[f"{HOME}/1.delta"]) == f"{HOME}/1.delta"


def test_files_come_back_in_reverse_and_those_that_nobody_noted_last() -> None:
    paths = ("b", "a", "c", ".z.crc", "z")
    files = {path: Entry(f"{TRASH}/{path}", 1, None) for path in paths}
    noted = {path: Note(seen(path), 0.0) for path in ("a", "b", "gone", "c")}
    found = Contents("run", (), files, noted)
    assert [found.path_of(one) for one in found.newest_first()] == ["c", "b", "a", "z", ".z.crc"]


def test_the_newest_page_of_each_partition_is_told_by_its_name() -> None:
    storage = stored(b"", name=page_name(UnitId(0, 3), 2))
    for name in (page_name(UnitId(0, 3), 12), page_name(UnitId(10, 0), 1), "0-3", "repair",
                 "0-3.page-000099x", "x0-3.page-000098"):  # fmt: skip
        storage.write(manifest_path("run", name), [b""])
    storage.write(manifest_path("other", page_name(UnitId(0, 3), 77)), [b""])
    assert newest_pages(storage.list(folder_of("run"))) == {UnitId(0, 3): 12, UnitId(10, 0): 1}
    assert page_name(UnitId(0, 3), 2) == "0-3.page-000002"
