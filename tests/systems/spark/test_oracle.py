"""Spark as the judge, both ways: it reads what we wrote, and we read what it wrote."""

import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.audit import digest_stores, verify
from statemaint.maintain import maintain
from statemaint.model.chain import Versions
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.scan.scanner import scan
from statemaint.storage import LocalStorage
from tests.systems.spark import maintained_by_spark
from tests.systems.spark.conftest import RunOn
from tools.demo.pipeline import output_rows
from tools.demo.session import OracleDigest, read_all, retained_batches

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
Digests = dict[tuple[int, str, int], OracleDigest]


def read(spark: SparkSession, checkpoint: Path) -> Digests:
    batches = retained_batches(checkpoint)
    return read_all(spark, checkpoint, batches=batches, progress=lambda _: None)


@pytest.fixture(scope="module")
def before(spark: SparkSession, neglected: Path) -> Digests:
    """What Spark reads of every retained batch before any maintenance."""
    return read(spark, neglected)


def test_scan_finds_what_spark_made(neglected: Path) -> None:
    found = scan(LocalStorage(neglected))
    assert found.batches == tuple(range(16, 25))
    assert [one.name for one in found.operators] == ["stateStoreSave", "symmetricHashJoin"]
    assert len(found.stores) == 3 * (1 + 4)
    for store in found.stores:
        versions = Versions.of(store.files)
        assert sorted(versions.deltas) == list(range(1, 26))
        assert not versions.snapshots
    assert found.findings == ()


def test_every_file_that_spark_made_verifies_to_the_byte(neglected: Path) -> None:
    # Deep: every delta decodes, and every .crc that Hadoop wrote is the one that we compute.
    found = verify(LocalStorage(neglected), deep=True)
    assert found.findings == ()
    assert found.versions_checked == 15 * 9


def test_we_fold_as_many_rows_as_spark_reads(before: Digests, neglected: Path) -> None:
    for batch in retained_batches(neglected):
        _, digests = digest_stores(LocalStorage(neglected), version=batch + 1)
        rows: dict[tuple[int, str], int] = {}
        for store, found in digests:
            key = (store.operator, store.store)
            rows[key] = rows.get(key, 0) + found.rows
        assert rows == {key[:2]: one.rows for key, one in before.items() if key[2] == batch}


def test_spark_reads_the_same_rows_of_every_retained_batch_after_maintenance(
    spark: SparkSession, before: Digests, neglected_copy: Path
) -> None:
    report = maintain(LocalStorage(neglected_copy), TIGHT)
    assert (report.exit_code, report.snapshots_written) == (0, 30)
    # Each delta below the floor went, and Hadoop's side file with it.
    assert report.files_deleted == {"below_base": 15 * 16, "side_file_of_deleted": 15 * 16}
    for store in scan(LocalStorage(neglected_copy)).stores:
        versions = Versions.of(store.files)
        assert sorted(versions.deltas) == list(range(17, 26))
        assert sorted(versions.snapshots) == [17, 25]
    assert read(spark, neglected_copy) == before
    assert sum(one.rows for one in before.values()) > 1000


def test_the_query_goes_on_from_a_maintained_checkpoint_as_if_nothing_had_been(
    spark: SparkSession, neglected_copy: Path, tmp_path: Path, run_on: RunOn
) -> None:
    maintained, twin = neglected_copy.parent, tmp_path / "twin"
    shutil.copytree(maintained, twin)
    maintain(LocalStorage(neglected_copy), TIGHT)
    for root in (maintained, twin):
        run_on(root, range(25, 27))
    assert retained_batches(neglected_copy)[-1] == 26
    assert output_rows(maintained) == output_rows(twin)
    after, undisturbed = (read(spark, root / "checkpoint") for root in (maintained, twin))
    assert after == undisturbed
    assert maintain(LocalStorage(neglected_copy), TIGHT).exit_code == 0


def test_spark_reads_only_our_snapshot_where_the_deltas_below_are_gone(
    spark: SparkSession, before: Digests, neglected_copy: Path
) -> None:
    maintain(LocalStorage(neglected_copy), TIGHT)
    for delta in neglected_copy.glob("state/*/*/**/25.delta"):
        delta.unlink()
        delta.with_name(f".{delta.name}.crc").unlink()
    found = read_all(spark, neglected_copy, batches=[24], progress=lambda _: None)
    assert found == {key: one for key, one in before.items() if key[2] == 24}


def test_a_broken_partition_halts_and_the_others_are_maintained(neglected_copy: Path) -> None:
    broken = StoreId(1, 2, "left-keyWithIndexToValue")
    (neglected_copy / broken.directory / "20.delta").unlink()
    report = maintain(LocalStorage(neglected_copy), TIGHT)
    assert [(one.code, one.store) for one in report.findings] == [
        (FindingCode.BROKEN_CHAIN, broken)
    ]
    assert report.snapshots_written == 28
    assert (neglected_copy / broken.directory / "1.delta").exists()


def test_sparks_own_snapshots_equal_our_fold(
    job_process: ProcessPoolExecutor, tmp_path: Path
) -> None:
    job_process.submit(maintained_by_spark.run, tmp_path, 9).result()
    checkpoint = tmp_path / "checkpoint"
    seen = scan(LocalStorage(checkpoint))
    snapshots = [one for store in seen.stores for one in Versions.of(store.files).snapshots]
    assert len(snapshots) >= 10
    found = verify(LocalStorage(checkpoint), deep=True)
    assert found.findings == ()
    assert found.versions_checked == 10 * 5
