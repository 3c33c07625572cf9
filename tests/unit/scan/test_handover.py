"""What a task of a run reads, after the run's plan has read everything."""

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import shake_128
from itertools import count

import pytest

from statemaint.listing import Entry
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.actions import Plan, Request
from statemaint.planning import plan_checkpoint
from statemaint.scan.handover import Handover, Recorder
from statemaint.storage import MemoryStorage, ReadOnly
from tests.support.checkpoints import (
    COMMIT,
    JOIN,
    changes,
    delta_bytes,
    offsets_bytes,
    write_checkpoint,
)

POLICY = Policy(min_batches_to_retain=5, grace=0.0)
LAST = 25


class Watched(ReadOnly):
    """A storage that notes what is listed and read."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.listed: list[str] = []
        self.opened: list[str] = []

    def list(self, prefix: str) -> Iterator[Entry]:
        self.listed.append(prefix)
        return super().list(prefix)

    def read(self, path: str) -> bytes:
        self.opened.append(path)
        return super().read(path)


def checkpoint(partitions: int = 4, stores: tuple[str, ...] = ("default",)) -> MemoryStorage:
    storage = MemoryStorage(clock=map(float, count()).__next__)
    write_checkpoint(storage, last=LAST, partitions=partitions, stores=stores)
    return storage


def handed(storage: MemoryStorage) -> Handover:
    """Returns what a plan hands over, as a task gets it."""
    recorder = Recorder(storage)
    found, _ = plan_checkpoint(recorder, POLICY)
    return Handover.from_json(json.loads(json.dumps(recorder.handover(found).to_json())))


def of_a_task(storage: MemoryStorage | Watched, handover: Handover | None, part: int = 2) -> Plan:
    request = Request(target=LAST, operators=frozenset({0}), partitions=frozenset({part}))
    return plan_checkpoint(storage, POLICY, request=request, handover=handover)[1]


def same(one: Plan, other: Plan) -> bool:
    """Returns whether two plans are equal, but for when they were made."""
    return _timeless(one) == _timeless(other)


def _timeless(plan: Plan) -> Plan:
    stores = tuple(replace(one, store=replace(one.store, listed=0.0)) for one in plan.stores)
    return replace(plan, now=0.0, stores=stores)


def add_batch(storage: MemoryStorage, batch: int, partitions: int = 4) -> None:
    """Goes on as the query does."""
    for partition in range(partitions):
        content = delta_bytes(changes(batch + 1, partition))
        storage.write(f"state/0/{partition}/{batch + 1}.delta", [content], overwrite=True)
    storage.write(f"offsets/{batch}", [offsets_bytes({"shuffle.partitions": str(partitions)})])
    storage.write(f"commits/{batch}", [COMMIT])


def test_a_task_lists_its_own_partition_and_reads_no_log_again() -> None:
    storage = checkpoint()
    handover, watched = handed(storage), Watched(storage)
    of_a_task(watched, handover)
    assert set(watched.listed) == {
        "offsets",
        "commits",
        "state/0/2",
        "_statemaint/attestations/0/2",
        "_statemaint/ledger/rollback",
        "_statemaint/pins",
    }
    assert set(watched.opened) == {"metadata"}


def test_without_a_handover_it_lists_everything() -> None:
    watched = Watched(checkpoint())
    of_a_task(watched, None)
    assert "state" in watched.listed
    assert "commits/16" in watched.opened  # the others are equal to it, by their tags


@pytest.mark.parametrize("stores", [("default",), JOIN], ids=["one store", "a join"])
def test_its_plan_is_the_same_as_without_a_handover(stores: tuple[str, ...]) -> None:
    storage = checkpoint(stores=stores)
    handover = handed(storage)
    for part in range(4):
        mine = of_a_task(storage, handover, part)
        assert mine.actions
        assert same(mine, of_a_task(storage, None, part))


def test_a_folder_that_is_missing_is_damage_for_the_task_as_for_the_plan() -> None:
    storage = checkpoint(stores=JOIN)
    handover = handed(storage)
    lost = [path for path in storage.files if path.startswith("state/0/2/right-keyToNumValues/")]
    storage.delete_all(lost)
    mine = of_a_task(storage, handover)
    assert FindingCode.BROKEN_CHAIN in {one.code for one in mine.all_findings}
    assert same(mine, of_a_task(storage, None))


def test_batches_that_were_committed_since_are_no_reason_to_list_everything() -> None:
    storage = checkpoint()
    handover = handed(storage)
    add_batch(storage, LAST)
    watched = Watched(storage)
    mine = of_a_task(watched, handover)
    assert "state" not in watched.listed
    assert {one for one in watched.opened if one.startswith("commits/")} == {f"commits/{LAST}"}
    assert (mine.target, mine.committed) == (LAST, LAST)
    assert same(mine, of_a_task(storage, None))


def test_a_purged_log_is_no_reason_either_and_raises_the_floor_as_ever() -> None:
    storage = checkpoint()
    handover = handed(storage)
    storage.delete_all(["commits/16", "offsets/16"])
    watched = Watched(storage)
    mine = of_a_task(watched, handover)
    assert "state" not in watched.listed
    assert same(mine, of_a_task(storage, None))


def test_after_a_rewind_everything_is_looked_at_again() -> None:
    storage = checkpoint()
    handover = handed(storage)
    storage.delete_all(["commits/24", "offsets/24"])
    add_batch(storage, LAST - 1)
    watched = Watched(storage)
    mine = of_a_task(watched, handover)
    assert "state" in watched.listed
    assert "commits/24" in watched.opened
    assert same(mine, of_a_task(storage, None))


@pytest.mark.parametrize("batch", [LAST - 1, LAST])
def test_after_a_repartition_everything_is_looked_at_again(batch: int) -> None:
    storage = checkpoint()
    handover = handed(storage)
    storage.delete_all([f"commits/{batch}", f"offsets/{batch}"])
    add_batch(storage, batch, partitions=8)
    watched = Watched(storage)
    of_a_task(watched, handover)
    assert "state" in watched.listed


def test_a_commit_that_was_written_again_is_read_again() -> None:
    storage = checkpoint()
    handover = handed(storage)
    storage.delete_all(["commits/18"])
    storage.write("commits/18", [b"v1\n{"])
    mine = of_a_task(storage, handover)
    assert FindingCode.UNREADABLE_COMMIT in {one.code for one in mine.findings}


def test_what_was_read_of_a_file_is_not_handed_over_with_the_one_that_replaced_it() -> None:
    storage, path = checkpoint(), f"commits/{LAST - 1}"
    recorder = Recorder(storage)
    found, _ = plan_checkpoint(recorder, POLICY)
    assert recorder.handover(found).contents[storage.stat(path)] == COMMIT
    storage.write(path, [b"v1\n{}"], overwrite=True)
    list(recorder.list("commits"))  # a second scan that has no need to read it
    assert storage.stat(path) not in recorder.handover(found).contents
    recorder.read(path)
    list(recorder.list("commits"))  # the same file as before
    assert recorder.handover(found).contents[storage.stat(path)] == b"v1\n{}"


def test_large_logs_are_left_out_and_read_by_the_task() -> None:
    storage = checkpoint()
    handover = handed(storage)
    large = {Entry("commits/1", 1, 1.0): shake_128(b"no pattern").digest(400_000)}
    text = replace(handover, contents=large).to_json()
    assert len(text) < 10_000
    told = Handover.from_json(text)
    assert told == replace(handover, contents={})
    watched = Watched(storage)
    of_a_task(watched, told)
    assert "commits/16" in watched.opened  # the others are equal to it, by their tags
    assert "state" not in watched.listed
