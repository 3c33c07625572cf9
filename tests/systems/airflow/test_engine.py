"""One query on Spark, and its twin by mapped tasks, in a real Airflow: what is told is the same."""

import json
import re
from typing import Any

import pytest

from statemaint.storage import LocalStorage
from tests.systems.airflow.conftest import Ended, Scene
from tests.systems.airflow.support import FLOOR, TARGET, snapshots, tree_hash
from tests.systems.airflow.test_runs import claim, events, wait_for_note, xcom

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

# What differs between two runs that do the same: times, memory, requests, and how many tasks.
MOVING = re.compile(r"_seconds|_memory|_requests|_tasks|_info|seconds_|_bytes_total")


@pytest.fixture(scope="module")
def by_spark(scene: Scene) -> Ended:
    """The run of a query whose entry says `engine: spark`."""
    return scene.run("by_spark")


@pytest.fixture(scope="module")
def by_tasks(scene: Scene) -> Ended:
    """The run of the other query of the same entry, with another engine in its form."""
    return scene.run("by_tasks", {"engine": "tasks"})


def told(scene: Scene, ended: Ended, key: str) -> Any:
    """Returns what `report` passed on, with the query's name and place left out."""
    content = json.dumps(xcom(scene, ended, "report", key))
    name = ended.dag.removeprefix("statemaint__")
    return json.loads(content.replace(name, "QUERY"))


def pushed(scene: Scene, query: str) -> list[str]:
    """Returns the series that a run pushed and that another run of the same state repeats."""
    lines = scene.pushed.query(query).replace(query, "QUERY").splitlines()
    return [one for one in lines if not one.startswith("#") and not MOVING.search(one)]


def test_one_task_on_spark_does_the_work_of_the_mapped_tasks(
    by_spark: Ended, by_tasks: Ended
) -> None:
    ends = {"plan": "success", "report": "success"}
    assert by_spark.states == {**ends, "2 partitions on Spark": "failed"}
    assert by_tasks.states == {**ends, "op 0 / part 0": "success", "op 0 / part 1": "failed"}
    assert (by_spark.state, by_tasks.state) == ("failed", "failed")


def test_spark_leaves_the_files_that_tasks_leave(
    scene: Scene, by_spark: Ended, by_tasks: Ended
) -> None:
    assert by_spark.state == by_tasks.state
    hashes = []
    for query in ("by_spark", "by_tasks"):
        state = scene.checkpoint(query) / "state"
        assert snapshots(scene.checkpoint(query)) == {0: [FLOOR, TARGET]}
        hashes.append({str(one.relative_to(state)): one.read_bytes() for one in files(state)})
    assert hashes[0] == hashes[1]


def files(folder: Any) -> list[Any]:
    """Returns the files below a folder."""
    return sorted(one for one in folder.rglob("*") if one.is_file())


@pytest.mark.parametrize("key", ["statemaint_fleet", "statemaint_partitions", "return_value"])
def test_the_pages_and_the_report_have_the_same_figures(
    scene: Scene, by_spark: Ended, by_tasks: Ended, key: str
) -> None:
    found = told(scene, by_spark, key)
    expected = told(scene, by_tasks, key)
    if key == "return_value":  # one unit and not two: 1 task of 1 has failed
        assert (found.pop("halted"), expected.pop("halted")) == (1, 1)
    for figures in (found, expected):
        figures.pop("committed_at", None)  # of another copy
    assert found == expected
    if key == "statemaint_fleet":
        assert (found["partitions"], found["blocked"], found["unreported"]) == (2, 1, 0)
        assert (found["written"], found["deleted"], found["damage"]) == (2, 16, 1)


def test_spark_pushes_the_metrics_that_tasks_push(
    scene: Scene, by_spark: Ended, by_tasks: Ended
) -> None:
    assert by_spark.state == by_tasks.state
    found = pushed(scene, "by_spark")
    assert found == pushed(scene, "by_tasks")
    assert len(found) > 50
    assert 'statemaint_findings{code="BROKEN_CHAIN",query="QUERY"} 1.0' in found


def test_a_damaged_partition_fails_the_task_on_spark_with_its_name(
    scene: Scene, by_spark: Ended
) -> None:
    log = by_spark.log("2 partitions on Spark")
    assert "BROKEN_CHAIN: state/0/1/7.delta is missing" in log
    assert "AirflowFailException: op 0 / part 1: BROKEN_CHAIN" in log
    assert by_spark.instance("2 partitions on Spark").tries == 1
    (event,) = events(scene, by_spark)
    assert event["name"] == "statemaint://by_spark/findings"
    assert "Broken: BROKEN_CHAIN" in wait_for_note(scene, by_spark)


def test_the_run_ends_its_lease_and_leaves_no_file_of_its_units(
    scene: Scene, by_spark: Ended
) -> None:
    assert by_spark.state == "failed"
    assert claim(scene, "by_spark").ended
    assert [*LocalStorage(scene.checkpoint("by_spark")).list("_statemaint/units")] == []


def test_a_dry_run_on_spark_ends_in_plan_and_writes_nothing(scene: Scene, by_spark: Ended) -> None:
    assert by_spark.state == "failed"
    before = tree_hash(scene.checkpoint("by_spark"))
    dry = scene.run("by_spark", {"dry_run": True})
    assert dry.states == {"plan": "failed", "maintain": "upstream_failed", "report": "skipped"}
    assert "DRY RUN: BROKEN_CHAIN" in dry.log("plan")
    assert tree_hash(scene.checkpoint("by_spark")) == before
