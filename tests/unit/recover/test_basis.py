"""What remains must be there until a recovery is done: of each store, what its version needs."""

import pytest

from statemaint.errors import Superseded
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.ids import StoreId
from statemaint.recover.carry_out import must_stand
from statemaint.storage import MemoryStorage
from statemaint.workers import Workers
from tests.support.faults import Clock
from tests.support.rocks import rocks_checkpoint, rocks_store, table

OTHER = StoreId(0, 1)
# Version 5 is loaded from 3.zip with table a, 4 and 5; from nothing else.
FILES = "1c 2c 2z:b 3c 3z:a 4c 5c sa sb sx"


def described(*, batches: range = range(3, 5)) -> Checkpoint:
    """Returns a checkpoint of two stores, of which one has a gap that a repair is to fill."""
    return rocks_checkpoint(rocks_store(FILES), rocks_store("5c", OTHER), batches=batches)


def in_storage(checkpoint: Checkpoint, *, without: str = "") -> MemoryStorage:
    clock = Clock()
    storage = MemoryStorage(clock=clock, tagged=False)
    for entry in (file.entry for store in checkpoint.stores for file in store.files):
        if entry.path != without:
            clock.now = entry.modified or 0.0
            storage.write(entry.path, [bytes(entry.size)])
    return storage


@pytest.mark.parametrize("without", ["2.zip", "2.changelog", "3.changelog", "SSTs/b.sst", ""])
@pytest.mark.parametrize("workers", [1, 4])
def test_files_that_the_version_is_not_loaded_from_may_go(without: str, workers: int) -> None:
    checkpoint = described()
    must_stand(
        in_storage(checkpoint, without=f"state/0/0/{without}"), checkpoint, Workers.of(workers)
    )


@pytest.mark.parametrize("without", ["3.zip", "4.changelog", "5.changelog", "SSTs/a.sst"])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_file_that_it_is_loaded_from_may_not(without: str, workers: int) -> None:
    checkpoint, path = described(), f"state/0/0/{without}"
    with pytest.raises(Superseded, match=f"^{path}: version 5 is loaded from it, and it was"):
        must_stand(in_storage(checkpoint, without=path), checkpoint, Workers.of(workers))


def test_a_file_that_the_version_is_loaded_from_may_not_be_replaced() -> None:
    checkpoint = described()
    storage = in_storage(checkpoint)
    storage.write(table("a"), [b"another"], overwrite=True)
    with pytest.raises(Superseded, match=f"^{table('a')}: version 5"):
        must_stand(storage, checkpoint, Workers())


def test_without_a_committed_batch_there_is_no_version() -> None:
    must_stand(MemoryStorage(), described(batches=range(0)), Workers())
