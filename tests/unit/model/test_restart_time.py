"""The forecast of a restart's time: what is counted, and the range that follows."""

from dataclasses import replace

import pytest

from statemaint.model.checkpoint import Operator, Provider
from statemaint.model.proof import Attestation
from statemaint.model.restart_costs import COSTS, Costs, Replay, costs_of
from statemaint.model.restart_time import (
    Load,
    Seconds,
    after_snapshot,
    latency_of,
    record_size,
    replay_of,
    spark_of,
)
from tests.support.checkpoints import checkpoint, store

COSTS_OF_TEST = Costs(
    start=2.0,
    stores=0.5,
    snapshot_files=0.0,
    snapshot_bytes=0.0,
    snapshot_records=0.25,
    change_files=0.1,
    change_bytes=0.0,
    change_records=0.5,
    error=0.25,
)


def test_slots_share_the_stores_but_never_one_store() -> None:
    work = Replay(stores=1, change_files=5)  # one second
    even, alone = Load.of([work] * 8), Load.of([work])
    assert even.seconds(COSTS_OF_TEST, 4) == Seconds(4 / 1.25, 4 * 1.25)
    assert even.seconds(COSTS_OF_TEST, 1) == Seconds(10 / 1.25, 10 * 1.25)
    assert alone.seconds(COSTS_OF_TEST, 4) == Seconds(3 / 1.25, 3 * 1.25)


def test_loads_of_parts_add_up_to_the_load_of_all() -> None:
    works = [Replay(1, 1, 9, 4, number, 10 * number, number) for number in (3, 9, 5, 1)]
    assert Load.of(works[:2]) + Load.of(works[2:]) == Load.of(works)
    assert Load.of(works).largest == works[1]


def test_a_range_is_at_most_a_factor_of_two_wide() -> None:
    unsure = replace(COSTS_OF_TEST, error=9.0)
    seconds = Load.of([Replay(stores=4)]).seconds(unsure, 1)
    assert seconds.high / seconds.low == pytest.approx(2.0)


def test_far_storage_adds_the_latency_of_the_requests_that_spark_sends() -> None:
    load = Load.of([Replay(stores=1, snapshot_files=1, change_files=9)])
    near, far = (load.seconds(COSTS_OF_TEST, 1, latency) for latency in (0.0, 0.01))
    assert far.high - near.high == pytest.approx(0.01 * (30 + 8 + 3 * 10) * 1.25)


@pytest.mark.parametrize(
    ("root", "far"),
    [("/data/q", False), ("file:///q", False), ("hdfs://nn/q", False), ("s3://b/q", True)],
)
def test_only_object_storage_is_far(root: str, *, far: bool) -> None:
    assert (latency_of(root) > 0) is far


def test_a_restart_reads_the_snapshot_below_and_the_changes_above_it() -> None:
    of_store = store("1d 2d 3s 4d 5d 6d")
    size = of_store.files[0].entry.size
    work = replay_of(of_store, 5, record=size / 2)
    assert work == Replay(1, 1, size, 2, 2, 2 * size, 4)


def test_a_store_that_does_not_load_is_no_work() -> None:
    assert replay_of(store("3d 4d"), 4) is None
    assert replay_of(store("1d"), None) is None


def test_a_proved_snapshot_says_how_many_rows_it_has() -> None:
    of_store = store("1d 2s 3d")
    snapshot = of_store.files[1].entry
    proof = Attestation(snapshot.path, 2, snapshot.size, snapshot.modified, "", 5, 0)
    proved = replace(of_store, attestations=(proof,))
    work = replay_of(proved, 3, record=1)
    assert work
    assert work.snapshot_records == 5
    assert record_size([proved]) == snapshot.size / 5
    assert record_size([of_store]) is None


def test_a_snapshot_leaves_no_changes_to_read() -> None:
    after = after_snapshot(Replay(1, 1, 400, 10, 7, 900, 21), record=40)
    assert after == Replay(1, 1, 400, 10)
    assert after_snapshot(after, record=40) is after


def test_an_unknown_spark_takes_the_costs_of_the_nearest_measured_one() -> None:
    assert costs_of(Provider.ROCKSDB, "3.3.4") is costs_of(Provider.ROCKSDB, "3.5.9")
    assert costs_of(Provider.ROCKSDB, "3.5-amzn-1") is costs_of(Provider.ROCKSDB, "3.5.9")
    assert costs_of(Provider.ROCKSDB, "4.1.0-preview1") is costs_of(Provider.ROCKSDB, "4.3.0")
    assert costs_of(Provider.ROCKSDB, "of our own") is costs_of(Provider.ROCKSDB, "4.3.0")
    assert costs_of(Provider.ROCKSDB, "5.0") is costs_of(Provider.ROCKSDB, "4.3.0")
    assert costs_of(Provider.UNKNOWN, "4.3.0") is costs_of(Provider.HDFS_BACKED, "4.3.0")


def test_every_measured_restart_is_there_warm_and_cold() -> None:
    assert {(key.spark, key.warm) for key in COSTS} == {
        (spark, warm) for spark in ("3.5.9", "4.3.0") for warm in (True, False)
    }
    assert all(min(costs.start, costs.stores) >= 0 for costs in COSTS.values())


def test_metadata_of_operators_tells_spark_4_from_3() -> None:
    old = checkpoint(store("1d"), batches=[0])
    assert spark_of(old) == "3.5.9"
    new = replace(old, operators=(Operator(0, "stateStoreSave", ("default",), 1),))
    assert spark_of(new) == "4.3.0"


def test_a_range_reads_as_seconds() -> None:
    assert str(Seconds(3.94, 6.04)) == "3.9 to 6.0 s"
    assert str(Seconds(61.4, 99.7)) == "61 to 100 s"
