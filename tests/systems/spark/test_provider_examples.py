"""The examples of docs/provider.md, on checkpoints of real queries, which then go on."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from statemaint.audit import verify
from statemaint.codec.rows.unsafe_write import encode_row
from statemaint.storage import LocalStorage
from tests.support.paths import ROOT
from tests.support.spark_providers import ROCKSDB, STATE

PAGE = (ROOT / "docs/provider.md").read_text()
Rows = list[tuple[Any, ...]]


def examples(heading: str) -> list[str]:
    section = re.split(r"^## ", PAGE.split(f"## {heading}\n")[1], flags=re.MULTILINE)[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def run(code: str, root: Path, names: dict[str, Any] | None = None) -> None:
    exec(code.replace("/data/checkpoints", str(root)), {} if names is None else names)  # noqa: S102


class Query:
    """A query over small JSON files, one batch each, of a name and a number."""

    def __init__(
        self, spark: SparkSession, root: Path, name: str, conf: Mapping[str, str] | None = None
    ) -> None:
        self.session, self.root, self.name = spark.newSession(), root, name
        settings = {
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            **(conf or {}),
        }
        for key, value in settings.items():
            self.session.conf.set(key, value)

    def batch(self, *rows: tuple[str, int]) -> Rows:
        """Runs one batch over these rows and returns what it puts out."""
        folder = self.root / f"{self.name}-input"
        folder.mkdir(exist_ok=True)
        lines = (json.dumps({"customer": customer, "n": n}) for customer, n in rows)
        (folder / f"{len([*folder.iterdir()])}.json").write_text("\n".join(lines))
        put_out: Rows = []
        events = self.session.readStream.schema("customer STRING, n LONG").json(str(folder))
        writer = self.result(events).writeStream.outputMode("update")
        writer = writer.foreachBatch(lambda frame, _: put_out.extend(map(tuple, frame.collect())))
        writer = writer.option("checkpointLocation", str(self.root / self.name))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(put_out)

    def result(self, events: DataFrame) -> DataFrame:
        if self.name == "orders":
            return events.dropDuplicates(["customer", "n"])
        return events.groupBy("customer").agg(f.sum("n"))


def test_the_totals_of_the_first_example_are_counted_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = Query(spark, tmp_path, "totals")
    totals.batch(("mallory", 5), ("bob", 1))
    run(examples("Bootstrap")[0], tmp_path)
    assert capsys.readouterr().out == "batch 1 is committed, with 3 changes\n"
    put_out = totals.batch(("alice", 1), ("bob", 1), ("mallory", 1))
    assert put_out == [("alice", 1201), ("bob", 8), ("mallory", 1)]


def test_the_keys_of_one_customer_are_new_to_the_query(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = Query(spark, tmp_path, "orders")
    rows = (("alice", 1), ("alice", 2), ("bob", 1))
    assert orders.batch(*rows) == [*rows]
    run(examples("Removing one customer's keys")[0], tmp_path)
    assert capsys.readouterr().out == "2 of 3 keys are removed with batch 1\n"
    assert orders.batch(*rows) == [*rows[:2]]


def test_one_key_is_corrected_and_two_attempts_are_compared(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = {
        f"{STATE}.providerClass": ROCKSDB,
        f"{STATE}.checkpointFormatVersion": "2",
        f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    }
    revenue = Query(spark, tmp_path, "revenue", conf)
    assert revenue.batch(("alice", 12), ("bob", 7)) == [("alice", 12), ("bob", 7)]
    correct, compare = examples("The RocksDB provider")
    names: dict[str, Any] = {}
    run(correct, tmp_path, names)
    assert verify(LocalStorage(tmp_path / "revenue"), deep=True).findings == ()

    partition = names["partition_of_row"](names["key"], names["schema"].key, 2)
    storage, (base,) = (
        names["storage"],
        json.loads(names["commit"])["stateUniqueIds"]["0"][partition],
    )
    store = names["StoreId"](0, partition)
    failed = names["RocksDBStateStoreProvider"](store, storage, names["conf"]).get_store(1, base)
    wrong = encode_row((1300,), names["schema"].value)
    failed.put(names["key"], wrong)
    failed.commit()
    capsys.readouterr()
    run(compare.replace("partition=0", f"partition={partition}"), tmp_path, names)
    (line,) = capsys.readouterr().out.splitlines()
    values = {str(each) for each in (names["value"], wrong)}
    assert line.startswith(str(names["key"]))
    assert all(each in line for each in values)
    assert revenue.batch(("alice", 1), ("bob", 1)) == [("alice", 1251), ("bob", 8)]


def test_the_test_of_a_store_passes(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    run(examples("The provider")[0], tmp_path, names)
    names["test_a_total_is_read_back"](tmp_path)
    assert (tmp_path / "state/0/0/1.delta").exists()
