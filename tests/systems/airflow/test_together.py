"""Three queries that share a DAG and Spark's program, in a real Airflow with a real Spark."""

import os
import re
import signal
import time
from collections.abc import Iterator
from urllib.parse import quote

import psutil
import pytest

from statemaint.execute.lease import acquire
from statemaint.records.claims import Holder
from statemaint.storage import LocalStorage
from tests.systems.airflow.conftest import TOGETHER, Ended, Scene
from tests.systems.airflow.support import FLOOR, TARGET, snapshots, tree_hash
from tests.systems.airflow.test_runs import claim, events, wait_for_note, xcom

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

BOTH = {0: [FLOOR, TARGET], 1: [FLOOR, TARGET]}


@pytest.fixture(scope="module")
def many(scene: Scene) -> Iterator[Ended]:
    """A run of a healthy query, a damaged one, and one whose lease another run holds."""
    lease = acquire(LocalStorage(scene.checkpoint("many_held")), Holder("another"), seconds=600)
    try:
        yield scene.run_dag(TOGETHER)
    finally:
        lease.end()


@pytest.fixture(scope="module")
def cancelled(scene: Scene, many: Ended) -> Ended:
    """A run of the third query only, after the other run's lease, that ends when Spark begins.

    Its program is stopped before, so that it cannot end but by its task.
    """
    assert many.state == "failed"
    (lease,) = (scene.checkpoint("many_held") / "_statemaint/lease").glob("*.json")
    lease.unlink()
    run = scene.admin.trigger(TOGETHER, {"queries": ["many_held"]})
    ended = Ended(scene.admin, TOGETHER, run, "failed")
    deadline = time.monotonic() + 300
    while not (begun := programs(scene, "many_held")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    for number in begun:
        os.kill(number, signal.SIGSTOP)
    scene.admin.patch(f"/api/v2/dags/{TOGETHER}/dagRuns/{quote(run)}", {"state": "failed"})
    scene.admin.wait_for_run(TOGETHER, run)
    return ended


@pytest.fixture(scope="module")
def later(scene: Scene, cancelled: Ended) -> Ended:
    """The next run of that query, at once."""
    assert cancelled.state == "failed"
    return scene.run_dag(TOGETHER, {"queries": ["many_held"]})


def programs(scene: Scene, query: str) -> list[int]:
    """Returns the processes of Spark's programs that work on a query."""
    place = str(scene.checkpoint(query))
    found = psutil.process_iter(["cmdline"])
    return [one.pid for one in found if {place, "units"} <= {*(one.info["cmdline"] or ())}]


def last_run(scene: Scene, query: str) -> str:
    """Returns the last run's outcome that the page with all queries shows for one."""
    body = scene.admin.page("/statemaint/queries").body
    (row,) = [one for one in body.split("<tr") if f'data-v="{query}"' in one]
    found = re.search(r'<a class="airflow"[^>]*><[^>]*>([^<]*)<', row)
    assert found
    return found[1].strip()


def test_one_task_on_spark_maintains_what_is_sound_of_all_queries(
    scene: Scene, many: Ended
) -> None:
    assert many.states == {"plan": "success", "spark": "failed", "report": "success"}
    assert many.state == "failed"
    assert snapshots(scene.checkpoint("many_good")) == BOTH
    assert snapshots(scene.checkpoint("many_damaged")) == {0: [FLOOR, TARGET]}
    assert snapshots(scene.checkpoint("many_held")) == {}
    assert many.log("spark").count("running ") == 1


def test_the_failure_names_the_queries_and_the_damaged_partition(many: Ended) -> None:
    (reason,) = re.findall(
        r"AirflowFailException: (many_.*?)(?:\\n|\"|$)", many.log("spark"), re.MULTILINE
    )
    assert "many_damaged: op 0 / part 1: BROKEN_CHAIN: state/0/1/7.delta is missing" in reason
    assert "many_held: LEASE_HELD: " in reason
    assert "many_good" not in reason
    assert many.instance("spark").tries == 1


def test_each_query_has_its_metrics_its_report_and_its_figures(scene: Scene, many: Ended) -> None:
    report = xcom(scene, many, "report", "return_value")
    successes = {name: one["success"] for name, one in report.items()}
    assert successes == {"many_good": True, "many_damaged": False, "many_held": False}
    assert report["many_good"]["files"] == 32
    failed = re.compile(r'_last_run_failed{cause="(\w+)",query="\w+"} 1\.0')
    causes = {name: failed.findall(scene.pushed.query(name)) for name in report}
    assert causes == {"many_good": [], "many_damaged": ["damage"], "many_held": ["lease"]}
    damaged = scene.pushed.query("many_damaged")
    assert 'statemaint_findings{code="BROKEN_CHAIN",query="many_damaged"} 1.0' in damaged
    assert f'dag="{TOGETHER}"' in damaged
    figures = xcom(scene, many, "report", "statemaint_fleet.many_damaged")
    assert (figures["partitions"], figures["blocked"], figures["written"]) == (2, 1, 2)


def test_only_what_succeeded_updates_its_asset(scene: Scene, many: Ended) -> None:
    updated = {one["name"] for one in events(scene, many)}
    assert updated == {"statemaint://many_good", "statemaint://many_damaged/findings"}


def test_the_note_counts_the_queries_and_names_those_that_failed(scene: Scene, many: Ended) -> None:
    note = wait_for_note(scene, many)
    assert note.startswith("3 queries, 2 failed: 6 snapshots written, 48 files deleted ")
    assert "many_damaged: 2 snapshots written" in note
    assert "many_held: Nothing was maintained: LEASE_HELD: " in note


def test_each_query_ends_its_lease_and_leaves_no_file_of_its_units(
    scene: Scene, many: Ended
) -> None:
    assert many.state == "failed"
    for query in ("many_good", "many_damaged"):
        assert claim(scene, query).ended
        assert [*LocalStorage(scene.checkpoint(query)).list("_statemaint/units")] == []
    assert not claim(scene, "many_held").ended


def test_a_dry_run_of_one_query_shows_its_plan_and_writes_nothing(
    scene: Scene, many: Ended
) -> None:
    assert many.state == "failed"
    before = tree_hash(scene.checkpoint("many_damaged"))
    dry = scene.run_dag(TOGETHER, {"dry_run": True, "queries": ["many_damaged"]})
    assert dry.states == {"plan": "failed", "spark": "upstream_failed", "report": "skipped"}
    assert "many_damaged: DRY RUN: BROKEN_CHAIN" in dry.log("plan")
    assert tree_hash(scene.checkpoint("many_damaged")) == before
    assert last_run(scene, "many_damaged") == "failed, dry run"
    assert last_run(scene, "many_good") == "success"


def test_a_cancelled_run_ends_sparks_program_and_its_lease(scene: Scene, cancelled: Ended) -> None:
    assert cancelled.states["report"] == "success"
    deadline = time.monotonic() + 60  # Airflow looks every few seconds whether a task is to end
    while programs(scene, "many_held"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert snapshots(scene.checkpoint("many_held")) == {}
    assert claim(scene, "many_held").ended
    assert not xcom(scene, cancelled, "report", "return_value")["many_held"]["success"]
    assert events(scene, cancelled) == []


def test_a_run_of_one_query_leaves_the_others_and_their_outcomes(
    scene: Scene, later: Ended
) -> None:
    assert later.state == "success"
    assert snapshots(scene.checkpoint("many_held")) == BOTH
    outcomes = {one: last_run(scene, one) for one in ("many_good", "many_damaged", "many_held")}
    assert outcomes["many_held"] == "success"
    assert outcomes["many_good"] == "success"
    assert outcomes["many_damaged"].startswith("failed")
    page = scene.admin.page(f"/statemaint/dags/{TOGETHER}?query=many_good").body
    assert "Every partition loads at version 25." in page
    assert "{&#34;force_snapshot&#34;: true, &#34;queries&#34;: [&#34;many_good&#34;]}" in page


def test_a_query_that_the_dag_does_not_have_is_refused(scene: Scene, many: Ended) -> None:
    assert many.state == "failed"
    before = tree_hash(scene.checkpoint("many_good"))
    refused = scene.run_dag(TOGETHER, {"partitions": [0]})
    assert refused.states["plan"] == "failed"
    assert (
        "CONFIG: the run's configuration has 'partitions', which is not an option"
        in refused.log("plan")
    )
    assert tree_hash(scene.checkpoint("many_good")) == before
