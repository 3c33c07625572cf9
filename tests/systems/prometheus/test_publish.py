"""`statemaint maintain --publish`, as a CronJob runs it, and a real Pushgateway."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from statemaint.maintain.record import read_record
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.systems.prometheus.test_pushgateway import exposed
from tools.demo.prometheus import Server

pytestmark = pytest.mark.prometheus


def queries(folder: Path, **settings: object) -> Path:
    """Writes a queries file with one query that was never maintained."""
    (folder / "q").mkdir()
    write_checkpoint(LocalStorage(folder / "q"), partitions=2)
    entry = {"checkpoint": str(folder / "q"), "schedule": "@hourly", "owner": "ann"}
    file = folder / "queries.yaml"
    file.write_text(yaml.safe_dump({**settings, "queries": {"q": entry}}))
    return file


def maintain(
    file: Path, name: str = "q", *flags: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "statemaint", "maintain", "--queries", str(file)]
    return subprocess.run(
        [*command, "--publish", *flags, "--", name],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "STATEMAINT_ORIGIN": "airflow.statemaint", **environment},
    )


def test_a_run_of_the_program_pushes_its_record(gateway: Server, tmp_path: Path) -> None:
    done = maintain(queries(tmp_path, pushgateway=gateway.url))
    assert done.returncode == 0, done.stderr
    [ended] = exposed(gateway, "last_run_timestamp_seconds")
    assert 'origin="airflow.statemaint",owner="ann",query="q"' in ended
    [interval] = exposed(gateway, "expected_interval_seconds")
    assert interval.endswith(" 3600")


def test_the_environment_goes_before_the_file_and_a_dry_run_pushes_nothing(
    gateway: Server, tmp_path: Path
) -> None:
    file = queries(tmp_path, pushgateway="http://127.0.0.1:9")
    assert maintain(file, "q", "--dry-run", STATEMAINT_PUSHGATEWAY=gateway.url).returncode == 0
    assert exposed(gateway, "last_run") == []
    assert maintain(file, STATEMAINT_PUSHGATEWAY=gateway.url).returncode == 0
    assert len(exposed(gateway, "last_run_timestamp_seconds")) == 1


def test_a_run_that_fails_is_pushed_with_its_cause(gateway: Server, tmp_path: Path) -> None:
    file = queries(tmp_path, pushgateway=gateway.url)
    (tmp_path / "q/state/0/1/20.delta").unlink()
    assert maintain(file).returncode == 3
    failed = [line for line in exposed(gateway, "last_run_failed") if line.endswith(" 1")]
    assert ['cause="damage"' in line for line in failed] == [True]


def test_a_lost_push_does_not_fail_the_run_and_is_counted(tmp_path: Path) -> None:
    done = maintain(queries(tmp_path, pushgateway="http://127.0.0.1:9"))
    assert done.returncode == 0
    assert "metrics are not published" in done.stderr
    record = read_record(LocalStorage(tmp_path / "q"))
    assert record
    assert record.totals["losses"] == 1


def test_a_run_of_the_program_writes_the_textfile(tmp_path: Path) -> None:
    assert maintain(queries(tmp_path, textfile=str(tmp_path / "node"))).returncode == 0
    text = (tmp_path / "node/statemaint_q@airflow.statemaint.prom").read_text()
    assert (
        'statemaint_query_info{dag="",origin="airflow.statemaint",owner="ann",query="q"} 1' in text
    )


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("./q", {}, "--publish needs a query's name in the queries file, not an address"),
        ("q", {"pushgateway_auth": {"connection": "x"}}, "pushgateway_auth.connection is Airf"),
    ],
)
def test_what_cannot_be_published_is_refused_before_the_run(
    tmp_path: Path, name: str, settings: dict[str, object], sentence: str
) -> None:
    file = queries(tmp_path, **settings)
    done = maintain(file, name.replace("./", f"{tmp_path}/"), "--json")
    assert done.returncode == 2
    assert sentence in done.stderr + json.dumps(done.stdout)
    assert not (tmp_path / "q/_statemaint").exists()
