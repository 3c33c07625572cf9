"""Which snapshots are compared before anything else, and where deletion ends: step by step."""

from dataclasses import replace

import pytest

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.model.policy import Policy, Value
from statemaint.plan.actions import Window, WriteSnapshot
from statemaint.plan.facts import Boundary, Facts, boundary_of, gather
from statemaint.plan.reasons import SnapshotReason
from statemaint.plan.snapshots import comparisons
from statemaint.plan.staleness import Judgement
from tests.support.checkpoints import NOW, STORE, files, store
from tests.support.rocks import rocks_store

HOME = STORE.directory


def facts(
    one: Store, *, floor: int = 6, target: int = 10, required: int = 6, **policy: Value
) -> Facts:
    found = Policy(grace=0).override(**policy)
    window = Window(floor, required, target, target, NOW, found)
    return gather(one, window, judgement=Judgement(), versions=one.versions, floor=floor)


def written(notation: str, *names: int, since: int | None = None) -> Store:
    paths = tuple(f"{HOME}/{one}.snapshot" for one in names)
    return replace(store(notation), written=paths, since=since)


def write(one: Store, version: int) -> WriteSnapshot:
    chain = one.versions.chain(version)
    assert isinstance(chain, Chain)
    path = f"{HOME}/{version}.snapshot"
    return WriteSnapshot(STORE, path, chain, SnapshotReason.CHAIN_TOO_LONG)


def snapshot(notation: str) -> Snapshot:
    (found,) = files(notation)
    assert isinstance(found, Snapshot)
    return found


DELTAS = "1d 2d 3d 4d 5d 6d 7d 8d 9d 10d"


# -- our own snapshots without a proof


def compared(one: Store, *versions: int, **how: object) -> list[int]:
    writes = [write(one, version) for version in versions]
    return [at.version for at in comparisons(facts(one, **how), writes)]  # type: ignore[arg-type]


def test_ours_that_a_restart_may_begin_with_are_compared() -> None:
    one = written(f"{DELTAS} 3s 5s 7s 10s 11d 11s", 3, 5, 7, 10, 11)
    assert compared(one) == [5, 7, 10]
    assert compared(one, verify=False) == []


def test_without_a_snapshot_below_the_window_all_in_it_are_compared() -> None:
    assert compared(written(f"{DELTAS} 7s", 7)) == [7]
    assert compared(written("1d 1s 2d", 1), floor=1, target=2, required=1) == [1]


def test_of_those_from_before_our_first_write_only_the_newest_is_compared() -> None:
    notation = f"{DELTAS} 5s 7s 8s 9s"
    assert compared(written(notation, 5, 7, 8, 9, since=10)) == [9]
    assert compared(written(notation, 5, 7, 8, 9, since=8)) == [8, 9]
    assert compared(written(notation, 5, 7, 8, 9, since=9)) == [9]
    assert compared(written(notation, 5, 7, 8, 9, since=0)) == [5, 7, 8, 9]


def test_those_of_executors_are_not() -> None:
    assert compared(written(f"{DELTAS} 7s 9s", 7)) == [7]
    assert compared(store(f"{DELTAS} 7s 9s")) == []


def test_of_rocksdb_the_listing_itself_says_which_are_ours() -> None:
    one = rocks_store("1c 2c 3c 4c 5c 6c 7c 7z 8c 9c 9z 10c", written=["7.zip"], since=10)
    assert compared(one) == [7]
    assert compared(replace(one, written=())) == [7]


def test_what_a_fold_leads_past_is_compared_wherever_it_is() -> None:
    one = written(f"{DELTAS} 2s 4s", 2, 4)
    past = replace(write(one, 10), chain=replace(write(one, 10).chain, base=None))
    # The newest at or below the window is where a restart may begin.
    assert [at.version for at in comparisons(facts(one), [past])] == [2, 4]
    assert compared(one, 10) == [4]


def test_the_ends_of_a_fold_are_not_passed_over() -> None:
    one = written(f"{DELTAS} 2s 4s 5s", 2, 4, 5)
    over = write(written(f"{DELTAS} 2s", 2), 4)
    assert over.chain.start == 2
    assert [at.version for at in comparisons(facts(one), [over])] == [5]
    further = write(written(f"{DELTAS} 2s", 2), 5)
    assert [at.version for at in comparisons(facts(one), [further])] == [4, 5]


# -- where deletion ends


@pytest.mark.parametrize(
    ("notation", "writes", "grace", "expected"),
    [
        (DELTAS, (), 0, (None, 0, 0)),
        (f"{DELTAS} 4s 6s 7s", (), 0, (6, 6, 6)),
        (f"{DELTAS} 4s", (6,), 0, (6, 6, 6)),
        (f"{DELTAS} 4s", (7,), 0, (4, 4, 4)),
        (f"{DELTAS} 4s 5s@50", (), 60, (4, 4, 5)),
        (f"{DELTAS} 4s", (6,), 60, (4, 4, 6)),
        (DELTAS, (6,), 60, (None, 0, 6)),
    ],
)
def test_deletion_ends_at_the_newest_snapshot_that_is_old_enough(
    notation: str, writes: tuple[int, ...], grace: float, expected: tuple[int | None, int, int]
) -> None:
    one = store(notation)
    found = boundary_of(facts(one, grace=grace), [write(one, version) for version in writes])
    version = found.base.version if found.base else None
    assert (version, found.cut, found.eventual) == expected


def test_a_base_above_the_policys_floor_does_not_move_the_boundary() -> None:
    one = store("4d 5d 6d 7d 8s 9d 10d")
    window = Window(6, 6, 10, 10, NOW, Policy(grace=0))
    found = gather(one, window, judgement=Judgement(), versions=one.versions, floor=8)
    assert boundary_of(found, ()) == Boundary(snapshot("8s"), 6, 6)


def test_a_snapshot_that_is_yet_to_be_written_is_a_base_of_no_size() -> None:
    one = store(DELTAS)
    path = f"{HOME}/6.snapshot"
    expected = Boundary(Snapshot(6, Entry(path, 0, None)), 6, 6)
    assert boundary_of(facts(one), [write(one, 6)]) == expected
