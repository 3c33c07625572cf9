"""`python -m statemaint.spark`: in processes of its own, or with the tests' own session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.paths import ROOT
from tests.systems.spark.conftest import Program, here
from tests.systems.spark.fleets import write_fleet


@pytest.fixture
def file(tmp_path: Path) -> Path:
    names = ("join2", "rocks-zips", "damaged", "nothing")
    fleet = [one for one in write_fleet(tmp_path / "fleet") if one.query in names]
    queries = "".join(f"  {one.query}: {{checkpoint: {one.checkpoint}}}\n" for one in fleet)
    policy = "{min_deltas_for_snapshot: 2, min_batches_to_retain: 2, grace: 0s}"
    (tmp_path / "queries.yaml").write_text(f"defaults: {policy}\nqueries:\n{queries}")
    return tmp_path / "queries.yaml"


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "statemaint.spark", *arguments],
        cwd=ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_fleet_is_maintained_and_the_worst_query_comes_first(file: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    done = program(
        *("maintain", "--queries", str(file), "--master", "local[2]", "--json"),
        *("--output", str(rows), "--run", "one"),
    )
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert found["exit_code"] == 3
    assert [(one["query"], one["exit_code"]) for one in found["queries"]] == [
        ("damaged", 3),
        ("nothing", 2),
        ("join2", 0),
        ("rocks-zips", 0),
    ]
    assert "maintaining 6 partitions of 3 queries" in done.stderr
    assert "nothing: NOT_A_CHECKPOINT: " in done.stderr
    table = pq.read_table(rows).to_pylist()
    assert {row["run"] for row in table} == {"one"}
    assert sum(row["files_deleted"] or 0 for row in table) == sum(
        one.get("files_deleted", 0) for one in found["queries"]
    )


def test_an_entry_with_a_mistake_stands_alone_and_the_other_queries_are_maintained(
    file: Path, in_session: Program
) -> None:
    text = file.read_text().replace("  damaged: {checkpoint: ", "  damaged: {chkpoint: ")
    file.write_text(text)
    line = text.splitlines().index(next(one for one in text.splitlines() if "chkpoint" in one)) + 1
    done = in_session("maintain", "--queries", str(file), "--json")
    assert done.returncode == 2, done.stderr
    found = {one["query"]: one for one in json.loads(done.stdout)["queries"]}
    assert {name: one["exit_code"] for name, one in found.items()} == {
        "damaged": 2,
        "nothing": 2,
        "join2": 0,
        "rocks-zips": 0,
    }
    assert found["join2"]["snapshots_written"] > 0
    (said,) = (one for one in done.stderr.splitlines() if one.startswith("damaged: CONFIG: "))
    assert f"{file}:{line}: queries.damaged.chkpoint: no such key; the keys are" in said


def test_two_shards_have_each_query_once(file: Path, in_session: Program) -> None:
    found = []
    for shard in ("1/2", "2/2"):
        done = in_session("inventory", "--queries", str(file), "--json", "--shard", shard)
        found.append([one["query"] for one in json.loads(done.stdout)["queries"]])
    every = [name for names in found for name in names]
    assert sorted(every) == ["damaged", "join2", "nothing", "rocks-zips"]
    assert all(found)


def test_a_package_that_executors_lack_is_one_line_and_nothing_is_done(
    file: Path, tmp_path: Path
) -> None:
    # Without its site, this Python has what Spark and the path bring, and no package.
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    command = ["maintain", "--queries", str(file), "--master", "local[1]"]
    done = program(*command, PYSPARK_PYTHON=str(bare), PYSPARK_DRIVER_PYTHON=sys.executable)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "CONFIG: the Python of an executor (" in last
    assert "`pip install 'statemaint[spark]'`" in last
    assert last.endswith("nothing was done")
    assert "Traceback" not in last
    assert not list((tmp_path / "fleet").glob("*/_statemaint"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("inventory",), "Missing option '--queries'"),
        (("inventory", "--queries", "nowhere.yaml"), "nowhere.yaml"),
        (("maintain", "--queries", "FILE", "--query", "other"), "no enabled query other"),
        (("maintain", "--queries", "FILE", "--attempt", "2"), "--run"),
        (("plan", "--queries", "FILE", "--grace", "soon"), "not a duration"),
        (
            ("plan", "--queries", "FILE", "--master", "local", "--remote", "sc://x"),
            "mutually exclusive",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    file: Path, arguments: tuple[str, ...], line: str
) -> None:
    done = here(*(str(file) if one == "FILE" else one for one in arguments))
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("place", "line"),
    [("EXISTING", "it exists"), ("s3a://bucket/rows", "nothing was done")],
)
def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    file: Path, tmp_path: Path, in_session: Program, place: str, line: str
) -> None:
    output = place.replace("EXISTING", str(tmp_path / "fleet"))
    done = in_session("maintain", "--queries", str(file), "--output", output)
    assert done.returncode == 2
    assert f"CONFIG: --output {output}: " in done.stderr
    assert line in done.stderr.splitlines()[-1]
    assert not list((tmp_path / "fleet").glob("*/_statemaint"))


def test_a_verified_fleet_has_records_and_its_summary_although_the_output_is_lost(
    file: Path, tmp_path: Path, in_session: Program
) -> None:
    # Spark finds nothing there, and may create nothing either.
    output = file / "rows"
    done = in_session(
        *("verify", "--queries", str(file), "--query", "join2"),
        *("--output", str(output), "--history", str(tmp_path / "history")),
    )
    assert done.returncode == 5, done.stderr
    (verified,) = (tmp_path / "history").glob("date=*/verify-*.parquet")
    assert pq.read_table(verified).to_pylist()[0]["verdict"]
    assert "1 query" in done.stdout
    assert "OUTPUT: --output" in done.stderr
    assert (tmp_path / "fleet/join2/_statemaint/metrics.json").exists()
