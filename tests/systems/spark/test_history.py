"""A history as a table: its views, and the statements of the document, by a real Spark."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.spark import (
    history_views,
    maintain_fleet,
    read_history,
    savepoint_fleet,
    verify_fleet,
)
from statemaint.spark.frames import OUTCOMES, VERIFIED, collected
from statemaint.spark.history import History
from tests.support.paths import ROOT
from tests.systems.spark.fleets import write_fleet

SECTION = (ROOT / "docs/spark.md").read_text().split("\n## History\n")[1].split("\n## ")[0]
QUERIED, OF_A_TABLE = (
    [one.strip() for one in block.split(";\n") if one.strip()]
    for block in re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)
)
QUERIES = 3
NOON = 1_795_521_600.0  # 2026-11-24T12:00:00Z


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A history of three verbs on the first queries of a fleet, whose views are there."""
    root = tmp_path_factory.mktemp("history")
    fleet = write_fleet(root / "fleet")[:QUERIES]
    address = str(root / "history")
    checked = collected(verify_fleet(spark, fleet), VERIFIED)
    History.at(address).add("checked", checked, NOON, verb="verify")
    saved = [replace(one, savepoint=f"{root}/saved/{one.query}") for one in fleet]
    savepoint_fleet(spark, saved, run="saved", history=address)
    maintain_fleet(spark, fleet, run="maintained", history=address)
    history_views(spark, address)
    return address


@pytest.mark.usefixtures("history")
def test_each_verb_has_a_view_with_its_own_columns(spark: SparkSession) -> None:
    expected = {
        "maintained": ("maintained", ["date", *OUTCOMES]),
        "saved": ("saved", ["date", *OUTCOMES]),
        "verified": ("checked", ["date", "run", *VERIFIED]),
    }
    for view, (run, columns) in expected.items():
        found = spark.table(view)
        assert found.columns == columns
        rows = found.collect()
        assert {row["run"] for row in rows} == {run}
        assert len({row["query"] for row in rows}) == QUERIES
    counts = {view: spark.table(view).count() for view in ("history", *expected)}
    assert counts.pop("history") == sum(counts.values())
    days = {str(row["date"]) for row in spark.table("verified").collect()}
    assert days == {"2026-11-24"}


def test_files_of_a_release_without_verbs_are_of_maintenance_or_savepoints(
    spark: SparkSession, history: str, tmp_path: Path
) -> None:
    rows = read_history(spark, history).where("verb != 'verify'")
    old = str(tmp_path / "old")
    rows.select("date", *OUTCOMES).write.partitionBy("date").parquet(old)
    for verb in ("maintain", "savepoint"):
        of_now = rows.where(f"verb = '{verb}'").count()
        assert read_history(spark, old).where(f"verb = '{verb}'").count() == of_now > 0


@pytest.mark.parametrize("statement", QUERIED, ids=lambda text: text.split("\n")[0])
@pytest.mark.usefixtures("history")
def test_the_documented_statements_give_rows(spark: SparkSession, statement: str) -> None:
    assert spark.sql(statement).count() or "exit_code > 0" in statement


def test_a_table_of_the_files_has_all_rows(spark: SparkSession, history: str) -> None:
    create, repair = OF_A_TABLE
    spark.sql(create.replace("s3://lake/statemaint-history", history))
    try:
        spark.sql(repair.partition(";")[0])
        assert spark.table("statemaint_history").count() == spark.table("history").count()
    finally:
        spark.sql("DROP TABLE statemaint_history")
