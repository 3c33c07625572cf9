"""Repair, rollback and undo on every kind of storage."""

from pathlib import Path

from statemaint.audit import doctor, verify
from statemaint.maintain import undo
from statemaint.recover import repair, rollback
from statemaint.storage import HadoopStorage, LocalStorage, Storage
from statemaint.storage.hadoop.jvm import Jvm
from tests.support.checkpoints import of_the_query, snapshot_bytes, state_at, write_checkpoint
from tests.support.s3 import Place

DAY = 86_400.0


def comes_through(storage: Storage) -> None:
    """Breaks a checkpoint, repairs it, rolls back what cannot be, and takes that back."""
    write_checkpoint(storage)
    storage.write("state/0/0/20.snapshot", [snapshot_bytes(state_at(20))[:50]])
    storage.delete("state/0/1/23.delta")
    done = repair(storage, trash_for=DAY)
    assert [one.action.path for one in done.written] == ["state/0/0/20.snapshot"]
    before = of_the_query(storage)
    found = doctor(storage)
    assert (found.restarts, found.goes_back_to) == (False, 21)
    back = rollback(storage, 21, trash_for=DAY)
    assert verify(storage, deep=True).findings == ()
    assert doctor(storage).restarts
    undo(storage, back.run)
    assert of_the_query(storage) == before


def test_on_a_local_disk(tmp_path: Path) -> None:
    comes_through(LocalStorage(tmp_path))


def test_on_s3(place: Place) -> None:
    comes_through(place.storage())


def test_on_hdfs(folder: str, jvm: Jvm) -> None:
    comes_through(HadoopStorage(folder, jvm=jvm))
