"""The records write and delete below `_statemaint` only, whatever they are called with (S18)."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import statemaint.records
from statemaint.records import claims, pins, runs, savepoints, segments, trashed
from statemaint.storage import MemoryStorage
from tests.support.faults import Clock, HookedStorage

WRITING = {
    "append",
    "delete",
    "delete_all",
    "delete_folders",
    "move",
    "move_all",
    "replace",
    "write",
}
FOREIGN = "../../state/0/0"
NOTE = runs.RunNote.of_nothing(MemoryStorage(), 0.0, 1, 0)
STORED = savepoints.SavedStore(directory="state/0/0", rows=1, digest="0", files={})
SAVED = savepoints.SavepointNote(
    source=FOREIGN, query_id=FOREIGN, id=FOREIGN, batch=1, witness="", build="", begun=0.0
)


def old_claims(storage: HookedStorage) -> None:
    for number in (1, 2, 4):
        storage.write(claims.path_of(number), [b"{}"])
        storage._clock.now += 100  # type: ignore[attr-defined]


def old_trash(storage: HookedStorage) -> None:
    for name in ("manifest/0-0.jsonl", "state/0/0/1.delta"):
        storage.write(f"_statemaint/trash/run/{name}", [b'{"path": "x", "until": 1}\n'])


def forgotten_stores(storage: HookedStorage) -> None:
    savepoints.note_stores(storage, [STORED])
    savepoints.forget_stores(storage)


CALLS: dict[str, Callable[[HookedStorage], object]] = {
    "claims.forget_before": lambda storage: claims.forget_before(storage, 3),
    "claims.take_back": lambda storage: claims.take_back(storage, 2),
    "pins._write": lambda storage: pins.write_pin(storage, 7, by=FOREIGN, seconds=1.0),
    "pins.end_pin": lambda storage: pins.end_pin(
        storage, pins.write_pin(storage, 7, by=FOREIGN, seconds=1.0)
    ),
    "runs.write_note": lambda storage: runs.write_note(storage, FOREIGN, FOREIGN, NOTE),
    "runs.forget": lambda storage: runs.forget(
        storage, runs.RememberedRuns(since=1e12), before=lambda: None
    ),
    "savepoints.forget_stores": forgotten_stores,
    "savepoints.note_stores": lambda storage: savepoints.note_stores(storage, [STORED]),
    "savepoints.write_savepoint": lambda storage: savepoints.write_savepoint(storage, SAVED),
    "segments.add_segment": lambda storage: segments.add_segment(
        storage, "0/0", segments.page_of(FOREIGN, 1), [b"{}\n"]
    ),
    "segments.write_merged": lambda storage: segments.write_merged(
        storage, "0/0", [segments.Line(b"{}", {})]
    ),
    "trashed.empty": lambda storage: trashed.empty(
        storage, trashed.expired(storage, 1e12), before=lambda: None
    ),
    "trashed._write_index": lambda storage: trashed.index_trash(storage, 3, 0),
    "runs.write_document": lambda storage: runs.write_document(
        storage, f"{runs.unit_folder(FOREIGN, FOREIGN)}/outcome.json", []
    ),
}


def writers() -> set[str]:
    """Returns the functions of `records` that change a storage."""
    found = set()
    for module in Path(statemaint.records.__path__[0]).glob("*.py"):
        for node in ast.parse(module.read_text()).body:
            called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(one, ast.Attribute)
                and one.attr in WRITING
                and isinstance(one.value, ast.Name)
                and one.value.id == "storage"
                for one in called
            ):
                found.add(f"{module.stem}.{node.name}")
    return found


def test_each_function_of_the_records_that_writes_is_tried() -> None:
    assert writers() == {*CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_the_records_write_only_below_their_own_folder(name: str) -> None:
    storage = HookedStorage(clock=Clock())
    old_claims(storage)
    old_trash(storage)
    storage.write("_statemaint/runs/old/maintain.json", [b"{}"])
    storage.calls.clear()
    CALLS[name](storage)
    changed = storage.paths(*WRITING)
    assert changed
    assert all(path.startswith("_statemaint/") for path in changed)
    assert not any(".." in path.split("/")[:3] for path in changed)
