"""The forecast of a restart's time: what is counted, and the range that follows."""

from dataclasses import replace

import pytest

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Operator, Provider
from statemaint.model.proof import Attestation, FileRecord
from statemaint.model.restart_costs import COSTS, Costs, Replay, Restart, costs_of
from statemaint.model.restart_time import (
    Forecast,
    Load,
    Seconds,
    after_snapshot,
    latency_of,
    load_seconds,
    record_size,
    replay_of,
    replay_seconds,
    spark_of,
)
from tests.support.checkpoints import checkpoint, store
from tests.support.rocks import rocks_store

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
    assert even.parts(COSTS_OF_TEST, 4) == (2.0, 1.0, 2.0)


def test_loads_of_parts_add_up_to_the_load_of_all() -> None:
    works = [Replay(1, 1, 9, 4, number, 10 * number, number) for number in (3, 9, 5, 1)]
    assert Load.of(works[:2]) + Load.of(works[2:]) == Load.of(works)
    assert Load.of(works).largest == works[1]
    of_files = [Replay(1, 1, 9, 4, number, 30, 3) for number in (1, 3)]
    assert Load.of(of_files).largest == of_files[1]


def test_a_range_is_at_most_a_factor_of_two_wide() -> None:
    unsure = replace(COSTS_OF_TEST, error=9.0)
    seconds = Load.of([Replay(stores=4)]).seconds(unsure, 1)
    assert seconds.high / seconds.low == pytest.approx(2.0)


@pytest.mark.parametrize(("stores", "slots"), [(1, 2), (2, 1)], ids=["one store", "one slot"])
def test_far_storage_adds_the_latency_of_the_requests_that_spark_sends(
    stores: int, slots: int
) -> None:
    load = Load.of([Replay(stores=1, snapshot_files=1, change_files=9)] * stores)
    near, far = (load.seconds(COSTS_OF_TEST, slots, latency) for latency in (0.0, 0.01))
    assert far.high - near.high == pytest.approx(0.01 * (30 + stores * (8 + 3 * 10)) * 1.25)


@pytest.mark.parametrize("slots", [1, 8])
def test_the_high_end_of_a_restart_is_its_start_and_the_longer_of_its_parts(slots: int) -> None:
    forecast = Forecast(slots=slots, latency=0.5)
    load = Load.of([Replay(1, 1, 90, 4), Replay(1, change_files=2)])
    start, *parts = forecast.high_parts(load)
    assert start + max(parts) == pytest.approx(forecast.seconds(load).high)


def test_a_forecast_has_the_costs_of_its_restart_and_its_share_of_them() -> None:
    cold, warm = (COSTS[Restart(Provider.ROCKSDB, "4.3.0", warm=warm)] for warm in (False, True))
    forecast = Forecast(Provider.ROCKSDB, latency=0.5)
    assert (forecast.costs(), forecast.costs(warm=True)) == (cold, warm)
    assert forecast.takes(Replay(stores=1)) == pytest.approx(cold.stores + 0.5 * 8)
    far = replace(checkpoint(batches=[0]), root="s3://b/q", record_size=7.0)
    assert Forecast.of(far, 4, 50) == Forecast(far.provider, "3.5.9", 4, 7.0, 0.03, 50)
    old = COSTS[Restart(far.provider, "3.5.9", warm=False)]
    assert Forecast.of(far, 4, 50).costs().start == pytest.approx(old.start / 2)


def test_a_load_takes_what_its_provider_needs_and_its_replay_leaves_out_the_snapshot() -> None:
    for provider, found in (
        (Provider.HDFS_BACKED, store("1d 2s 3d 4d")),
        (Provider.ROCKSDB, rocks_store("1c 2z:a 3c 4c sa")),
    ):
        chain, work = found.versions.chain(4), replay_of(found, 4)
        assert isinstance(chain, Chain)
        assert work
        assert load_seconds(found, chain) == Forecast(provider).takes(work)
        assert 0 < replay_seconds(found, chain) < load_seconds(found, chain)


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
    assert Forecast(record=size / 2).load([of_store], 5).total == work
    assert replay_of(of_store, 1, record=size / 2) == Replay(1, 0, 0, 0, 1, size, 2)


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
    assert Forecast(record=7.0).measured([proved]).record == snapshot.size / 5
    assert Forecast(record=7.0).measured([of_store]).record == 7.0


def test_a_record_of_a_zip_has_its_share_of_the_tables() -> None:
    table = FileRecord("a.sst", 50, 1.0)
    proof = Attestation("2.zip", 2, 100, 1.0, "", 5, 0, parts=(table, table))
    assert record_size([replace(store(""), attestations=(proof,))]) == 200 / 5


def test_a_snapshot_leaves_no_changes_to_read() -> None:
    after = after_snapshot(Replay(1, 1, 400, 10, 7, 900, 21), record=40)
    assert after == Replay(1, 1, 400, 10)
    assert after_snapshot(after, record=40) is after
    of_zip = after_snapshot(Replay(1, 2, 400, 10, 7, 900, 21), record=40)
    assert of_zip == Replay(1, 2, 400, 10)


@pytest.mark.parametrize(
    ("provider", "spark", "costs"),
    [
        (Provider.ROCKSDB, "3.3.4", Restart(Provider.ROCKSDB, "3.5.9", warm=False)),
        (Provider.ROCKSDB, "3.5-amzn-1", Restart(Provider.ROCKSDB, "3.5.9", warm=False)),
        (Provider.ROCKSDB, "4.1.0-preview1", Restart(Provider.ROCKSDB, "4.3.0", warm=False)),
        (Provider.ROCKSDB, "4.10.0", Restart(Provider.ROCKSDB, "4.3.0", warm=False)),
        (Provider.ROCKSDB, "of our own", Restart(Provider.ROCKSDB, "4.3.0", warm=False)),
        (Provider.ROCKSDB, "5.0", Restart(Provider.ROCKSDB, "4.3.0", warm=False)),
        (Provider.UNKNOWN, "4.3.0", Restart(Provider.HDFS_BACKED, "4.3.0", warm=False)),
    ],
)
def test_an_unknown_spark_takes_the_costs_of_the_nearest_measured_one(
    provider: Provider, spark: str, costs: Restart
) -> None:
    assert costs_of(provider, spark) is COSTS[costs]


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
    assert str(Seconds(7.9, 10.0)) == "8 to 10 s"
    assert str(Seconds(61.4, 61.4)) == "61 s"
