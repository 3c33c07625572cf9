"""What a rollback and a repair note of the files that they move away."""

import google_crc32c
import pytest

from statemaint.records.manifest import Contents, contents
from statemaint.recover import repair, rollback
from statemaint.scan.proofs import is_same
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import snapshot_bytes, state_at, write_checkpoint
from tests.support.ledgers import ledger_lines

HOME = "state/0/0"
MONTH = 30 * 86_400.0


@pytest.fixture
def storage() -> MemoryStorage:
    return write_checkpoint(MemoryStorage(), last=6, batches=range(2, 6), partitions=1)


def sums(storage: MemoryStorage, *versions: int) -> dict[str, int]:
    paths = [f"{HOME}/{version}.delta" for version in versions]
    return {path: google_crc32c.value(storage.read(path)) for path in paths}


def moved(storage: MemoryStorage, run: str) -> Contents:
    return contents(storage, run)


def test_a_rollback_notes_the_bytes_of_the_changes_it_removes(storage: MemoryStorage) -> None:
    storage.write(f"{HOME}/6.snapshot", [snapshot_bytes(state_at(6))])
    expected = sums(storage, 5, 6)
    run = rollback(storage, 3, trash_for=MONTH).run
    notes = moved(storage, run).notes
    found = {path: note.seen.sum for path, note in notes.items()}
    assert {path: one for path, one in found.items() if one is not None} == expected
    assert f"{HOME}/6.snapshot" in found
    assert {note.world for note in notes.values()} == {None}


def test_a_rollback_notes_the_fence_that_it_held(storage: MemoryStorage) -> None:
    """An undo compares it with the fences of later runs."""
    rollback(storage, 3, trash_for=MONTH)
    assert {line["fence"] for line in ledger_lines(storage, "rollback")} == {1}


def test_a_repair_notes_the_log_that_a_snapshot_was_judged_by(storage: MemoryStorage) -> None:
    storage.write(f"{HOME}/2.snapshot", [snapshot_bytes(state_at(2))])
    bad = f"{HOME}/4.snapshot"
    storage.write(bad, [snapshot_bytes(state_at(1))])
    listed = {one.path: one for one in storage.list(HOME)}
    expected = {f"{HOME}/{one}.delta": None for one in range(1, 7)} | sums(storage, 1, 2, 3, 4)
    run = repair(storage, trash_for=MONTH).run
    note = moved(storage, run).notes[bad]
    assert is_same(listed[bad], note.seen)
    assert (note.seen.sum, note.stale) == (None, True)
    assert note.world is not None
    assert (note.world.directory, note.world.target) == (HOME, 6)
    assert {one.path: one.sum for one in note.world.files} == expected


def test_a_rebuilt_snapshot_is_proved_at_the_target_of_its_repair(storage: MemoryStorage) -> None:
    storage.write(f"{HOME}/4.snapshot", [snapshot_bytes(state_at(1))])
    repair(storage, trash_for=MONTH)
    (store,) = scan(storage).stores
    assert {one.version: one.target for one in store.attestations} == {4: 6}
    assert store.since == 6


def test_a_repair_notes_the_file_that_a_wrong_checksum_lay_beside(storage: MemoryStorage) -> None:
    side = f"{HOME}/.4.delta.crc"
    storage.write(side, [b"crc\0\0\0\2\0" + b"\1\2\3\4"])
    storage.write(f"{HOME}/5.snapshot", [snapshot_bytes(state_at(5))])
    owner = storage.stat(f"{HOME}/4.delta")
    expected = sums(storage, 4)[owner.path]
    run = repair(storage, trash_for=MONTH).run
    note = moved(storage, run).notes[side]
    assert note.beside is not None
    assert is_same(owner, note.beside)
    assert (note.beside.sum, note.stale) == (expected, False)
