"""A query whose savepoint is in another shape continues as the undisturbed one does.

Each has run eleven batches in two partitions. It goes on in seven, and then in three; or in one
provider after the other. The twin stays as it is.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.audit import doctor, verify
from statemaint.model.checkpoint import Provider
from statemaint.planning import scan_checkpoint
from statemaint.records.savepoints import Shape
from statemaint.savepoint import savepoint
from statemaint.storage import LocalStorage
from tests.checkpoints import state_reader
from tests.systems.spark.runner import KIND, RETAINED, Runner, copied, newest_batch

# Each takes minutes; all of them, with more batches, are for `make test-shapes`.
_ALL = os.environ.get("STATEMAINT_SHAPES") == "all"
FIRST, MORE = 11, 10 if _ALL else 3
_MORE_NAMES = (
    "rocks-timed-ids",
    "aggregation2", "chained", "dedup-within-watermark", "join2", "pandas-state-timeout",
    "session-window", "rocks-chained-ids", "rocks-join2-ids", "rocks-rowchecksum",
    "rocks-session-window-ids", "rocks-join3-ids", "rocks-join4", "rocks-expiring-ids",
    "rocks-evolving",
)  # fmt: skip
_MORE_ON_ANY = (
    "dedup-within-watermark", "join2", "limit", "pandas-state-timeout", "session-window",
)  # fmt: skip
_FAMILIES = ("rocks-join3", "rocks-join4-ids", "rocks-timed", "rocks-expiring")
_MORE_FAMILIES = (*_FAMILIES[1:], "rocks-timed-ids")
NAMES = ("rocks-aggregation-ids", *(_MORE_NAMES if _ALL else ()))
_IN_200 = ("session-window", "rocks-join2-ids")
_MANY = 100  # partitions from which the states of a batch take a minute to read
ON_ANY_PROVIDER = ("aggregation2", *(_MORE_ON_ANY if _ALL else ()))
# Of keys: what comes behind the columns that rows are shuffled by.
_NOT_SHUFFLED_BY = ("index", "sessionStartTime")
HDFS, ROCKSDB = Provider.HDFS_BACKED, Provider.ROCKSDB


@pytest.mark.parametrize(
    ("name", "partitions"),
    [*((name, (7, 3)) for name in NAMES), *((name, (200,)) for name in _IN_200 if _ALL)],
)
def test_the_batches_in_other_partitions_are_those_of_the_undisturbed_query(
    spark: SparkSession, tmp_path: Path, name: str, partitions: tuple[int, ...]
) -> None:
    check_goes_on(spark, tmp_path, name, [Shape(partitions=number) for number in partitions])


@pytest.mark.parametrize("name", ON_ANY_PROVIDER)
def test_the_batches_on_another_provider_are_those_of_the_undisturbed_query(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    shapes = [
        Shape(provider=ROCKSDB, row_checksums=True),
        Shape(ids="v2", partitions=3),
        Shape(ids="v1", row_checksums=False),
        Shape(provider=HDFS, codec="zstd", partitions=2),
    ]
    check_goes_on(spark, tmp_path, name, shapes)


@pytest.mark.parametrize("name", ["rocks-join3", *(_MORE_FAMILIES if _ALL else ())])
def test_families_with_row_checksums_and_other_ids_go_on(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    first = Shape(ids="v2", row_checksums=True)
    then = Shape(ids="v1", partitions=3, row_checksums=False)
    if name.endswith("-ids"):
        first, then = replace(first, ids="v1"), replace(then, ids="v2")
    check_goes_on(spark, tmp_path, name, [first, then])


# Not joins in format 4: Spark 4.3 cannot read what its own repartition writes of them.
_OF_BOTH = (
    *("rocks-dedup", "rocks-session-window-ids", "rocks-join2", "rocks-join3", "rocks-timed"),
    "rocks-expiring",
)


@pytest.mark.parametrize("name", ["rocks-aggregation", *(_OF_BOTH if _ALL else ())])
def test_each_partition_has_the_rows_of_sparks_own_repartition(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """It is a batch without input, of the checkpoint itself."""
    runner, root = Runner(spark, KIND[name]), tmp_path / "original"
    runner.run(root, FIRST)
    ours, theirs = tmp_path / "ours", copied(root, "theirs")
    saved = LocalStorage(ours / "checkpoint")
    savepoint(LocalStorage(root / "checkpoint"), saved, shape=Shape(partitions=7))
    session = runner.session()
    session._streamingCheckpointManager.repartition(str(theirs / "checkpoint"), 7)
    assert newest_batch(theirs) == newest_batch(ours) + 1
    assert runner.state(ours) == runner.state(theirs)


_ON_DISK = ("dedup", "join2", "pandas-state-timeout", "session-window", "rocks-join3")


@pytest.mark.parametrize("name", ["aggregation2", *(_ON_DISK if _ALL else ())])
def test_every_row_lies_where_sparks_expression_says(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    root, saved = tmp_path / "original", tmp_path / "saved"
    Runner(spark, KIND[name]).run(root, FIRST)
    savepoint(LocalStorage(root / "checkpoint"), LocalStorage(saved), shape=Shape(partitions=7))
    for _, options in state_reader._stores(saved):
        rows = spark.read.format("statestore").options(**options).load(str(saved))
        fields = [one for one in rows.select("key.*").columns if one not in _NOT_SHUFFLED_BY]
        hashed = f"pmod(hash({', '.join(f'key.{one}' for one in fields)}), 7)"
        assert rows.select("partition_id").distinct().count() > 1
        assert rows.where(f"partition_id != {hashed}").count() == 0


def check_goes_on(spark: SparkSession, place: Path, name: str, shapes: Iterable[Shape]) -> None:
    runner, root = Runner(spark, KIND[name]), place / "original"
    runner.run(root, FIRST)
    before, read = root, FIRST
    for number, shape in enumerate(shapes):
        other, newest = place / f"shape-{number}", newest_batch(before)
        to = LocalStorage(other / "checkpoint")
        savepoint(LocalStorage(before / "checkpoint"), to, shape=shape)
        read += MORE
        runner.run(other, read)
        runner.run(root, read)
        assert newest_batch(other) == newest_batch(root)
        assert runner.output(other) == runner.output(root, above=newest)
        count = MORE + 1 if (shape.partitions or 0) < _MANY else 2
        ours, theirs = (runner.states(one, count, placed=False) for one in (other, root))
        assert ours.keys() == theirs.keys()
        for store, batches in ours.items():
            common = batches.keys() & theirs[store].keys()
            assert len(common) == min(count, RETAINED + 1)
            assert [batches[one] for one in common] == [theirs[store][one] for one in common]
        storage = LocalStorage(other / "checkpoint")
        assert doctor(storage).restarts
        assert verify(storage, deep=True).healthy
        assert shape.chosen.items() <= Shape.of(scan_checkpoint(storage)).chosen.items()
        before = other
