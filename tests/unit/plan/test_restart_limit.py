"""Snapshots under `restart_within`: none before the forecast passes it, then the slowest first."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.model.restart_time import (
    RECORD_SIZE,
    Forecast,
    after_snapshot,
    replay_of_chain,
    replay_seconds,
)
from statemaint.plan.actions import Request, WriteSnapshot
from statemaint.plan.planner import plan
from statemaint.plan.reasons import SnapshotReason
from statemaint.plan.snapshots import BY_LENGTH, NEVER, snapshots_from
from tests.support.checkpoints import NOW, checkpoint, store, versions

DELTAS = 40


def _made(partition: int, base: int, deltas: int, size: int) -> Store:
    return _sized(store(f"1s {versions('d', 2, deltas + 1)}", StoreId(0, partition)), base, size)


def _sized(of: Store, base: int, size: int = 0) -> Store:
    files = (
        replace(it, entry=replace(it.entry, size=size if isinstance(it, Delta) else base))
        for it in of.files
    )
    return replace(of, files=tuple(files))


def _checkpoint(*sizes: int) -> Checkpoint:
    """Returns one with a store for each size of its 40 deltas, after a snapshot of a row."""
    stores = [_made(partition, 40, DELTAS, size) for partition, size in enumerate(sizes)]
    return checkpoint(*stores, batches=range(DELTAS + 1))


def _high(of: Checkpoint) -> float:
    forecast = Forecast.of(of)
    return forecast.seconds(forecast.load(of.stores, of.target)).high


def _written(of: Checkpoint, policy: Policy, request: Request | None = None) -> dict[int, str]:
    actions = plan(of, policy, NOW, request=request).actions
    return {
        action.store.partition: action.reason.value
        for action in actions
        if isinstance(action, WriteSnapshot) and action.version == DELTAS + 1
    }


def test_no_chain_is_due_while_the_forecast_is_within_the_limit() -> None:
    seen = _checkpoint(400_000, 400_000)
    for each in (seen, replace(seen, record_size=400.0)):
        assert _written(each, Policy(restart_within=_high(each))) == {}
    assert _written(seen, Policy()) == {0: "chain_too_long", 1: "chain_too_long"}


def test_every_chain_is_due_when_stores_that_are_alike_pass_the_limit() -> None:
    seen = _checkpoint(4_000_000, 4_000_000)
    written = _written(seen, Policy(restart_within=_high(seen) - 0.01))
    assert written == dict.fromkeys((0, 1), SnapshotReason.RESTART_TOO_LONG.value)


def test_a_chain_below_the_length_of_the_policy_is_due_past_the_limit() -> None:
    seen = _checkpoint(40_000_000)
    policy = Policy(restart_within=_high(seen) - 0.01, min_deltas_for_snapshot=10_000)
    assert _written(seen, policy) == {0: "restart_too_long"}


def test_only_the_slowest_chains_are_due_where_they_are_enough() -> None:
    seen = _checkpoint(400, 20_000_000, 400, 400)
    assert _written(seen, Policy(restart_within=_high(seen) - 0.01)) == {1: "restart_too_long"}
    two = _checkpoint(400, 20_000_000, 19_000_000, 400)
    assert [*_written(two, Policy(restart_within=_high(two) - 0.01))] == [1, 2]


def test_a_limit_that_no_snapshot_keeps_leaves_the_decision_to_the_length() -> None:
    seen = _checkpoint(400, 400)
    assert snapshots_from(seen, seen.stores, Policy(restart_within=0.5), 41) == BY_LENGTH
    assert _written(seen, Policy(restart_within=0.5)) == dict.fromkeys((0, 1), "chain_too_long")


def test_more_slots_keep_a_limit_for_longer() -> None:
    seen = _checkpoint(*[4_000_000] * 8)
    limit = _high(seen) - 0.01
    few = Policy(restart_within=limit, restart_slots=4)
    assert snapshots_from(seen, seen.stores, few, 41) != NEVER
    assert snapshots_from(seen, seen.stores, replace(few, restart_slots=8), 41) == NEVER


def test_a_task_follows_the_plan_that_saw_every_store() -> None:
    """Each store alone would restart within the limit."""
    seen = _checkpoint(400, *[4_000_000] * 8)
    policy = Policy(restart_within=_high(seen) - 0.01)
    cut = plan(seen, policy, NOW).snapshots_from
    tasks = [Request(partitions=frozenset({each}), snapshots_from=cut) for each in range(9)]
    written = [
        _written(replace(seen, stores=seen.stores[each : each + 1]), policy, tasks[each])
        for each in range(9)
    ]
    assert written == [{}, *({each: "restart_too_long"} for each in range(1, 9))]


def test_no_floor_snapshot_is_written_where_the_chain_has_a_base() -> None:
    seen = _checkpoint(40_000_000)
    policy = Policy(restart_within=_high(seen) - 0.01, min_batches_to_retain=1)
    seen = replace(seen, batches=seen.batches[-10:])
    writes = [
        action for action in plan(seen, policy, NOW).actions if isinstance(action, WriteSnapshot)
    ]
    assert [write.version for write in writes] == [DELTAS + 1]


# The bytes of a store's snapshot, and of each of its deltas.
_SIZES = st.tuples(
    st.sampled_from((40, 400, 40_000, 4_000_000)),
    st.sampled_from((100, 4_000, 400_000, 40_000_000)),
)


def _snapshotted(of: Store, version: int) -> Store:
    after = after_snapshot(replay_of_chain(of, _chain(of, version)), RECORD_SIZE)
    return _sized(store(f"{version}s", of.id), after.snapshot_bytes)


def _chain(of: Store, version: int) -> Chain:
    chain = of.versions.chain(version)
    assert isinstance(chain, Chain)
    return chain


@example(shapes=[(40, 4_000)], deltas=4, share=0.0, slots=1)
@given(
    shapes=st.lists(_SIZES, min_size=1, max_size=8),
    deltas=st.integers(1, 12),
    share=st.floats(-0.1, 1.1),
    slots=st.integers(1, 4),
)
def test_what_is_due_keeps_the_limit_and_nothing_is_due_again(
    shapes: list[tuple[int, int]], deltas: int, share: float, slots: int
) -> None:
    stores = [_made(part, base, deltas, size) for part, (base, size) in enumerate(shapes)]
    target = deltas + 1
    seen = checkpoint(*stores, batches=range(target))
    forecast = Forecast.of(seen, slots)
    now, least = (
        forecast.seconds(load).high
        for load in (forecast.load(stores, target), forecast.least(stores, target))
    )
    limit = least + share * (now - least)
    policy = Policy(restart_within=limit, restart_slots=slots)
    cut = snapshots_from(seen, stores, policy, target)
    due = {it.id for it in stores if replay_seconds(it, _chain(it, target)) >= cut}
    after = [_snapshotted(it, target) if it.id in due else it for it in stores]
    if now <= limit:
        assert cut == NEVER
    elif least > limit:
        assert cut == BY_LENGTH
    else:
        assert due
        assert cut != BY_LENGTH
        assert forecast.seconds(forecast.load(after, target)).high <= limit
        assert snapshots_from(replace(seen, stores=tuple(after)), after, policy, target) == NEVER
