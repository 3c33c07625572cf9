"""Savepoints of a fleet by Spark's executors are those of the command line."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from statemaint.cli.main import program as command_line
from statemaint.records.savepoints import read_savepoint
from statemaint.spark import Target, read_history, savepoint_fleet
from statemaint.storage import LocalStorage
from tests.systems.spark.conftest import Program
from tests.systems.spark.fleets import KINDS, digests, listing, write_fleet

HDFS = [kind for _, kind in KINDS if not kind.startswith("rocks")]


def write_queries(fleet: Iterable[Target], root: Path, to: Path) -> Path:
    """Writes the queries file of a fleet, with one more query that has no savepoints."""
    queries: dict[str, Any] = {
        one.query: {"checkpoint": one.checkpoint, "savepoint": {"to": f"{to}/{{query}}/{{batch}}"}}
        for one in fleet
    }
    queries["unsaved"] = {"checkpoint": str(root / "unsaved")}
    file = root / "queries.yaml"
    file.write_text(json.dumps({"queries": queries}))
    return file


@pytest.fixture(scope="module")
def saved(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    root = tmp_path_factory.mktemp("saved")
    fleet = write_fleet(root / "fleet")
    file = write_queries(fleet, root / "fleet", root / "by-spark")
    codes = {}
    for one in fleet:
        arguments = ["savepoint", one.checkpoint, str(root / "by-hand" / one.query), "--no-pin"]
        done = CliRunner().invoke(command_line, arguments)
        codes[one.query] = getattr(done.exception, "exit_code", done.exit_code)
    rows = savepoint_fleet(spark, file, history=str(root / "history"), run="first").collect()
    return {"root": root, "file": file, "fleet": fleet, "codes": codes, "rows": rows}


def test_both_leave_the_same_files_with_the_same_states(saved: Mapping[str, Any]) -> None:
    for one in saved["fleet"]:
        if saved["codes"][one.query]:
            continue
        by_hand = saved["root"] / "by-hand" / one.query
        (by_spark,) = (saved["root"] / "by-spark" / one.query).iterdir()
        places = [replace(one, checkpoint=str(place)) for place in (by_hand, by_spark)]
        assert listing(places[0]) == listing(places[1]), one.query
        assert digests(places[0]) == digests(places[1]), one.query
        notes = [read_savepoint(LocalStorage(place)) for place in (by_hand, by_spark)]
        assert notes[0]
        assert notes[1]
        assert by_spark.name == str(notes[0].batch)
        assert [(store.directory, store.rows, store.digest) for store in notes[0].stores] == [
            (store.directory, store.rows, store.digest) for store in notes[1].stores
        ]
        if one.query in HDFS:
            assert contents(by_hand) == contents(by_spark), one.query


def contents(root: Path) -> dict[str, bytes]:
    """Returns the files of a savepoint but our own, with its own address left out."""
    paths = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".crc")
    return {
        str(path.relative_to(root)): path.read_bytes().replace(bytes(root), b"")
        for path in paths
        if "_statemaint" not in path.parts
    }


def test_queries_have_the_exit_codes_of_the_command_line(saved: Mapping[str, Any]) -> None:
    queries = {row["query"]: row for row in saved["rows"] if row["operator"] is None}
    assert {name: row["exit_code"] for name, row in queries.items()} == saved["codes"]
    assert queries["damaged"]["outcome"] == "failed"
    assert not list(Path(queries["damaged"]["savepoint"]).glob("state/0/0/*/14.zip"))


def test_every_store_has_a_row_in_the_history_too(
    spark: SparkSession, saved: Mapping[str, Any]
) -> None:
    rows = [row for row in saved["rows"] if row["store"]]
    assert {row["query"] for row in rows} == {kind for _, kind in KINDS}
    assert all(row["digest"] and row["snapshots_written"] == 1 and row["unit"] for row in rows)
    history = read_history(spark, str(saved["root"] / "history")).where("savepoint IS NOT NULL")
    assert history.where("store IS NOT NULL").count() == len(rows)


def test_the_program_leaves_whole_savepoints_as_they_are(
    saved: Mapping[str, Any], in_session: Program
) -> None:
    name = HDFS[0]
    arguments = ("--queries", str(saved["file"]), "--query", name, "--json")
    done = in_session("savepoint", *arguments)
    assert done.returncode == 0, done.stderr
    (summary,) = json.loads(done.stdout)["queries"]
    assert (summary["query"], summary["snapshots_written"], summary["stores"]) == (name, 0, 2)


def test_a_query_without_a_place_for_savepoints_is_refused(
    saved: Mapping[str, Any], in_session: Program
) -> None:
    done = in_session("savepoint", "--queries", str(saved["file"]), "--query", "unsaved")
    assert done.returncode == 2
    assert "savepoint: {to: ADDRESS}" in done.stderr
