"""What a scan of a far storage asks for side by side."""

from collections.abc import Callable
from threading import Event

import pytest

from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.ids import UnitId
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.scan.handover import Recorder, ScanPart
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import HookedStorage
from tests.support.rocks import write_rocks_checkpoint

POLICY = Policy(min_deltas_for_snapshot=2, min_batches_to_retain=2, grace=0)
WAIT = 20.0


class Far(HookedStorage):
    """A storage where what is asked of one folder waits until another one is asked, too.

    Attributes:
        first: the folder that waits; nothing does by default.
        second: the folder that it waits for.
    """

    def __init__(self) -> None:
        super().__init__(before=self._meet, parallel=2)
        self.first = self.second = "nothing"
        self.met = Event()

    def _meet(self, verb: str, path: str) -> None:
        if verb in ("list", "read") and path.startswith(self.second):
            self.met.set()
        elif verb in ("list", "read") and path.startswith(self.first):
            assert self.met.wait(WAIT)


def far(write: Callable[..., object] = write_checkpoint) -> Far:
    found = Far()
    write(found, partitions=2)
    return found


def test_the_commits_are_read_side_by_side() -> None:
    storage = far()
    oldest, *_, newest = scan_checkpoint(storage).batches
    storage.first, storage.second = f"commits/{oldest}", f"commits/{oldest + 1}"
    assert scan_checkpoint(storage).batches[-1] == newest
    assert storage.met.is_set()


@pytest.mark.parametrize("write", [write_checkpoint, write_rocks_checkpoint])
def test_the_records_of_stores_are_read_side_by_side(write: Callable[..., object]) -> None:
    storage = far(write)
    maintain(storage, POLICY)
    storage.first, storage.second = (f"_statemaint/attestations/0/{one}/" for one in (0, 1))
    stores = scan_checkpoint(storage).stores
    assert [one.id.partition for one in stores] == [0, 1]
    assert all(one.attestations for one in stores)


def test_the_zips_of_stores_are_read_side_by_side() -> None:
    storage = far(write_rocks_checkpoint)
    maintain(storage, POLICY)
    storage.first, storage.second = "state/0/0/", "state/0/1/"
    assert all(one.rocks and one.rocks.parts for one in scan_checkpoint(storage).stores)
    assert storage.met.is_set()


@pytest.mark.parametrize("folder", ["state/0", "_statemaint/attestations/0"])
def test_a_task_lists_its_partitions_side_by_side(folder: str) -> None:
    storage = far()
    maintain(storage, POLICY)
    recorder = Recorder(storage)
    handover = recorder.handover(plan_checkpoint(recorder, POLICY)[0])
    storage.first, storage.second = f"{folder}/0", f"{folder}/1"
    part = ScanPart(handover, frozenset({UnitId(0, 0), UnitId(0, 1)}))
    stores = scan(storage, part=part).stores
    assert [len(one.files) for one in stores] == [len(stores[0].files)] * 2
    assert all(one.attestations for one in stores)


def test_an_unreadable_commit_is_the_finding_that_it_is_nearby() -> None:
    storage, near = far(), MemoryStorage()
    write_checkpoint(near, partitions=2)
    oldest = scan_checkpoint(near).batches[0]
    for one in (storage, near):
        one.write(f"commits/{oldest}", [b"v1"], overwrite=True)
    found = [scan_checkpoint(one).findings for one in (storage, near)]
    assert found[0] == found[1]
    assert [one.code for one in found[0]] == [FindingCode.UNREADABLE_COMMIT]
