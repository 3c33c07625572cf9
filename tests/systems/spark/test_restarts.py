"""Restarts by a real Spark that the doctor must foretell, of a query of two stateful operators.

Operator 0 sums the amounts of each hour, operator 1 deduplicates; the input has no duplicates, so
that the sums are the same arithmetic with and without operator 1.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from statemaint.audit import doctor, verify
from statemaint.maintain import maintain
from statemaint.model.checkpoint import Provider
from statemaint.model.findings import FindingCode
from statemaint.planning import scan_checkpoint
from statemaint.storage import LocalStorage
from tests.support.checkpoints import TIGHT
from tests.support.summing import PROVIDERS

START = datetime(2026, 1, 1, tzinfo=UTC)
STATE = "spark.sql.streaming.stateStore"
# What Spark 3.5 pins; Spark 4 adds its own settings to the entries of the batches that it plans.
PINNED_BY_3_5 = {
    f"{STATE}.providerClass", f"{STATE}.compression.codec", f"{STATE}.rocksdb.formatVersion",
    "spark.sql.streaming.join.stateFormatVersion", "spark.sql.shuffle.partitions",
    "spark.sql.streaming.statefulOperator.useStrictDistribution",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.aggregation.stateFormatVersion",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
}  # fmt: skip


@dataclass
class Query:
    """The query, and the sums that it has put out."""

    spark: SparkSession
    provider: str
    root: Path

    def __post_init__(self) -> None:
        self.sums: Counter[str] = Counter()

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.checkpoint)

    def run(self, hours: Iterable[int], *, deduplicated: bool = True) -> None:
        """Runs a batch for each hour of input."""
        folder = self.root / "input"
        folder.mkdir(parents=True, exist_ok=True)
        for hour in hours:
            path = folder / f"{hour:03d}.json"
            path.write_text("\n".join(map(json.dumps, events(hour))))
            os.utime(path, (START.timestamp() + hour,) * 2)  # the oldest file is read first
        session = self.spark.newSession()
        for key, value in {**SETTINGS, **PROVIDERS[self.provider]}.items():
            session.conf.set(key, value)
        reader = session.readStream.schema("id STRING, amount LONG, at TIMESTAMP")
        rows = reader.option("maxFilesPerTrigger", 1).json(str(folder))
        rows = rows.withWatermark("at", "1 hour")
        unique = rows.dropDuplicates(["id", "at"]) if deduplicated else rows
        hourly = unique.groupBy(f.window("at", "1 hour")).agg(f.sum("amount").alias("amount"))
        writer = hourly.selectExpr("date_format(window.start, 'D-H') hour", "amount").writeStream
        writer = writer.foreachBatch(self._put_out).option(
            "checkpointLocation", self.checkpoint.as_uri()
        )
        writer.trigger(availableNow=True).start().awaitTermination()

    def _put_out(self, rows: DataFrame, _: int) -> None:
        for hour, amount in rows.collect():
            self.sums[hour] += amount

    def must_be_right(self, last: int) -> None:
        """Compares the sums of the hours that the watermark has closed, a few before the last."""
        hours = range(len(self.sums))
        assert len(hours) >= last - 4
        truth = {f"1-{hour}": sum(one["amount"] for one in events(hour)) for hour in hours}
        assert self.sums == truth

    def files(self, folder: str) -> dict[Path, bytes]:
        found = (self.checkpoint / folder).rglob("*")
        return {path: path.read_bytes() for path in found if path.is_file()}


SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    f"{STATE}.unloadOnCommit": "true",
}


def events(hour: int) -> list[dict[str, Any]]:
    times = [START + timedelta(hours=hour, minutes=number) for number in range(5)]
    return [
        {"id": f"{hour}-{at.minute}", "amount": 7 * hour + at.minute, "at": at.isoformat()}
        for at in times
    ]


@pytest.fixture
def query(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, request.param, tmp_path)


def as_spark_3_leaves_it(checkpoint: Path) -> None:
    """Takes away what only Spark 4 writes, as `tests/checkpoints/3.5.9.tar.xz` has it."""
    for folder in checkpoint.glob("state/*/_metadata"):
        shutil.rmtree(folder)
    for path in checkpoint.glob("offsets/[0-9]*"):
        version, head, *rest = path.read_text().splitlines()
        fields = json.loads(head)
        fields["conf"] = {k: v for k, v in fields["conf"].items() if k in PINNED_BY_3_5}
        path.write_text("\n".join([version, json.dumps(fields), *rest]))
        path.with_name(f".{path.name}.crc").unlink()


@pytest.mark.parametrize("query", ["hdfs", "rocks"], indirect=True)
def test_a_query_restarts_without_an_operator_that_only_spark_3_ran(query: Query) -> None:
    query.run(range(5))
    as_spark_3_leaves_it(query.checkpoint)
    query.run(range(5, 9), deduplicated=False)
    query.must_be_right(9)
    removed, others = query.files("state/1"), query.files("state/0")

    found = doctor(query.storage, deep=True)
    assert (found.restarts, found.counts, found.goes_back_to) == (True, {}, 8)
    notices = [(one.code, one.path) for one in found.findings]
    assert notices == [(FindingCode.UNUSED_STORE, "state/1")]
    assert maintain(query.storage, TIGHT).exit_code == 0
    assert query.files("state/1") == removed
    assert query.files("state/0").keys() != others.keys(), "the other one is maintained"

    query.run(range(9, 12), deduplicated=False)
    query.must_be_right(12)
    shutil.move(query.checkpoint / "state" / "1", query.root / "aside")
    assert scan_checkpoint(query.storage).findings == ()
    query.run(range(12, 14), deduplicated=False)
    query.must_be_right(14)
    assert verify(query.storage, deep=True).healthy


@pytest.mark.parametrize("query", ["hdfs", "rocks"], indirect=True)
def test_a_query_whose_operator_lost_its_metadata_and_newest_files_is_refused(query: Query) -> None:
    query.run(range(5))
    as_spark_3_leaves_it(query.checkpoint)
    query.run(range(5, 9))
    shutil.rmtree(query.checkpoint / "state" / "1" / "_metadata")
    for path in query.checkpoint.glob("state/1/*/*"):
        if path.name.lstrip(".").partition(".")[0] in ("8", "9"):
            path.unlink()
    found = doctor(query.storage)
    assert not found.restarts
    assert FindingCode.UNDECLARED_OPERATOR in {one.code for one in found.findings}
    with pytest.raises(StreamingQueryException):
        query.run(range(9, 10))


@pytest.mark.parametrize("query", ["rocks-ids"], indirect=True)
@pytest.mark.parametrize("name", ["6.changelog", "6.zip"])
def test_under_unique_ids_a_folder_with_the_next_plain_name_is_in_no_way(
    query: Query, name: str
) -> None:
    query.run(range(5))
    for store in query.checkpoint.glob("state/*/[01]"):
        (store / name).mkdir()
        (store / name / "file").write_bytes(b"left here")
    found = doctor(query.storage, deep=True)
    assert (found.restarts, found.restarts_since, found.counts) == (True, None, {})
    query.run(range(5, 9))
    query.must_be_right(9)
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.run(range(9, 12))
    query.must_be_right(12)


@pytest.mark.parametrize("query", ["rocks", "rocks-ids"], indirect=True)
def test_a_query_without_its_offset_log_is_refused_and_only_the_log_is_asked_for(
    query: Query,
) -> None:
    query.run(range(5))
    aside = query.root / "offsets"
    shutil.move(query.checkpoint / "offsets", aside)
    found = doctor(query.storage, deep=True)
    assert (found.restarts, found.counts) == (False, {FindingCode.UNREADABLE_OFFSET: 1})
    assert scan_checkpoint(query.storage).provider is Provider.ROCKSDB
    with pytest.raises(StreamingQueryException):
        query.run(range(5, 6))
    shutil.rmtree(query.checkpoint / "offsets", ignore_errors=True)
    shutil.move(aside, query.checkpoint / "offsets")
    assert doctor(query.storage, deep=True).restarts
    query.run(range(5, 9))
    query.must_be_right(9)
