"""Maintenance inside a user's own DAGs, in a real Airflow that knows the package by its wheel.

Its database is PostgreSQL where that is installed, and else SQLite.
"""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from statemaint.audit import verify
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.systems.airflow.conftest import Ended
from tests.systems.airflow.production import Production
from tests.systems.airflow.support import FLOOR, TARGET, snapshots
from tools.demo.airflow import Airflow
from tools.demo.airflow_client import Client

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

DAGS = ("group", "damaged", "skipped", "gate", "mending_gate", "operators", "dag")
BOTH_IN_ALL = {partition: [FLOOR, TARGET] for partition in range(4)}
PARTITIONS = dict.fromkeys((f"op 0 / part {number}" for number in range(4)), "success")


@pytest.fixture(scope="module")
def folder(production: Production) -> Path:
    return production.own


@pytest.fixture(scope="module")
def running(production: Production) -> Airflow:
    return production.airflow


@pytest.fixture(scope="module")
def admin(running: Airflow) -> Client:
    return running.client()


@pytest.fixture(scope="module")
def runs(admin: Client) -> Mapping[str, Ended]:
    """One run of each DAG, all at the same time."""
    begun = {}
    for name in DAGS:
        admin.wait_for_dag(f"own_{name}")
        admin.unpause(f"own_{name}")
        begun[name] = admin.trigger(f"own_{name}")
    return {name: ended(admin, name, run) for name, run in begun.items()}


def ended(admin: Client, name: str, run: str) -> Ended:
    dag = f"own_{name}"
    return Ended(admin, dag, run, admin.wait_for_run(dag, run))


def xcom(run: Ended, task: str, key: str = "return_value") -> Any:
    path = f"/api/v2/dags/{run.dag}/dagRuns/{quote(run.run)}/taskInstances/{task}/xcomEntries"
    return run.client.get(f"{path}/{key}?deserialize=true")["value"]


def updated(run: Ended) -> dict[str, Any]:
    """Returns the Assets that a run has updated, each with the `extra` of its event."""
    path = f"/api/v2/assets/events?source_dag_id={run.dag}&limit=100"
    events = run.client.get(path)["asset_events"]
    return {one["name"]: one["extra"] for one in events if one["source_run_id"] == run.run}


def test_airflow_lists_what_the_package_brings(admin: Client) -> None:
    assert admin.import_errors() == []
    assert admin.get("/api/v2/plugins/importErrors")["import_errors"] == []
    names = [one["name"] for one in admin.get("/api/v2/plugins")["plugins"]]
    assert sorted(names) == ["statemaint", "statemaint_listener"]
    packages = [
        one["package_name"] for one in admin.get("/api/v2/providers?limit=100")["providers"]
    ]
    assert "statemaint" in packages


def test_a_group_behind_a_task_maintains_and_what_follows_runs(
    runs: Mapping[str, Ended], folder: Path
) -> None:
    run = runs["group"]
    assert run.state == "success"
    tasks = ("run_query", "statemaint.plan", "statemaint.report", "statemaint.done", "next_query")
    assert run.states == {**PARTITIONS, **dict.fromkeys(tasks, "success")}
    assert snapshots(folder / "grouped") == BOTH_IN_ALL
    assert updated(run)["statemaint://grouped"]["snapshots"] == 8


def test_a_group_without_work_is_followed_all_the_same(
    runs: Mapping[str, Ended], admin: Client
) -> None:
    assert runs["group"].state == "success"
    again = ended(admin, "group", admin.trigger("own_group"))
    assert again.states["statemaint.maintain"] == "skipped"
    assert (again.state, again.states["next_query"]) == ("success", "success")
    assert updated(again) == {}


def test_a_group_with_damage_stops_what_follows_and_notifies_once(
    runs: Mapping[str, Ended], folder: Path
) -> None:
    run = runs["damaged"]
    assert (run.state, run.states["next_query"]) == ("failed", "upstream_failed")
    assert run.states["op 0 / part 2"] == "failed"
    assert list(updated(run)) == ["statemaint://damaged/findings"]
    assert updated(run)["statemaint://damaged/findings"]["findings"] == ["BROKEN_CHAIN"]
    assert (folder / "notified/own_damaged").exists()


def test_a_group_behind_a_skipped_task_is_skipped(runs: Mapping[str, Ended]) -> None:
    run = runs["skipped"]
    assert run.state == "success"
    assert set(run.states.values()) == {"skipped"}


def test_the_gate_fails_before_a_broken_checkpoint(runs: Mapping[str, Ended]) -> None:
    run = runs["gate"]
    assert (run.state, run.states) == ("failed", {"gate": "failed", "query": "upstream_failed"})
    assert "the query would not restart unless its Spark is 4.2 or later" in run.log("gate")
    assert "next: `statemaint doctor " in run.log("gate")
    assert run.instance("gate").tries == 1
    assert not xcom(run, "gate", "found")["healthy"]


def test_the_gate_repairs_first_and_the_query_goes_on(runs: Mapping[str, Ended]) -> None:
    run = runs["mending_gate"]
    assert (run.state, run.states) == ("success", {"gate": "success", "query": "success"})
    found = xcom(run, "gate")
    assert found["healthy"]
    assert found["repaired"]
    assert "repaired; `statemaint undo " in run.log("gate")


def test_operators_maintain_verify_and_wait(runs: Mapping[str, Ended], folder: Path) -> None:
    run = runs["operators"]
    assert run.state == "success"
    for name in ("single", "one", "two"):
        assert snapshots(folder / name) == BOTH_IN_ALL
    assert not xcom(run, "verify")["healthy"]
    assert xcom(run, "wait")["chain"] == 0
    assert sorted(updated(run)) == ["statemaint://single", "statemaint://torn/findings"]


def test_a_dag_in_python_is_that_of_the_queries_file(
    runs: Mapping[str, Ended], folder: Path
) -> None:
    run = runs["dag"]
    assert run.state == "success"
    assert run.states == {**PARTITIONS, "plan": "success", "report": "success"}
    assert snapshots(folder / "dagged") == BOTH_IN_ALL


def test_tasks_link_to_the_fleet_page_and_to_the_dashboard(
    runs: Mapping[str, Ended], running: Airflow
) -> None:
    for run, task, query in (("dag", "plan", "dagged"), ("mending_gate", "gate", "mending_gate")):
        path = f"/api/v2/dags/own_{run}/dagRuns/{quote(runs[run].run)}/taskInstances/{task}/links"
        assert runs[run].client.get(path)["extra_links"] == {
            "State of the query": f"{running.url}/statemaint/queries/{query}",
            "Dashboard": f"http://grafana/d/state?var-query={query}",
        }


def test_a_repair_is_shown_and_carried_out_after_an_approval(admin: Client, folder: Path) -> None:
    form = {"query": "repaired"}
    assert manual(admin, "verify", form).state == "failed"
    bad = folder / f"repaired/state/0/1/{TARGET}.snapshot"
    shows = f"- **largest**: `state/0/1/{TARGET}.snapshot (bad_snapshot"
    rejected = manual(admin, "repair", form, answer="Reject", shows=shows)
    assert (rejected.states["apply"], bad.read_bytes()) == ("skipped", b"torn")
    done = manual(admin, "repair", form, answer="Approve", shows=shows)
    assert (done.state, done.states["apply"]) == ("success", "success")
    assert len(xcom(done, "apply")["removed"]) == 1
    assert manual(admin, "verify", {**form, "deep": True}).state == "success"


def test_tasks_of_manual_work_report_each_in_a_file_of_its_own(folder: Path) -> None:
    """After the repair above: its tasks and those of the verifications before and after it."""
    states = reports(folder / "metrics", "repaired")
    assert states == dict.fromkeys(("verify-0", "repair-plan", "repair-apply"), "succeeded")
    applied = (folder / "metrics").glob("statemaint_repaired@repair-apply@*.prom")
    assert re.search(r"task_files_deleted\{.*\} 1\.0", next(applied).read_text())


def reports(folder: Path, query: str) -> dict[str, str]:
    """Returns the state of each task of a query, from its files."""
    files = folder.glob(f"statemaint_{query}@*.prom")
    return {
        one.name.split("@")[1]: re.findall(r'state="(\w+)"', one.read_text())[0] for one in files
    }


def test_a_key_that_the_form_of_manual_work_does_not_have_is_refused(
    admin: Client, folder: Path
) -> None:
    before = contents(folder / "rolled")
    refused = manual(admin, "rollback", {"query": "rolled", "batch": 20, "dry_run": True})
    assert (refused.state, refused.states["apply"]) == ("failed", "upstream_failed")
    assert "AirflowFailException: CONFIG: the run's configuration has 'dry_run'" in refused.log(
        "plan"
    )
    assert contents(folder / "rolled") == before


def test_a_rollback_and_its_undo_are_shown_and_carried_out_after_approvals(
    admin: Client, folder: Path
) -> None:
    checkpoint, form = folder / "rolled", {"query": "rolled"}
    before = contents(checkpoint)
    gone = manual(
        admin, "rollback", {**form, "batch": 20}, answer="Approve",
        shows="from batch 24",
    )  # fmt: skip
    assert (gone.state, gone.states["apply"]) == ("success", "success")
    assert not (checkpoint / "commits/21").exists()
    run = xcom(gone, "apply")["run"]
    shows = "undo of run"
    rejected = manual(admin, "undo", {**form, "run": run}, answer="Reject", shows=shows)
    assert rejected.states["apply"] == "skipped"
    assert not (checkpoint / "commits/24").exists()
    back = manual(admin, "undo", {**form, "run": run}, answer="Approve", shows=shows)
    assert (back.state, back.states["apply"]) == ("success", "success")
    assert xcom(back, "apply")["left"] == {}
    assert contents(checkpoint) == before


def test_another_shape_is_shown_and_saved_after_an_approval(admin: Client, folder: Path) -> None:
    to = folder / "reshaped"
    form = {"query": "undone", "to": str(to), "codec": "zstd"}
    shows = "codec lz4 to zstd"
    rejected = manual(admin, "reshape", form, answer="Reject", shows=shows)
    assert rejected.states["apply"] == "skipped"
    assert not to.exists()
    done = manual(admin, "reshape", form, answer="Approve", shows=shows)
    assert (done.state, done.states["apply"]) == ("success", "success")
    code = f'.option("checkpointLocation", "{to}")'
    assert xcom(done, "apply")["code"] == [code]
    assert code in done.log("apply")
    assert verify(LocalStorage(to), deep=True).healthy


def test_an_undo_that_is_another_one_when_it_is_approved_is_not_done(
    admin: Client, folder: Path
) -> None:
    checkpoint = folder / "undone"
    policy = Policy(min_batches_to_retain=5, grace=0.0, trash_for=3600.0)
    run = maintain(LocalStorage(checkpoint), policy).run
    changed = checkpoint / "state/0/0/3.delta"
    refused = manual(
        admin, "undo", {"query": "undone", "run": run}, answer="Approve",
        shows="it brings back",
        meanwhile=lambda: changed.write_bytes(b"written again"),
    )  # fmt: skip
    assert (refused.state, refused.states["apply"]) == ("failed", "failed")
    assert "SUPERSEDED: " in refused.log("apply")
    assert not (checkpoint / "state/0/1/1.delta").exists()


def test_maintenance_follows_the_asset_of_the_querys_own_dag(admin: Client, folder: Path) -> None:
    dag = "statemaint__followed"
    for name in ("own_query", dag):
        admin.wait_for_dag(name)
        admin.unpause(name)
    assert ended(admin, "query", admin.trigger("own_query")).state == "success"
    deadline = time.monotonic() + 300
    while not (found := admin.get(f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert found[0]["run_type"] == "asset_triggered"
    assert admin.wait_for_run(dag, found[0]["dag_run_id"]) == "success"
    assert snapshots(folder / "followed") == BOTH_IN_ALL


def test_a_sensor_waits_in_the_triggerer_until_the_chains_are_short(
    admin: Client, folder: Path
) -> None:
    admin.wait_for_dag("own_waiting")
    admin.unpause("own_waiting")
    run = admin.trigger("own_waiting")
    waiting, deadline = Ended(admin, "own_waiting", run, "running"), time.monotonic() + 300
    while waiting.states.get("wait") != "deferred":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    maintain(LocalStorage(folder / "awaited"), Policy(min_batches_to_retain=5, grace=0.0))
    assert admin.wait_for_run("own_waiting", run) == "success"
    assert xcom(waiting, "wait")["chain"] == 0


def test_a_group_behind_a_pyspark_task_maintains_and_the_query_goes_on(
    admin: Client, folder: Path
) -> None:
    """Between two runs of a real query, which continues from what maintenance left."""
    admin.wait_for_dag("own_spark")
    admin.unpause("own_spark")
    for committed in (3, 7):
        run = ended(admin, "spark", admin.trigger("own_spark"))
        assert run.state == "success", run.states
        batches = [int(one.name) for one in (folder / "hourly/checkpoint/commits").iterdir()
                   if one.name.isdecimal()]  # fmt: skip
        assert max(batches) == committed
        (event,) = [one for one in updated(run).items() if one[0] == "statemaint://hourly"]
        assert (event[1]["target"], event[1]["broken"]) == (committed + 1, [])
    assert verify(LocalStorage(folder / "hourly/checkpoint"), deep=True).healthy


def contents(checkpoint: Path) -> dict[str, bytes]:
    """Returns the query's own files."""
    return {
        str(one.relative_to(checkpoint)): one.read_bytes()
        for one in checkpoint.rglob("*")
        if one.is_file() and "_statemaint" not in one.parts
    }


def manual(
    admin: Client,
    name: str,
    form: Mapping[str, Any],
    answer: str | None = None,
    *,
    shows: str = "",
    meanwhile: Callable[[], object] = lambda: None,
) -> Ended:
    """Runs one of the DAGs for manual work, and answers what it asks once `meanwhile` is over."""
    dag = f"statemaint_{name}"
    admin.wait_for_dag(dag)
    admin.unpause(dag)
    run = admin.trigger(dag, form)
    if answer:
        path = f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances/approve/-1/hitlDetails"
        deadline = time.monotonic() + 300
        # The question is there before its task waits for the answer, and Airflow fails a task that
        # is answered before the scheduler has heard that its process has ended.
        asked, seen = Ended(admin, dag, run, "running"), 0
        while seen < 6:
            assert time.monotonic() < deadline, asked.states
            seen += asked.states.get("approve") == "awaiting_input"
            time.sleep(0.5)
        assert shows in admin.get(path)["body"]
        meanwhile()
        admin.patch(path, {"chosen_options": [answer], "params_input": {}})
    return Ended(admin, dag, run, admin.wait_for_run(dag, run))
