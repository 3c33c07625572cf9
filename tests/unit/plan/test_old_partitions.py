"""A partition that a repartition left behind goes as a whole, once no restart can ask for it."""

from dataclasses import replace

import pytest

from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.actions import Delete, Window
from statemaint.plan.store import decide_old
from tests.support.checkpoints import NOW, store

LEFT = StoreId(0, 3)
POLICY = Policy(grace=0, orphan_age=100)
NOTATION = "1d 2d 2c 2s 3t x:foo"


def repartitioned(*batches: int) -> Checkpoint:
    """Returns a checkpoint of four partitions up to batch 1, and of two since."""
    counts = {batch: 4 if batch < 2 else 2 for batch in range(9)}
    return Checkpoint("memory:", batches=batches, counts=counts)


def window(floor: int = 5, *, skewed: bool = False, verify: bool = True) -> Window:
    return Window(floor, floor, 8, 8, NOW, replace(POLICY, verify=verify), skewed=skewed)


def decided(
    one: Store, *batches: int, at: Window | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the reasons of what goes and of what stays."""
    plan = decide_old(one, repartitioned(*batches), at or window(), ())
    gone = {
        action.entry.name: action.reason.value
        for action in plan.actions
        if isinstance(action, Delete)
    }
    return gone, {kept.entry.name: kept.reason.value for kept in plan.kept}


@pytest.mark.parametrize(("target", "old"), [(2, False), (3, True), (8, True)])
def test_a_partition_is_old_from_the_first_batch_that_does_not_have_it(
    target: int, *, old: bool
) -> None:
    assert repartitioned(1, 2).asks(LEFT, target) is not old


def test_all_of_it_goes_except_unknown_files() -> None:
    gone, kept = decided(store(NOTATION, LEFT), 4, 5, 6, 7)
    assert [*gone] == [
        "1.delta", ".2.delta.crc", "2.delta", "2.snapshot", *(one for one in gone if ".tmp" in one)
    ]  # fmt: skip
    assert gone.pop(".2.delta.crc") == "orphan_side_file"
    assert set(gone.values()) == {"old_partition"}
    assert kept == {"foo": "unknown_file"}


def test_a_young_file_stays() -> None:
    gone, kept = decided(store("1d@100 2d@99", LEFT), 4, 5)
    assert (gone, kept) == ({"1.delta": "old_partition"}, {"2.delta": "orphan_too_young"})


@pytest.mark.parametrize(
    ("notation", "batches", "at", "reason"),
    [
        ("1d 2d", (1, 2, 3), window(), "partition_of_older_batches"),
        ("1d 5d", (4, 5), window(), "partition_of_older_batches"),
        ("1d 6d", (4, 5), window(), "partition_of_older_batches"),
        ("1d 2d", (4, 5), window(2), "partition_of_older_batches"),
        ("1d 2d", (4, 5), window(verify=False), "verify_off"),
        ("1d 2d", (4, 5), window(skewed=True), "clock_skew"),
    ],
    ids=[
        "a batch asks",
        "at the floor",
        "above it",
        "pinned",
        "no verification",
        "clocks disagree",
    ],
)
def test_an_old_partition_stays_whole_while_a_restart_may_ask_for_it(
    notation: str, batches: tuple[int, ...], at: Window, reason: str
) -> None:
    gone, kept = decided(store(notation, LEFT), *batches, at=at)
    assert gone == {}
    assert set(kept.values()) == {reason}


def test_without_any_version_it_goes_above_the_first_floor() -> None:
    side = store("2c", LEFT)
    assert decided(side, 4, 5)[0] == {".2.delta.crc": "orphan_side_file"}
    assert decided(side, 4, 5, at=window(1))[0] == {".2.delta.crc": "orphan_side_file"}


def test_damage_halts_it() -> None:
    damage = Finding(FindingCode.CORRUPT_FILE, "detail", LEFT)
    plan = decide_old(store("1d", LEFT), repartitioned(4), window(), (damage,))
    assert (plan.actions, plan.halted) == ((), True)
