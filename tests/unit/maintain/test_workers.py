"""Several stores at a time: the result of one after another, and an end between two actions."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Barrier, Event, Lock
from threading import enumerate as running_threads
from typing import Any

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.errors import CodecError, LeaseLostError
from statemaint.execute.stores import execute
from statemaint.listing import Entry
from statemaint.maintain import maintain, undo
from statemaint.maintain.run import apply
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.report.outcome import SnapshotWritten, StoreOutcome
from statemaint.report.plan_file import MaintenanceFile, parse_plan
from statemaint.report.to_json import plan_json
from statemaint.storage import MemoryStorage, Stoppable
from statemaint.workers import Workers
from tests.support.checkpoints import of_the_query, write_checkpoint
from tests.support.faults import Clock, HookedStorage, ShakyFence, on
from tests.support.marks import long
from tests.support.rocks import write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
STORES = ("default", "second", "third")
WAIT = 30
WORKERS = [1, 2, 3, 16]


def three_stores() -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=Clock()), partitions=5, stores=STORES)


def rocks() -> MemoryStorage:
    return write_rocks_checkpoint(MemoryStorage(clock=Clock()), partitions=4)


def run_thrice(storage: MemoryStorage, workers: int) -> list[Any]:
    """Runs until all is done, and returns what each run reports of each store."""
    reports = [maintain(storage, TIGHT, workers=workers) for _ in range(3)]
    return [
        [(one.before.id, one.state, len(one.after.files), one.reclaimable) for one in report.stores]
        for report in reports
    ]


def maintained() -> MemoryStorage:
    found = three_stores()
    run_thrice(found, 1)
    return found


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_many_workers_leave_what_one_leaves_and_report_it_in_the_same_order(workers: int) -> None:
    alone, together = three_stores(), three_stores()
    assert run_thrice(together, workers) == run_thrice(alone, 1)
    assert of_the_query(together) == of_the_query(alone)
    assert verify(together, deep=True).healthy


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_many_workers_leave_what_one_leaves_of_rocksdb(workers: int) -> None:
    alone, together = rocks(), rocks()
    assert run_thrice(together, workers) == run_thrice(alone, 1)
    assert digest_stores(together, workers=workers) == digest_stores(alone, workers=1)
    assert len(of_the_query(together)) == len(of_the_query(alone))


def test_two_workers_work_at_the_same_time() -> None:
    """Two snapshots are written at the same time, or none is."""
    met: list[int] = []
    meet = Barrier(2, action=lambda: met.append(2))
    storage = HookedStorage(before=on("write", "*.snapshot", lambda: meet.wait(WAIT)))
    write_checkpoint(storage, partitions=4)
    report = maintain(storage, replace(TIGHT, rebase=False), workers=2)
    assert report.snapshots_written == sum(met) == 4


@pytest.mark.parametrize("workers", WORKERS)
def test_a_damaged_store_is_halted_and_the_others_are_maintained(workers: int) -> None:
    storage = three_stores()
    damaged = f"state/0/2/{STORES[1]}/9.delta"
    storage.write(damaged, [storage.files[damaged][:-9]], overwrite=True)
    report = maintain(storage, TIGHT, workers=workers)
    halted = [one.before.id for one in report.stores if one.state is StoreOutcome.HALTED]
    assert halted == [StoreId(0, 2, STORES[1])]
    assert report.snapshots_written == 2 * (len(report.stores) - 1)
    assert report.exit_code == 3


@pytest.mark.parametrize(
    ("workers", "looks"), [(1, 0), (2, 1), (3, 7), (16, 40), (2, 90), (16, 0), long(1, 40), (3, 40)]
)
def test_a_lost_lease_stops_every_worker_and_the_next_run_goes_on(workers: int, looks: int) -> None:
    storage, before = three_stores(), set(running_threads())
    maintain(storage, replace(TIGHT, max_deletes_per_run=0))
    plan = plan_checkpoint(storage, TIGHT)[1]
    with pytest.raises(LeaseLostError):
        list(execute(plan, storage, run="r", fence=ShakyFence(looks), workers=workers))
    assert before.issuperset(running_threads())
    assert verify(storage, deep=True).healthy
    run_thrice(storage, 1)
    assert of_the_query(storage) == of_the_query(maintained())


@pytest.mark.parametrize(
    ("workers", "taken"), [(1, 1), (2, 2), (3, 20), (16, 1), long(16, 20), long(1, 20)]
)
def test_a_caller_that_stops_leaves_no_thread_and_no_half_done_action(
    workers: int, taken: int
) -> None:
    storage, before = three_stores(), set(running_threads())
    plan = plan_checkpoint(storage, TIGHT)[1]
    outcomes = execute(plan, storage, run="r", workers=workers)
    found = [next(outcomes) for _ in range(taken)]
    outcomes.close()  # type: ignore[attr-defined]
    left = of_the_query(storage)
    assert before.issuperset(running_threads())
    assert {one.action.path for one in found if isinstance(one, SnapshotWritten)} <= left.keys()
    assert verify(storage, deep=True).healthy
    run_thrice(storage, 1)
    assert of_the_query(storage) == of_the_query(maintained())


@pytest.mark.parametrize("workers", WORKERS)
def test_no_store_is_begun_once_the_time_is_over(workers: int) -> None:
    storage, seconds = three_stores(), iter([0.0, 0.0, *[9.0] * 100])
    plan = plan_checkpoint(storage, replace(TIGHT, max_seconds_per_run=5))[1]
    lock = Lock()

    def elapsed() -> float:
        with lock:
            return next(seconds)

    found = list(execute(plan, storage, run="r", elapsed=elapsed, workers=workers))
    begun = {one.store for one in found if isinstance(one, SnapshotWritten)}
    assert len(begun) == 2
    assert len({one.store for one in found}) == len(plan.stores)


@pytest.mark.parametrize("workers", WORKERS)
def test_what_all_of_them_moved_to_the_trash_comes_back(workers: int) -> None:
    storage = three_stores()
    before = of_the_query(storage)
    report = maintain(storage, replace(TIGHT, trash_for=3600.0), workers=workers)
    assert report.files_deleted.total() > 100
    assert undo(storage, report.run).files == report.files_deleted.total()
    assert before.items() <= of_the_query(storage).items()


@pytest.mark.parametrize("workers", WORKERS)
def test_a_plan_is_applied_by_several(workers: int) -> None:
    storage, alone = three_stores(), three_stores()
    shown = json.dumps(plan_json(*plan_checkpoint(storage, TIGHT)))
    plan = parse_plan("plan.json", shown.encode())
    assert isinstance(plan, MaintenanceFile)
    report = apply(storage, plan, workers=workers)
    maintain(alone, TIGHT)
    assert report.snapshots_written == 2 * 15
    assert of_the_query(storage) == of_the_query(alone)


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_verify_and_doctor_find_the_same_in_the_same_order(workers: int) -> None:
    storage = three_stores()
    for partition, name in ((4, STORES[0]), (0, STORES[2]), (2, STORES[1])):
        path = f"{StoreId(0, partition, name).directory}/21.delta"
        storage.write(path, [storage.files[path][:-9]], overwrite=True)
    for deep in (False, True):
        alone, together = (verify(storage, deep=deep, workers=one) for one in (1, workers))
        assert together.findings == alone.findings
        assert together.versions_checked == alone.versions_checked
        codes = {one.code for one in alone.findings if one.damage}
        assert FindingCode.CORRUPT_FILE in codes
    found = [doctor(storage, workers=one) for one in (1, workers)]
    assert found[0].findings == found[1].findings
    assert not found[0].restarts


@pytest.mark.parametrize("make", [three_stores, rocks])
def test_a_digest_is_the_same_when_the_changes_do_not_fit_in_memory(
    make: Callable[[], MemoryStorage],
) -> None:
    storage = make()
    assert digest_stores(storage, workers=Workers(memory=1)) == digest_stores(storage)
    maintain(storage, TIGHT)
    assert digest_stores(storage, workers=Workers(3, memory=1)) == digest_stores(storage)
    storage = make()
    damaged = next(path for path in storage.files if path.endswith((".delta", ".changelog")))
    storage.write(damaged, [b"LZ4Block"], overwrite=True)
    with pytest.raises(CodecError, match=damaged):
        digest_stores(storage, workers=Workers(memory=1))


@pytest.mark.parametrize("memory", [1, 10**9])
def test_memory_changes_the_order_of_work_and_nothing_else(memory: int) -> None:
    alone, together = three_stores(), three_stores()
    maintain(alone, TIGHT, workers=1)
    maintain(together, TIGHT, workers=Workers(4, memory))
    assert of_the_query(together) == of_the_query(alone)
    assert digest_stores(together, workers=Workers(4, memory)) == digest_stores(alone)
    assert verify(together, deep=True, workers=Workers(4, memory)).healthy


class Crowded(MemoryStorage):
    """A storage that counts how many snapshots are written at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.most = self._now = 0
        self._lock = Lock()

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        """Counts the writers of snapshots."""
        one = path.endswith(".snapshot")
        with self._lock:
            self._now += one
            self.most = max(self.most, self._now)
        try:
            return super().write(path, chunks, overwrite=overwrite, like=like)
        finally:
            with self._lock:
                self._now -= one


def test_stores_that_each_exceed_the_memory_run_alone() -> None:
    storage = write_checkpoint(Crowded(), partitions=8)
    report = maintain(storage, TIGHT, workers=Workers(8, memory=1))
    assert report.snapshots_written == 16
    assert storage.most == 1


@pytest.mark.parametrize("write", [write_checkpoint, write_rocks_checkpoint])
def test_what_is_fetched_ahead_is_what_is_read(write: Any) -> None:
    near, far = MemoryStorage(clock=Clock()), HookedStorage(clock=Clock(), parallel=32)
    for storage in (near, far):
        write(storage, partitions=2)
    damaged = next(path for path in far.files if path.startswith("state/0/1/") and "7." in path)
    for deep in (False, True):
        assert verify(far, deep=deep).findings == verify(near, deep=deep).findings
    assert digest_stores(far) == digest_stores(near)
    for storage in (near, far):
        storage.write(damaged, [storage.files[damaged][:-9]], overwrite=True)
    assert doctor(far).findings == doctor(near).findings
    reports = [maintain(storage, TIGHT) for storage in (near, far)]
    assert [one.snapshots_written for one in reports] == [2, 2]
    assert reports[0].findings == reports[1].findings


@pytest.mark.parametrize("verb", [verify, doctor, digest_stores])
def test_an_interrupt_ends_reading_between_two_files_of_a_store(verb: Any) -> None:
    """A key is pressed once two stores are read; the other one goes on when all are stopped."""
    before, first_is_open = set(running_threads()), Event()

    def press(verb: str, path: str) -> None:
        if verb == "open" and path.startswith("state/0/1/"):
            assert first_is_open.wait(WAIT)
            raise KeyboardInterrupt
        if verb == "open" and path.startswith("state/0/0/"):
            first_is_open.set()
            assert reading.stopped.wait(WAIT)

    storage = write_checkpoint(HookedStorage(before=press), partitions=2)
    reading = Stoppable(storage)
    with pytest.raises(KeyboardInterrupt):
        verb(reading, workers=2)
    assert len([one for one in storage.paths("open") if one.startswith("state/0/0/")]) == 1
    assert before.issuperset(running_threads())


@pytest.mark.parametrize("workers", [1, 4])
def test_an_interrupt_ends_a_run_between_two_actions_and_the_next_goes_on(workers: int) -> None:
    storage, before = three_stores(), set(running_threads())

    def press(_outcome: object, _plan: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        maintain(storage, TIGHT, workers=workers, on_outcome=press)
    assert before.issuperset(running_threads())
    snapshots = [path for path in of_the_query(storage) if path.endswith(".snapshot")]
    assert snapshots
    assert workers > 1 or len(snapshots) == 1
    assert verify(storage, deep=True).healthy
    run_thrice(storage, 1)
    assert of_the_query(storage) == of_the_query(maintained())
