"""A savepoint in another shape by Spark's own exchange is that of one process."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.audit import doctor, verify
from statemaint.errors import ConfigError
from statemaint.model.checkpoint import Provider
from statemaint.records.savepoints import SavedStore, Shape, read_savepoint
from statemaint.savepoint import savepoint
from statemaint.spark import Target, savepoint_fleet
from statemaint.storage import LocalStorage
from tests.systems.spark.conftest import Program
from tests.unit.cli.test_show import unpacked

CASES = [
    ("join2", Shape(partitions=13)),
    ("session-window", Shape(partitions=5, provider=Provider.ROCKSDB, ids="v2")),
    ("rocks-timed", Shape(partitions=7)),
    ("rocks-expiring", Shape(partitions=1, row_checksums=True)),
]


def stores_of(root: Path) -> list[tuple[str, int, str]]:
    note = read_savepoint(LocalStorage(root))
    assert note

    def facts(one: SavedStore) -> tuple[str, int, str]:
        return one.directory, one.rows, one.digest

    return [*map(facts, note.stores)]


@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_the_stores_are_those_of_one_process(
    spark: SparkSession, tmp_path: Path, kind: str, shape: Shape
) -> None:
    source = unpacked(kind, tmp_path / "source")
    target, to = Target("query", str(source)), tmp_path / "by-spark"
    rows = savepoint_fleet(spark, [target], shape=shape, to=str(to)).collect()
    assert [row["error"] for row in rows if row["error"]] == []
    savepoint(LocalStorage(source), LocalStorage(tmp_path / "alone"), shape=shape)
    assert stores_of(to) == stores_of(tmp_path / "alone")
    assert verify(LocalStorage(to), deep=True).healthy
    assert doctor(LocalStorage(to)).restarts


def test_the_program_saves_one_query_in_another_shape(tmp_path: Path, in_session: Program) -> None:
    source, to, file = unpacked("join2", tmp_path / "source"), tmp_path / "to", tmp_path / "q.yaml"
    file.write_text(json.dumps({"queries": {"join": {"checkpoint": str(source)}}}))
    given = ("savepoint", "--queries", str(file), "--partitions", "3")
    refused = in_session(*given)
    assert refused.returncode == ConfigError.exit_code
    assert "--to" in refused.stderr
    done = in_session(*given, "--query", "join", "--to", str(to), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["queries"][0]["stores"] == 12
    assert verify(LocalStorage(to), deep=True).healthy
