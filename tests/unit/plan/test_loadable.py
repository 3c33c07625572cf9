"""The number of versions from the floor on that a plan keeps loadable."""

from dataclasses import replace

import pytest

from statemaint.model.checkpoint import Store
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.planner import plan
from tests.support.checkpoints import NOW, checkpoint, store

POLICY = Policy(min_batches_to_retain=100)


def loadable(*stores: Store, counts: dict[int, int] | None = None) -> int:
    found = replace(checkpoint(*stores, batches=range(3, 6)), counts=counts or {})
    return plan(found, POLICY, NOW).loadable


@pytest.mark.parametrize(
    ("notation", "number"),
    [
        ("1d 2d 3d 4d 5d 6d", 6),
        ("3s 4d 5d 6d", 4),
        ("1d 2d 4s 5d 6d 7d", 5),
        ("2d 3d 4d 5d 6d", 0),
    ],
)
def test_only_versions_that_load_now_are_counted(notation: str, number: int) -> None:
    assert loadable(store(notation)) == number


def test_a_version_counts_if_it_loads_in_every_store() -> None:
    other = store("1d 2d 3d 5s 6d", StoreId(0, 1))
    assert loadable(store("2s 3d 4d 5d 6d"), other) == 4


def test_a_version_needs_no_partition_that_its_batch_does_not_have() -> None:
    """Batches up to 3 have two partitions, those since have one."""
    counts = {0: 2, 1: 2, 2: 2, 3: 2, 4: 1, 5: 1}
    left = store("1d 2d 3d 4d", StoreId(0, 1))
    assert loadable(store("1d 2d 3d 4d 5d 6d"), left, counts=counts) == 6
    assert loadable(store("1d 2d 3d 4d 5d 6d"), left) == 4
    longer = store("1d 2d 3d 4d 5d", StoreId(0, 1))
    assert loadable(store("1d 2d 3d 4d 5d 6d"), longer, counts=counts) == 6


def test_a_plan_without_a_committed_batch_keeps_no_version() -> None:
    found = plan(checkpoint(store("1d"), batches=()), POLICY, NOW)
    assert (found.loadable, found.newest_loadable) == (0, None)


@pytest.mark.parametrize(
    ("notation", "newest"),
    [
        ("1d 2d 3d 4d 5d 6d", 6),
        ("1d 2d 3d 5d 6d", 3),
        ("2d 3d 4d 5d 6d", None),
        ("1d 2d 4s 6d 7d", 4),
    ],
)
def test_the_newest_version_that_loads_may_be_below_the_floor(
    notation: str, newest: int | None
) -> None:
    other = store("1d 2d 3d 4d 5d 6d", StoreId(0, 1))
    found = checkpoint(store(notation), other, batches=range(3, 6))
    assert plan(found, Policy(min_batches_to_retain=1), NOW).newest_loadable == newest
