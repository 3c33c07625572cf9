"""The group in which Spark's driver reports each query of a fleet, in a real Pushgateway."""

from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from statemaint.queries.reading import read_queries
from statemaint.spark import maintain_fleet
from statemaint.spark.fleet import fleet_of
from statemaint.spark.reporting import reporting
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.systems.prometheus.support import part
from tests.systems.spark.conftest import Program
from tools.demo.prometheus import Server, pushgateway

pytestmark = [pytest.mark.spark, pytest.mark.prometheus]


def queries(folder: Path, *lines: str) -> Path:
    """Writes a file of a good query and of a damaged one."""
    for name in ("good", "damaged"):
        (folder / name).mkdir()
        write_checkpoint(LocalStorage(folder / name))
    (folder / "damaged/state/0/0/20.delta").unlink()
    file = folder / "queries.yaml"
    entries = [f"  {name}: {{checkpoint: {folder / name}}}" for name in ("good", "damaged")]
    settings = "defaults: {min_deltas_for_snapshot: 5, min_batches_to_retain: 8, grace: 0s}"
    file.write_text("\n".join([settings, *lines, "queries:", *entries]))
    return file


def pushed(gateway: Server) -> dict[tuple[str, str], dict[str, Any]]:
    """Returns the figures of each task, by query and name."""
    with build_opener(ProxyHandler({})).open(f"{gateway.url}/metrics", timeout=5) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for sample in (one for family in families for one in family.samples):
        labels, name = sample.labels, sample.name.removeprefix("statemaint_task_")
        if "task" in labels:
            assert labels["origin"] == "here"
            group = found.setdefault((labels["query"], labels["task"]), {})
            group[name] = labels.get("state", sample.value)
    return found


def test_the_driver_pushes_one_group_for_each_query_of_the_fleet(
    tmp_path: Path, in_session: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    part("prometheus-pushgateway")
    monkeypatch.setenv("STATEMAINT_ORIGIN", "here")
    with pushgateway(tmp_path) as gateway:
        file = queries(tmp_path, f"pushgateway: {gateway.url}")
        done = in_session("maintain", "--queries", str(file))
        assert done.returncode == 3, done.stderr
        found = pushed(gateway)
    assert found.keys() == {("good", "maintain-0"), ("damaged", "maintain-0")}
    good, damaged = found["good", "maintain-0"], found["damaged", "maintain-0"]
    assert (good["state"], damaged["state"]) == ("succeeded", "failed")
    for one in (good, damaged):
        assert one["stores_done"] == one["stores_planned"] == 2
        assert one["ended_timestamp_seconds"] > one["started_timestamp_seconds"]
    assert good["snapshots_written"] > damaged["snapshots_written"] > 0
    assert good["files_deleted"] > 0


def test_the_driver_is_at_work_until_its_results_are_there(tmp_path: Path) -> None:
    reading = read_queries(queries(tmp_path, f"textfile: {tmp_path}/metrics"))
    with (
        pytest.raises(RuntimeError),
        reporting(reading, fleet_of(reading), "verify", attempt=3),
    ):
        raise RuntimeError
    files = sorted((tmp_path / "metrics").iterdir())
    assert [one.name.split("@")[:2] for one in files] == [
        ["statemaint_damaged", "verify-0"],
        ["statemaint_good", "verify-0"],
    ]
    for file in files:
        text = file.read_text()
        assert 'state="failed"' in text
        assert "stores" not in text
        assert "statemaint_task_retries{" in text


def test_a_pushgateway_that_needs_airflow_is_told_and_stops_no_fleet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ("pushgateway: http://127.0.0.1:1", "pushgateway_auth: {connection: gateway}")
    reading = read_queries(queries(tmp_path, *lines))
    with reporting(reading, fleet_of(reading), "maintain") as ended:
        ended([])
    assert "the progress of the fleet is not published" in capsys.readouterr().err


def test_a_fleet_that_python_maintains_is_published_as_by_the_program(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEMAINT_ORIGIN", "here")
    file = queries(tmp_path, f"textfile: {tmp_path}/metrics")
    maintain_fleet(spark, str(file), attempt=2, run="r")
    states = {"good": "succeeded", "damaged": "failed"}
    for query, state in states.items():
        text = (tmp_path / f"metrics/statemaint_{query}@maintain-0@here.prom").read_text()
        assert f'state="{state}"' in text
        assert "statemaint_task_stores_done{" in text
        retries = next(
            one for one in text.splitlines() if one.startswith("statemaint_task_retries{")
        )
        assert retries.endswith(" 1.0")
