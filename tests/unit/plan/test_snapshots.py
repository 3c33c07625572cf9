"""What is written beside a new snapshot, and when a new zip would have Spark delete too much."""

from dataclasses import replace

import pytest

from statemaint.model.checkpoint import Store
from statemaint.model.policy import Policy
from statemaint.plan.actions import Window, Withheld, WriteSnapshot
from statemaint.plan.facts import Facts, gather
from statemaint.plan.reasons import SnapshotReason
from statemaint.plan.snapshots import due, snapshots_due
from statemaint.plan.staleness import Judgement
from tests.support.checkpoints import NOW, STORE, store, versions
from tests.support.rocks import rocks_store

POLICY = Policy(min_deltas_for_snapshot=1, grace=0, rebase=False)


def facts(one: Store, target: int) -> Facts:
    window = Window(1, 1, target, target, NOW, POLICY)
    return gather(one, window, judgement=Judgement(), versions=one.versions, floor=1)


def written(one: Store, target: int) -> WriteSnapshot:
    (found,) = snapshots_due(facts(one, target))
    assert isinstance(found, WriteSnapshot)
    return found


@pytest.mark.parametrize(
    ("notation", "checksum"),
    [("1d 2d 3d x:3.delta.crc", True), ("1d 2d 3d x:2.delta.crc", False), ("1d 2d 3d", False)],
)
def test_a_snapshot_has_a_checksum_file_where_the_newest_change_has_one(
    notation: str, *, checksum: bool
) -> None:
    assert written(store(notation), 3).checksum is checksum


def test_a_limit_of_the_restart_makes_a_chain_due_at_the_floor_only_without_a_base() -> None:
    reason = SnapshotReason.RESTART_TOO_LONG
    policy = replace(POLICY, min_deltas_for_snapshot=100, rebase=True)
    window = Window(3, 3, 5, 5, NOW, policy, snapshots_from=0.0)
    for notation, rebased in (("1s 2d 3d 4d 5d", []), ("1d 2d 3d 4d 5d", [3])):
        one = store(notation)
        found = [(why, chain.version) for why, chain in due(one, one.versions, window, 3)]
        rebases = [(SnapshotReason.REBASE, version) for version in rebased]
        assert found == [(reason, 5), *rebases]


def test_a_zip_of_the_target_shares_the_tables_of_the_newest_one() -> None:
    one = rocks_store(f"2z:a {versions('c', 3, 40)} sa", written=["2.zip"], since=1)
    assert written(one, 40).reuse


def test_the_families_of_a_zip_are_never_those_of_a_stale_one() -> None:
    one = rocks_store("1c 2c 2z 3c 3z 4c", written=["2.zip", "3.zip"], since=1)
    counting = one.versions.without({f"{STORE.directory}/3.zip"})
    (found,) = snapshots_due(replace(facts(one, 4), versions=counting))
    assert isinstance(found, WriteSnapshot)
    assert found.families == counting.base(4) != one.versions.base(4)


def test_only_a_zip_has_families() -> None:
    rocks = rocks_store("1c 2c 2z 3c 4c", written=["2.zip"], since=1)
    assert written(rocks, 4).families == rocks.versions.base(4)
    assert written(store("1d 2d 2s 3d 4d"), 4).families is None


def test_a_zip_that_the_first_batch_had_to_write_shows_no_habit() -> None:
    found = facts(rocks_store("1c 1z 2c 3c", since=1), 3)
    assert [type(one) for one in snapshots_due(found)] == [Withheld]
    forced = replace(found, window=replace(found.window, forced=frozenset({0})))
    assert [type(one) for one in snapshots_due(forced)] == [WriteSnapshot]
