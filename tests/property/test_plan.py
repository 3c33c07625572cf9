"""The seven properties of the planner, on any listing."""

import random
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, UnknownFile
from statemaint.model.ids import StoreId
from statemaint.model.pins import Pin
from statemaint.model.policy import Policy
from statemaint.plan.actions import Delete, Plan, Request
from statemaint.plan.planner import plan
from statemaint.plan.reasons import DeleteReason, KeepReason
from statemaint.report.to_json import plan_json
from tests.support.checkpoints import NOW, checkpoint, store
from tests.support.simulate import after, unexplained

LAST = 14
AGES = st.sampled_from([0, 10, 100, 10**9])


@st.composite
def notations(draw: st.DrawFn) -> str:
    tokens = []
    gap = draw(st.integers(0, LAST)) if draw(st.booleans()) else None
    first = draw(st.integers(1, LAST))
    for version in range(1, LAST + 3):
        if version >= first and version != gap:
            tokens.append(f"{version}d@{draw(AGES)}")
        for kind, often in (("s", 4), ("c", 3), ("k", 8), ("t", 8)):
            if draw(st.integers(0, often)) == 0:
                tokens.append(f"{version}{kind}@{draw(AGES)}")
    if draw(st.booleans()):
        tokens.append("x:foo.bar")
    return " ".join(tokens)


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    stores = [store(draw(notations()), StoreId(0, part)) for part in range(draw(st.integers(1, 2)))]
    committed = draw(st.integers(0, LAST - 1))
    oldest = draw(st.integers(0, committed))
    return checkpoint(*stores, batches=range(oldest, committed + 1))


POLICIES = st.builds(
    Policy,
    min_deltas_for_snapshot=st.integers(1, 6),
    min_batches_to_retain=st.integers(1, LAST),
    grace=st.sampled_from([0, 50]),
    orphan_age=st.sampled_from([0, 50]),
    rebase=st.booleans(),
    verify=st.sampled_from([True, True, False]),
)
REQUESTS = st.builds(Request, force_snapshot=st.booleans())


def retained(seen: Checkpoint, decided: Plan, stored: Store) -> frozenset[int]:
    assert decided.floor is not None
    assert seen.target is not None
    return Versions.of(stored.files).loadable(decided.floor, seen.target)


@given(checkpoints(), POLICIES, REQUESTS)
def test_1_kept_and_deleted_partition_the_listing(
    seen: Checkpoint, policy: Policy, request: Request
) -> None:
    decided = plan(seen, policy, NOW, request=request)
    for one in decided.stores:
        deleted = [step.entry for step in one.actions if isinstance(step, Delete)]
        kept = [step.entry for step in one.kept]
        assert sorted(deleted + kept) == sorted(file.entry for file in one.store.files)
        unknown = {file.entry for file in one.store.files if isinstance(file, UnknownFile)}
        assert not unknown & set(deleted)


@given(checkpoints(), POLICIES, REQUESTS)
def test_2_and_3_every_prefix_keeps_every_retained_version_loadable(
    seen: Checkpoint, policy: Policy, request: Request
) -> None:
    decided = plan(seen, policy, NOW, request=request)
    before = {one.id: retained(seen, decided, one) for one in seen.stores}
    for length in range(len(decided.actions) + 1):
        now = after(seen, decided.actions[:length], NOW)
        assert {one.id: retained(seen, decided, one) >= before[one.id] for one in now.stores} == {
            one.id: True for one in now.stores
        }


@given(checkpoints(), POLICIES, REQUESTS)
def test_3b_no_change_that_a_retained_version_needs_is_ever_only_in_a_snapshot(
    seen: Checkpoint, policy: Policy, request: Request
) -> None:
    decided = plan(seen, policy, NOW, request=request)
    assert decided.floor is not None
    deltas = {
        file.entry
        for one in seen.stores
        for file in one.files
        if isinstance(file, Delta) and file.version >= decided.floor
    }
    assert not deltas & {one.entry for one in decided.actions if isinstance(one, Delete)}


@given(checkpoints(), POLICIES, REQUESTS)
def test_s4_no_young_snapshot_is_relied_on(
    seen: Checkpoint, policy: Policy, request: Request
) -> None:
    policy = replace(policy, grace=50)
    decided = plan(seen, policy, NOW, request=request)
    trusted_before = {one.id: retained(seen, decided, _aged(one)) for one in seen.stores}
    for one in after(seen, decided.actions, NOW).stores:
        assert retained(seen, decided, _aged(one)) >= trusted_before[one.id]


def _aged(stored: Store) -> Store:
    """Returns the store as one sees it who listed it 50 seconds ago."""
    then = NOW - 50
    seen = (file for file in stored.files if (file.entry.modified or 0) <= then)
    deltas = (file for file in stored.files if isinstance(file, Delta))
    return replace(stored, files=tuple({*seen, *deltas}))


@given(checkpoints(), POLICIES, REQUESTS)
def test_4_planning_again_on_the_result_is_empty(
    seen: Checkpoint, policy: Policy, request: Request
) -> None:
    decided = plan(seen, policy, NOW, request=request)
    again = plan(after(seen, decided.actions, NOW), policy, NOW, request=request)
    assert again.actions == ()


@given(checkpoints(), POLICIES, st.integers())
def test_5_the_order_of_the_listing_does_not_matter(
    seen: Checkpoint, policy: Policy, seed: int
) -> None:
    shuffled = tuple(
        replace(one, files=tuple(random.Random(seed).sample(one.files, len(one.files))))  # noqa: S311
        for one in reversed(seen.stores)
    )
    mixed = replace(seen, stores=shuffled)
    ordered = plan(seen, policy, NOW)
    assert plan_json(seen, ordered) == {
        **plan_json(seen, plan(mixed, policy, NOW)),
    }


@given(checkpoints(), POLICIES, st.integers(1, LAST))
def test_6_more_retention_never_deletes_more(seen: Checkpoint, policy: Policy, more: int) -> None:
    longer = replace(policy, min_batches_to_retain=policy.min_batches_to_retain + more)
    assert deleted(plan(seen, longer, NOW)) <= deleted(plan(seen, policy, NOW))


def deleted(decided: Plan) -> set[str]:
    reasons = (DeleteReason.BELOW_BASE, DeleteReason.SIDE_FILE)
    found = (one for one in decided.actions if isinstance(one, Delete))
    return {one.path for one in found if one.reason in reasons}


@given(checkpoints(), POLICIES, REQUESTS)
def test_7_every_file_has_a_reason_of_the_closed_set(
    seen: Checkpoint, policy: Policy, request: Request
) -> None:
    decided = plan(seen, policy, NOW, request=request)
    for one in decided.stores:
        assert all(isinstance(step.reason, KeepReason) for step in one.kept)
        deletes = (step for step in one.actions if isinstance(step, Delete))
        assert all(isinstance(step.reason, DeleteReason) for step in deletes)


@given(checkpoints(), POLICIES, REQUESTS)
def test_8_every_long_chain_gets_a_snapshot_or_a_reason(
    seen: Checkpoint, policy: Policy, request: Request
) -> None:
    assert unexplained(plan(seen, policy, NOW, request=request)) == []


PINS = st.lists(
    st.builds(
        Pin,
        st.just("_statemaint/pins/x.json"),
        st.one_of(st.none(), st.integers(0, LAST + 2)),
        st.just(NOW - 9.0),
        st.just(NOW + 9.0),
        st.just("test"),
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@given(checkpoints(), POLICIES, REQUESTS, PINS)
def test_no_plan_deletes_what_a_pinned_version_needs(
    seen: Checkpoint, policy: Policy, request: Request, pins: tuple[Pin, ...]
) -> None:
    """Whatever prefix of it is carried out, and every version above it keeps loading as well."""
    decided = plan(replace(seen, pins=pins), policy, NOW, request=request)
    assert seen.target is not None
    lowest = min(pin.version for pin in pins)
    before = {one.id: Versions.of(one.files).loadable(lowest, seen.target) for one in seen.stores}
    for length in range(len(decided.actions) + 1):
        for one in after(seen, decided.actions[:length], NOW).stores:
            assert Versions.of(one.files).loadable(lowest, seen.target) >= before[one.id]


@given(checkpoints(), POLICIES, REQUESTS, PINS)
def test_a_pin_never_makes_a_plan_delete_more(
    seen: Checkpoint, policy: Policy, request: Request, pins: tuple[Pin, ...]
) -> None:
    pinned = plan(replace(seen, pins=pins), policy, NOW, request=request)
    assert deleted(pinned) <= deleted(plan(seen, policy, NOW, request=request))


@given(checkpoints(), POLICIES, REQUESTS, PINS)
def test_a_pin_that_has_ended_changes_nothing(
    seen: Checkpoint, policy: Policy, request: Request, pins: tuple[Pin, ...]
) -> None:
    ended = tuple(replace(pin, until=NOW) for pin in pins)
    pinned = plan(replace(seen, pins=ended), policy, NOW, request=request)
    assert pinned == plan(seen, policy, NOW, request=request)


@given(checkpoints(), POLICIES, st.integers(0, 8))
def test_limited_runs_add_up_to_an_unlimited_one(
    seen: Checkpoint, policy: Policy, most: int
) -> None:
    assume(most > 0)
    whole = after(seen, plan(seen, policy, NOW).actions, NOW)
    limited, now = replace(policy, max_deletes_per_run=most), seen
    for _ in range(100):
        actions = plan(now, limited, NOW).actions
        if not actions:
            break
        now = after(now, actions, NOW)
    assert [sorted(one.files, key=str) for one in now.stores] == [
        sorted(one.files, key=str) for one in whole.stores
    ]
