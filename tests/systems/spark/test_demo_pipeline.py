"""The demo's job is really neglected, and a copy of it really is a job of its own."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tools.demo.pipeline import output_rows, run_hours
from tools.demo.session import (
    oracle_session,
    read_all,
    read_rows,
    read_state,
    retained_batches,
    stores,
)

STORES = (
    (0, "default"),
    (1, "left-keyToNumValues"),
    (1, "left-keyWithIndexToValue"),
    (1, "right-keyToNumValues"),
    (1, "right-keyWithIndexToValue"),
)


def versions(checkpoint: Path, kind: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for path in (checkpoint / "state").rglob(f"*.{kind}"):
        if not path.name.startswith("."):
            store = str(path.parent.relative_to(checkpoint / "state"))
            found.setdefault(store, []).append(int(path.stem))
    return {store: sorted(numbers) for store, numbers in found.items()}


def test_the_job_puts_out_each_region_and_hour_once_and_sees_unpaid_orders(
    neglected: Path,
) -> None:
    rows = [json.loads(line) for line in output_rows(neglected.parent)]
    assert len({(row["hour"], row["region"]) for row in rows}) == len(rows) > 0
    assert all(row["orders"] >= row["unpaid"] for row in rows)
    assert any(row["unpaid"] for row in rows)


def test_refuses_to_share_the_session_of_its_process(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Cannot run multiple SparkContexts"):
        run_hours(tmp_path, hours=[0], seed=1, progress=print)
    with pytest.raises(ValueError, match="Cannot run multiple SparkContexts"), oracle_session():
        pass
    assert spark.range(3).count() == 3


def test_the_neglected_checkpoint_has_25_deltas_a_store(neglected: Path) -> None:
    deltas = versions(neglected, "delta")
    assert len(deltas) == 3 * len(STORES)
    assert all(found == list(range(1, 26)) for found in deltas.values())
    assert versions(neglected, "snapshot") == {}
    assert retained_batches(neglected) == tuple(range(16, 25))


def test_the_neglected_state_has_dropped_rows(spark: SparkSession, neglected: Path) -> None:
    windows = read_rows(spark, neglected, batch=24, operator=0, store="default")
    assert windows
    assert not any("2026-01-01T00:00:00" in row for row in windows)
    orders = read_rows(spark, neglected, batch=24, operator=1, store="left-keyWithIndexToValue")
    assert orders
    assert not any('"order_id":"0000-' in row for row in orders)


def test_reads_every_store_of_every_operator(spark: SparkSession, neglected: Path) -> None:
    assert stores(spark, neglected) == STORES
    heard: list[int] = []
    digests = read_all(spark, neglected, batches=(16, 24), progress=heard.append)
    assert set(digests) == {(*store, batch) for store in STORES for batch in (16, 24)}
    assert heard == [16, 24]
    assert len(set(digests.values())) == len(digests)


@pytest.mark.parametrize("store", STORES)
def test_the_digest_counts_the_rows(
    spark: SparkSession, neglected: Path, store: tuple[int, str]
) -> None:
    operator, name = store
    rows = read_rows(spark, neglected, batch=20, operator=operator, store=name)
    digest = read_state(spark, neglected, batch=20, operator=operator, store=name)
    assert digest.rows == len(rows) > 0
    assert digest == read_all(spark, neglected, batches=[20], progress=print)[operator, name, 20]


def test_a_checkpoint_below_a_folder_with_a_space_in_its_name_is_read(
    spark: SparkSession, neglected: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "a folder of checkpoints" / "neglected"
    shutil.copytree(neglected, copy)
    assert stores(spark, copy) == STORES
    digests = [
        read_state(spark, checkpoint, batch=20, operator=0, store="default")
        for checkpoint in (neglected, copy)
    ]
    assert digests[0] == digests[1]
    assert digests[0].rows > 0


def test_a_copy_runs_on_after_a_batch_whose_files_have_moved(
    spark: SparkSession,
    neglected: Path,
    neglected_copy: Path,
    run_on: Callable[[Path, Iterable[int]], None],
) -> None:
    run_on(neglected_copy.parent, [25])
    moved = neglected_copy.parent.rename(neglected_copy.parent.with_name("moved"))
    run_on(moved, [26])
    assert retained_batches(moved / "checkpoint") == tuple(range(18, 27))
    digests = [
        read_all(spark, checkpoint, batches=(18, 24), progress=print)
        for checkpoint in (neglected, moved / "checkpoint")
    ]
    assert digests[0] == digests[1]


def test_a_lost_change_gives_another_digest(
    spark: SparkSession, neglected: Path, neglected_copy: Path
) -> None:
    partition = neglected_copy / "state" / "0" / "1"
    shutil.copy(partition / "24.delta", partition / "25.delta")
    (partition / ".25.delta.crc").unlink()
    before = read_state(spark, neglected, batch=24, operator=0, store="default")
    assert read_state(spark, neglected_copy, batch=24, operator=0, store="default") != before


def test_rows_of_another_partition_give_another_digest(
    spark: SparkSession, neglected: Path, neglected_copy: Path
) -> None:
    state = neglected_copy / "state" / "0"
    (state / "1").rename(state / "spare")
    (state / "2").rename(state / "1")
    (state / "spare").rename(state / "2")
    before = read_state(spark, neglected, batch=24, operator=0, store="default")
    after = read_state(spark, neglected_copy, batch=24, operator=0, store="default")
    assert after.rows == before.rows
    assert after.digest != before.digest
