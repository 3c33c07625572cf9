"""Repair and rollback by several: the plan and the result of one, and an end between two moves."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from threading import Barrier
from threading import enumerate as running_threads

import pytest

from statemaint.audit import digest_stores, verify
from statemaint.audit.rebuild import Depth
from statemaint.audit.verify import verify_at
from statemaint.errors import CheckpointError, ConfigError, LeaseLostError, StorageError, Superseded
from statemaint.execute.fence import Fence
from statemaint.execute.ledger import Ledger
from statemaint.execute.trash import Trash
from statemaint.maintain import maintain, undo
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove
from statemaint.plan.recovery.repair_steps import repair_steps
from statemaint.planning import scan_checkpoint
from statemaint.recover import apply_recovery, plan_repair, plan_rollback, repair, rollback
from statemaint.recover.carry_out import Proved, Recovery, log_entries
from statemaint.recover.proofs import Proofs, store_of
from statemaint.report.plan_file import RecoveryFile, parse_plan
from statemaint.report.to_json import recovered_json, recovery_json
from statemaint.storage import MemoryStorage, ReadOnly, Without
from statemaint.workers import Workers
from tests.matrix.test_damage import cut
from tests.support.checkpoints import of_the_query, snapshot_bytes, state_at, write_checkpoint
from tests.support.faults import Clock, HookedStorage, ShakyFence, on, refuse

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
MONTH = 30 * 86_400.0
WAIT = 30
WORKERS = [2, 3, 16]
STORES = ("default", "second")


def damaged(kind: type[MemoryStorage] = MemoryStorage) -> MemoryStorage:
    """Three partitions of two stores; snapshots of four stores are bad, one more has none left."""
    found = write_checkpoint(kind(clock=Clock()), partitions=3, stores=STORES)
    for partition, name, version in (
        (0, "default", 18), (0, "default", 20), (0, "second", 20),
        (1, "default", 18), (1, "default", 19), (1, "default", 22), (2, "second", 25),
    ):  # fmt: skip
        path = f"{StoreId(0, partition, name).directory}/{version}.snapshot"
        found.write(path, [cut(snapshot_bytes(state_at(version)))])
    found.write("state/0/2/27.snapshot", [snapshot_bytes(state_at(25))])
    found.write("state/0/1/.21.delta.crc", [b"crc\0\0\0\2\0\1\2\3\4"])
    return found


@pytest.mark.parametrize("workers", WORKERS)
def test_several_plan_and_do_what_one_does_in_the_same_order(workers: int) -> None:
    alone, together = damaged(), damaged()
    plan = plan_repair(alone, workers=1)
    assert len(plan.repairs) == 8
    assert plan.unrepaired  # the checksum of which nothing shows that it is wrong
    assert recovery_json(plan_repair(together, workers=workers)) == recovery_json(plan)
    one = repair(alone, trash_for=MONTH, workers=1)
    many = repair(together, trash_for=MONTH, workers=workers)
    assert shown(many) == shown(one)
    assert [entry.path for entry in many.removed] == [entry.path for entry in one.removed]
    assert of_the_query(together) == of_the_query(alone)
    undo(together, many.run)
    undo(alone, one.run)
    assert of_the_query(together) == of_the_query(alone)


def shown(done: object) -> dict[str, object]:
    """Returns the JSON of a result, without what differs between two runs in any case."""
    found = recovered_json("", done.plan, done.removed, done.written)  # type: ignore[attr-defined]
    for one in found["written"]:
        one["attestation"] = {**one["attestation"], "time": 0}
    return found


@pytest.mark.parametrize("workers", WORKERS)
def test_several_roll_back_what_one_does_and_all_of_it_comes_back(workers: int) -> None:
    alone, together = (sound() for _ in range(2))
    before = of_the_query(together)
    plan = plan_rollback(alone, 20, workers=1)
    assert recovery_json(plan_rollback(together, 20, workers=workers)) == recovery_json(plan)
    one = rollback(alone, 20, trash_for=MONTH, workers=1)
    many = rollback(together, 20, trash_for=MONTH, workers=workers)
    assert many.removed == one.removed == plan.removes
    assert of_the_query(together) == of_the_query(alone) != before
    assert not undo(together, many.run).left
    assert of_the_query(together) == before


def sound() -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=Clock()), partitions=3, stores=STORES)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_plan_that_was_reviewed_is_carried_out_by_several(workers: int) -> None:
    to_repair, to_roll_back = damaged(), sound()
    plans = plan_repair(to_repair), plan_rollback(to_roll_back, 20)
    for storage, plan in zip((to_repair, to_roll_back), plans, strict=True):
        document = {**recovery_json(plan), "trash_for": MONTH}
        asked = parse_plan("plan.json", json.dumps(document).encode())
        assert isinstance(asked, RecoveryFile)
        done = apply_recovery(storage, asked, workers=workers)
        assert done.removed == tuple(one for one in plan.actions if isinstance(one, Remove))


# -- at the same time


def test_two_stores_are_worked_on_at_the_same_time() -> None:
    """Two files are moved at the same time, or none is."""
    meet = Barrier(2)
    storage = HookedStorage(before=on("move", "*", lambda: meet.wait(WAIT)), clock=Clock())
    write_checkpoint(storage, partitions=2)
    for partition in range(2):
        path = f"state/0/{partition}/20.snapshot"
        storage.write(path, [cut(snapshot_bytes(state_at(20)))])
    assert len(repair(storage, trash_for=MONTH, workers=2).removed) == 2


def counted(storage: MemoryStorage, read: Callable[[MemoryStorage], object]) -> Counter[str]:
    """Returns how often each file is opened."""
    counting = HookedStorage(dict(storage.files), clock=Clock())
    read(counting)
    return Counter(counting.paths("open"))


def test_reading_ahead_opens_no_delta_more_often_than_one_worker_does() -> None:
    storage = damaged()
    alone = counted(storage, lambda one: plan_repair(one, workers=1))
    together = counted(storage, lambda one: plan_repair(one, workers=3))
    deltas = {path for path in alone if path.endswith(".delta")}
    assert deltas
    assert not {path: together[path] for path in deltas if together[path] > alone[path]}


def test_the_search_takes_over_what_was_read_ahead() -> None:
    """No store's own files are opened once the look ahead is over, except to fold proofs."""
    storage = damaged()
    reading = ReadOnly(storage)
    before = verify(reading, deep=True)
    steps = repair_steps(before.checkpoint, before.findings)
    proofs = Proofs(reading, before.checkpoint, Workers(3))
    proofs.look_ahead(before, steps)
    first = {one.store: one for one in reversed(steps)}
    hidden = {path for one in first.values() for path in one.paths}

    def again(one: MemoryStorage) -> None:
        known = before.results + proofs.results
        verify_at(Without(one, hidden), Depth.ROWS, rebuilt={}, known=known)

    opened = counted(storage, again)
    assert not [path for path in opened if path.endswith((".delta", ".snapshot"))]


def test_one_worker_reads_nothing_ahead() -> None:
    reading = ReadOnly(damaged())
    before = verify(reading, deep=True)
    proofs = Proofs(reading, before.checkpoint, Workers())  # memory is worth one request at a time
    proofs.look_ahead(before, repair_steps(before.checkpoint, before.findings))
    assert not proofs.results.stores


def test_an_error_of_a_proof_ahead_is_raised_by_the_step_that_needs_it() -> None:
    storage = damaged()
    before = verify(ReadOnly(storage), deep=True)
    steps = repair_steps(before.checkpoint, before.findings)
    step = next(one for one in steps if one.store == StoreId(0, 0, "second"))
    storage.write("state/0/0/second/7.delta", [b"LZ4Block"], overwrite=True)
    proofs = Proofs(ReadOnly(storage), before.checkpoint, Workers(2))
    without = scan_checkpoint(Without(storage, step.paths))
    proofs.prove(without, [step])
    with pytest.raises(CheckpointError, match=r"7\.delta"):
        proofs.of(without, step)


def test_a_step_of_a_store_that_is_not_listed_is_superseded() -> None:
    storage = damaged()
    before = verify(storage, deep=True)
    step = repair_steps(before.checkpoint, before.findings)[0]
    others = tuple(one for one in before.checkpoint.stores if one.id != step.store)
    with pytest.raises(Superseded, match=r"state/0/0: is not listed, and a step of the repair"):
        store_of(replace(before.checkpoint, stores=others), step)


# -- an early end


def carried_out(
    storage: MemoryStorage, plan: RecoveryPlan, fence: Fence, workers: int
) -> list[str]:
    hidden = [one.path for one in plan.actions if isinstance(one, Remove)]
    proved = Proved(plan, scan_checkpoint(Without(storage, hidden)), log_entries(storage))
    trash, crew = Trash(storage, "r", MONTH), Workers.of(workers)
    recovery = Recovery(storage, proved, Ledger(storage, "r", fence), trash, crew)
    recovery.carry_out()
    return [one.path if isinstance(one, Remove) else one.action.path for one in recovery.done]


@pytest.mark.parametrize("workers", [1, *WORKERS])
@pytest.mark.parametrize("looks", [0, 1, 4, 9])
def test_a_lost_lease_stops_every_worker_between_two_moves(workers: int, looks: int) -> None:
    storage, threads = sound(), set(running_threads())
    plan = plan_rollback(storage, 20)
    with pytest.raises(LeaseLostError):
        carried_out(storage, plan, ShakyFence(looks), workers)
    assert threads.issuperset(running_threads())
    moved = {one.path for one in plan.removes} - storage.files.keys()
    assert len(moved) <= looks
    assert all(f"_statemaint/trash/r/{path}" in storage.files for path in moved)
    must_be_in_order(plan, moved)
    must_load_right_or_not_at_all(storage)
    rollback(storage, 20, trash_for=MONTH)
    assert verify(storage, deep=True).healthy


def must_be_in_order(plan: RecoveryPlan, moved: set[str]) -> None:
    """Of each store the first actions are done, and nothing of the logs before all of them."""
    by_store: dict[StoreId | None, list[bool]] = {}
    for one in plan.removes:
        by_store.setdefault(one.store, []).append(one.path in moved)
    assert all(found == sorted(found, reverse=True) for found in by_store.values())
    if any(by_store.pop(None)):
        assert all(all(found) for found in by_store.values())


def must_load_right_or_not_at_all(storage: MemoryStorage) -> None:
    """The batch that stays loads in every store; none above it loads with other rows."""
    right = sound()
    assert digest_stores(storage, version=21) == digest_stores(right, version=21)
    for version in range(22, 26):
        with suppress(ConfigError, CheckpointError):  # as Spark refuses it
            assert digest_stores(storage, version=version) == digest_stores(right, version=version)


@pytest.mark.parametrize("workers", [1, *WORKERS])
def test_no_log_is_moved_while_state_of_any_store_is_left(workers: int) -> None:
    storage = HookedStorage(before=refuse("move", "state/0/1/second/23.delta"), clock=Clock())
    write_checkpoint(storage, partitions=3, stores=STORES)
    plan, before = plan_rollback(storage, 20), of_the_query(storage)
    with pytest.raises(StorageError, match="Permission denied"):
        rollback(storage, 20, trash_for=MONTH, workers=workers)
    left = of_the_query(storage)
    must_be_in_order(plan, {one.path for one in plan.removes} - left.keys())
    must_load_right_or_not_at_all(storage)
    assert {path for path in before if not path.startswith("state/")} <= left.keys()


CHANGED = "state/0/1/second/22.delta"


@pytest.mark.parametrize("workers", [1, *WORKERS])
def test_the_moves_of_all_workers_are_counted_when_a_file_has_changed(workers: int) -> None:
    def change() -> None:
        storage.write(CHANGED, [b"another attempt"], overwrite=True)

    storage = HookedStorage(before=on("move", "*", change), clock=Clock())
    write_checkpoint(storage, partitions=3, stores=STORES)
    plan = plan_rollback(storage, 20)
    with pytest.raises(Superseded, match=r"was replaced since this was planned") as caught:
        rollback(storage, 20, trash_for=MONTH, workers=workers)
    moved = {one.path for one in plan.removes} - storage.files.keys()
    assert f"{len(moved)} files are in the trash already" in caught.value.__notes__[0]


def test_what_many_leave_is_maintained_as_ever() -> None:
    storage = damaged()
    repair(storage, trash_for=MONTH, workers=4)
    assert maintain(storage, TIGHT).snapshots_written
