"""Real runs in a real Airflow."""

import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from statemaint.execute.lease import acquire
from statemaint.records.claims import Claim, Holder, newest
from statemaint.storage import LocalStorage
from tests.systems.airflow.conftest import KILLED, Ended, Scene
from tests.systems.airflow.support import (
    FLOOR,
    TARGET,
    kill_process_of,
    obstacle,
    snapshots,
    tree_hash,
)
from tools.demo.airflow_client import ApiError

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

PARTITIONS = [f"op 0 / part {number}" for number in range(4)]
BOTH_IN_ALL = {partition: [FLOOR, TARGET] for partition in range(4)}
ALL_GOOD = {**dict.fromkeys(PARTITIONS, "success"), "plan": "success", "report": "success"}


@pytest.fixture(scope="module")
def good(scene: Scene) -> Ended:
    return scene.run("good")


@pytest.fixture(scope="module")
def damaged(scene: Scene) -> Ended:
    return scene.run("damaged")


def test_a_run_has_a_named_task_for_each_partition(good: Ended) -> None:
    assert good.state == "success"
    assert good.states == ALL_GOOD


def test_a_run_leaves_one_common_version_in_all_partitions(scene: Scene, good: Ended) -> None:
    assert good.state == "success"
    assert snapshots(scene.checkpoint("good")) == BOTH_IN_ALL


def test_a_run_pushes_every_partition_and_the_query(scene: Scene, good: Ended) -> None:
    assert good.state == "success"
    pushed = scene.pushed.query("good")
    assert "statemaint_last_success_timestamp_seconds" in pushed
    assert 'statemaint_snapshot_lag_versions{query="good"} 0.0' in pushed
    chains = scene.pushed.partitions("good", "partition_chain_length")
    assert chains == dict.fromkeys("0123", "0.0")


def test_a_run_tells_of_itself_by_an_asset_event(scene: Scene, good: Ended) -> None:
    (event,) = events(scene, good)
    assert event["name"] == "statemaint://good"
    extra = event["extra"]
    assert (extra["target"], extra["snapshots"], extra["files"]) == (TARGET, 8, 64)
    assert (extra["halted"], extra["findings"]) == (0, [])


def test_a_run_has_a_note_and_a_report_of_what_was_done(scene: Scene, good: Ended) -> None:
    assert wait_for_note(scene, good).startswith("8 snapshots written, 64 files deleted (")
    report = xcom(scene, good, "report", "return_value")
    assert (report["success"], report["broken"], report["todo"]) == (True, [], [])


def test_the_tasks_run_in_a_pool_that_the_plugin_made(scene: Scene, good: Ended) -> None:
    assert good.state == "success"
    pool = scene.admin.get("/api/v2/pools/statemaint")
    assert pool["slots"] == 32
    tasks = scene.admin.get("/api/v2/dags/statemaint__good/tasks")["tasks"]
    assert {one["pool"] for one in tasks} == {"statemaint"}


def test_maintenance_runs_after_the_asset_of_another(scene: Scene, good: Ended) -> None:
    assert good.state == "success"
    deadline = time.monotonic() + 300
    while not (runs := scene.admin.get("/api/v2/dags/statemaint__after/dagRuns")["dag_runs"]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert runs[0]["run_type"] == "asset_triggered"
    assert scene.admin.wait_for_run("statemaint__after", runs[0]["dag_run_id"]) == "success"
    assert snapshots(scene.checkpoint("after")) == BOTH_IN_ALL


def test_a_run_logs_a_table_of_all_partitions(good: Ended) -> None:
    lines = good.log("report").splitlines()
    assert [line for line in lines if line.startswith("op 0 / part")] != []
    assert any(line.split()[:5] == ["all", "4", "0", "0", "8"] for line in lines)


def test_the_next_run_maps_nothing_and_succeeds(scene: Scene, good: Ended) -> None:
    assert good.state == "success"
    again = scene.run("good")
    assert again.state == "success"
    assert again.states == {"plan": "success", "maintain": "skipped", "report": "success"}
    assert events(scene, again) == []
    assert wait_for_note(scene, again) == "Nothing was written or deleted."


def test_a_damaged_partition_fails_its_own_task_and_the_run(damaged: Ended) -> None:
    assert damaged.state == "failed"
    assert damaged.states == {**ALL_GOOD, "op 0 / part 2": "failed"}


def test_a_damaged_partition_says_why_in_its_exception_and_is_not_tried_again(
    damaged: Ended,
) -> None:
    reason = "AirflowFailException: BROKEN_CHAIN: state/0/2/7.delta is missing"
    assert reason in damaged.log("op 0 / part 2")
    assert damaged.instance("op 0 / part 2").tries == 1


def test_the_other_partitions_of_a_damaged_query_are_maintained(
    scene: Scene, damaged: Ended
) -> None:
    assert damaged.state == "failed"
    kept = {partition: BOTH_IN_ALL[partition] for partition in (0, 1, 3)}
    assert snapshots(scene.checkpoint("damaged")) == kept


def test_a_damaged_partition_is_pushed_and_reported(scene: Scene, damaged: Ended) -> None:
    assert 'code="BROKEN_CHAIN"' in scene.pushed.query("damaged")
    halted = scene.pushed.partitions("damaged", "partition_halted_stores")
    assert halted == {"0": "0.0", "1": "0.0", "2": "1.0", "3": "0.0"}
    chains = scene.pushed.partitions("damaged", "partition_chain_length")
    assert chains == {"0": "0.0", "1": "0.0", "2": "NaN", "3": "0.0"}
    (event,) = events(scene, damaged)
    assert event["name"] == "statemaint://damaged/findings"
    assert [one["code"] for one in event["extra"]["broken"]] == ["BROKEN_CHAIN"]
    report = xcom(scene, damaged, "report", "return_value")
    assert (report["halted"], report["findings"]) == (1, ["BROKEN_CHAIN"])
    command = f"statemaint doctor {scene.checkpoint('damaged')}"
    (step,) = report["todo"]
    assert (step["runbook"], step["command"]) == ("docs/runbook.md#broken_chain", command)
    note = wait_for_note(scene, damaged)
    assert "Broken: BROKEN_CHAIN: state/0/2/7.delta is missing" in note
    assert f"Next: `{command}`" in note


def test_who_is_to_be_notified_hears_of_a_failed_run(scene: Scene, damaged: Ended) -> None:
    assert damaged.state == "failed"
    wait_for_file(scene.folder / "notified/statemaint__damaged")


def test_a_dry_run_ends_in_plan_shows_all_of_it_and_writes_nothing(scene: Scene) -> None:
    before = tree_hash(scene.checkpoint("dry"))
    dry = scene.run("dry", {"dry_run": True})
    assert dry.state == "success"
    assert dry.states == {"plan": "success", "maintain": "skipped", "report": "skipped"}
    assert all(one.tries == 0 for one in dry.tasks if one.task != "plan")
    log = dry.log("plan")
    assert "DRY RUN: would write 4 snapshots" in log
    assert "DRY RUN: would delete 64 files (" in log
    assert "/1.delta" not in log
    page = re.search(r"the whole plan: \S+(/statemaint/dags/\S+)", log)
    assert page
    shown = scene.admin.page(page[1].split('"')[0])
    assert (shown.status, "state/0/3/1.delta" in shown.body) == (200, True)
    note = wait_for_note(scene, dry)
    assert note.startswith("DRY RUN, nothing was changed. 8 snapshots would be written, 64 files")
    file = Path(note.split("the whole plan is in ")[1].split()[0])
    assert len(json.loads(file.read_text())["actions"]) == 72
    assert tree_hash(scene.checkpoint("dry")) == before
    assert scene.pushed.query("dry") == ""
    assert events(scene, dry) == []


def test_a_misspelt_option_is_refused_and_nothing_is_done(scene: Scene) -> None:
    before = tree_hash(scene.checkpoint("dry"), without="_statemaint")
    ended = scene.run("dry", {"dry_runn": True})
    assert ended.state == "failed"
    assert ended.states["plan"] == "failed"
    assert ended.instance("plan").tries == 1
    assert "AirflowFailException: CONFIG: the run's configuration has 'dry_runn'" in ended.log(
        "plan"
    )
    # Only that the run failed is recorded.
    assert tree_hash(scene.checkpoint("dry"), without="_statemaint") == before
    assert wait_for_note(scene, ended).startswith("Nothing was maintained: CONFIG: the run's conf")


def test_a_misspelt_entry_is_a_dag_that_fails_with_its_mistake_beside_the_others(
    scene: Scene,
) -> None:
    found = scene.admin.get("/api/v2/dags/statemaint__misspelt/details")
    assert "queries.misspelt.cron: no such key; the keys are" in found["doc_md"]
    ended = scene.run("misspelt")
    assert (ended.state, ended.states) == ("failed", {"configuration": "failed"})
    assert "queries.misspelt.cron: no such key; the keys are" in ended.log("configuration")
    assert "queries.yaml:" in ended.log("configuration")


def test_plan_waits_for_a_lease_without_a_retry_and_then_goes_on(scene: Scene) -> None:
    storage = LocalStorage(scene.checkpoint("held"))
    lease = acquire(storage, Holder("another run"))
    run = scene.admin.trigger("statemaint__held")
    held = Ended(scene.admin, "statemaint__held", run, "running")
    wait_for_state(held, "plan", "up_for_reschedule")
    lease.release()
    assert scene.admin.wait_for_run(held.dag, run) == "success"
    assert held.states == ALL_GOOD
    assert held.instance("plan").tries == 1
    assert "(run another run) maintains it" in held.log("plan")
    assert "looking again in 5 s" in held.log("plan")


def test_a_run_is_made_at_the_time_of_the_schedule(scene: Scene) -> None:
    dag = "statemaint__ticking"
    deadline = time.monotonic() + 300
    while not (runs := scene.admin.get(f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert runs[0]["run_type"] == "scheduled"
    assert scene.admin.wait_for_run(dag, runs[0]["dag_run_id"]) == "success"
    assert snapshots(scene.checkpoint("ticking")) == BOTH_IN_ALL


def test_of_two_runs_at_once_one_waits_for_the_other_and_finds_nothing_left(scene: Scene) -> None:
    dag = "statemaint__twice"
    runs = [scene.admin.trigger(dag) for _ in range(2)]
    while "queued" in (states := [scene.admin.run_state(dag, run) for run in runs]):
        assert states.count("running") <= 1
        time.sleep(0.1)
    ended = [Ended(scene.admin, dag, run, scene.admin.wait_for_run(dag, run)) for run in runs]
    assert [one.state for one in ended] == ["success"] * 2
    first, second = sorted(ended, key=lambda one: "maintain" in one.states)
    assert first.states == ALL_GOOD
    assert second.states["maintain"] == "skipped"
    assert snapshots(scene.checkpoint("twice")) == BOTH_IN_ALL


def test_a_task_whose_process_was_killed_is_tried_again_and_nothing_is_lost(scene: Scene) -> None:
    run = scene.admin.trigger("statemaint__killed")
    deadline = time.monotonic() + 300
    while not snapshots(scene.checkpoint("killed")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    path = f"/api/v2/dags/statemaint__killed/dagRuns/{quote(run)}/taskInstances?task_id=maintain"
    (task,) = scene.admin.get(path)["task_instances"]
    kill_process_of(task["id"])
    assert scene.admin.wait_for_run("statemaint__killed", run) == "success"
    (task,) = scene.admin.get(path)["task_instances"]
    assert task["try_number"] == 2
    both = [KILLED - TARGET + FLOOR, KILLED]
    assert snapshots(scene.checkpoint("killed")) == dict.fromkeys(range(10), both)
    assert claim(scene, "killed").ended


def test_a_cancelled_run_ends_its_lease_counts_for_nothing_and_the_next_one_goes_on(
    scene: Scene,
) -> None:
    dag = "statemaint__cancelled"
    run = scene.admin.trigger(dag)
    first = Ended(scene.admin, dag, run, "running")
    # A task that waits for its retry has no name yet, but the number that it is mapped by.
    wait_for_state(first, "1", "up_for_retry")
    scene.admin.patch(f"/api/v2/dags/{dag}/dagRuns/{quote(run)}", {"state": "failed"})
    scene.admin.wait_for_run(dag, run)  # for Airflow it may be a success: what waited is skipped
    assert first.states["report"] == "success"
    assert not xcom(scene, first, "report", "return_value")["success"]
    assert events(scene, first) == []
    assert claim(scene, "cancelled").ended
    obstacle(scene.checkpoint("cancelled")).unlink()
    assert scene.run("cancelled").state == "success"
    assert snapshots(scene.checkpoint("cancelled")) == BOTH_IN_ALL


def test_a_task_has_its_name_while_it_runs_and_a_late_run_is_told_of(scene: Scene) -> None:
    run = scene.admin.trigger("statemaint__late")
    late = Ended(scene.admin, "statemaint__late", run, "running")
    seen: set[str | None] = set()
    deadline = time.monotonic() + 300
    while not seen & {"op 0 / part 1"}:
        assert time.monotonic() < deadline
        seen |= {one.label for one in late.tasks if one.state in ("running", "up_for_retry")}
        time.sleep(0.05)
    wait_for_file(scene.folder / "notified/statemaint__late")
    obstacle(scene.checkpoint("late")).unlink()
    assert scene.admin.wait_for_run(late.dag, run) == "success"


def test_a_partition_whose_storage_fails_is_tried_again(scene: Scene) -> None:
    dag = "statemaint__flaky"
    run = scene.admin.trigger(dag)
    flaky = Ended(scene.admin, dag, run, "running")
    deadline = time.monotonic() + 300
    while "up_for_retry" not in {one.state for one in flaky.tasks if one.map_index == 1}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    obstacle(scene.checkpoint("flaky")).unlink()
    assert scene.admin.wait_for_run(dag, run) == "success"
    assert flaky.states == ALL_GOOD
    assert flaky.instance("op 0 / part 1").tries > 1
    assert snapshots(scene.checkpoint("flaky")) == BOTH_IN_ALL


def test_a_plan_that_is_cleared_ends_the_lease_of_the_attempt_before(scene: Scene) -> None:
    run = scene.admin.trigger("statemaint__anew")
    anew = Ended(scene.admin, "statemaint__anew", run, "running")
    deadline = time.monotonic() + 300
    while "up_for_retry" not in {one.state for one in anew.tasks if one.map_index == 1}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    held = claim(scene, "anew")
    assert held.holder.name.startswith(f"statemaint__anew/{run}, begun 20")
    assert (held.number, held.holder.attempt, held.ended) == (1, 1, False)
    cleared = {"dag_run_id": run, "task_ids": ["plan"], "include_downstream": True}
    asked = {**cleared, "dry_run": False, "only_failed": False}
    scene.admin.post("/api/v2/dags/statemaint__anew/clearTaskInstances", asked)
    obstacle(scene.checkpoint("anew")).unlink()
    assert scene.admin.wait_for_run(anew.dag, run) == "success"
    tries = anew.instance("plan").tries  # Airflow itself may fail one on a busy machine
    assert tries >= 2
    assert f" at run {held.holder.name}; this is attempt {tries}" in anew.log("plan")
    assert snapshots(scene.checkpoint("anew")) == BOTH_IN_ALL
    ended = claim(scene, "anew")
    assert (ended.holder.name, ended.holder.attempt, ended.ended) == (held.holder.name, tries, True)
    assert ended.holder.nonce != held.holder.nonce


def test_the_tasks_of_a_run_share_a_lease_that_the_report_ends(scene: Scene, good: Ended) -> None:
    assert good.state == "success"
    found = claim(scene, "good")
    assert found.holder.name.startswith(f"statemaint__good/{good.run}, begun 20")
    assert (found.number, found.ended) == (2, True)


def claim(scene: Scene, query: str) -> Claim:
    """Returns the newest claim of a query's lease."""
    found = newest(LocalStorage(scene.checkpoint(query)))
    assert found is not None
    return found


def test_more_partitions_than_tasks_are_bundled(scene: Scene) -> None:
    wide = scene.run("wide")
    assert wide.state == "success"
    labels = [one.label for one in wide.tasks if one.task == "maintain"]
    assert len(labels) == 3
    assert all(label and label.startswith("op 0 / parts ") for label in labels)
    costs = xcom(scene, wide, "report", "costs")
    assert sorted(costs) == sorted(f"op 0 / part {number}" for number in range(10))
    found = snapshots(scene.checkpoint("wide"))
    assert list(found) == list(range(10))
    assert {tuple(versions) for versions in found.values()} == {(FLOOR, TARGET)}


def test_a_query_without_a_committed_batch_is_left_alone(scene: Scene) -> None:
    before = tree_hash(scene.checkpoint("fresh"), without="_statemaint")
    fresh = scene.run("fresh")
    assert fresh.state == "success"
    assert fresh.states == {"plan": "success", "maintain": "skipped", "report": "success"}
    # Only that there was a run is recorded.
    assert tree_hash(scene.checkpoint("fresh"), without="_statemaint") == before


def test_a_damaged_commit_log_fails_the_plan_with_its_reason(scene: Scene) -> None:
    ended = scene.run("unreadable")
    assert ended.state == "failed"
    states = {"plan": "failed", "maintain": "upstream_failed", "report": "success"}
    assert ended.states == states
    assert "AirflowFailException: UNREADABLE_COMMIT: commits/24" in ended.log("plan")
    assert ended.instance("plan").tries == 1
    (event,) = events(scene, ended)
    assert event["name"] == "statemaint://unreadable/findings"


def test_a_form_that_asks_for_the_impossible_is_refused(scene: Scene) -> None:
    with pytest.raises(ApiError) as caught:
        scene.admin.trigger("statemaint__good", {"min_batches_to_retain": 0})
    assert caught.value.status == 400


def test_nothing_failed_to_import(scene: Scene) -> None:
    assert scene.admin.import_errors() == []
    assert scene.admin.get("/api/v2/plugins/importErrors")["import_errors"] == []


def xcom(scene: Scene, ended: Ended, task: str, key: str) -> Any:
    """Returns what a task passed on."""
    path = f"/api/v2/dags/{ended.dag}/dagRuns/{quote(ended.run)}/taskInstances/{task}/xcomEntries"
    return scene.admin.get(f"{path}/{key}?deserialize=true")["value"]


def wait_for_note(scene: Scene, ended: Ended) -> str:
    """Returns the note of a run."""
    deadline = time.monotonic() + 30
    path = f"/api/v2/dags/{ended.dag}/dagRuns/{quote(ended.run)}"
    while not (found := scene.admin.get(path)["note"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return str(found)


def wait_for_file(file: Path) -> None:
    """Waits until a file exists."""
    deadline = time.monotonic() + 300
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wait_for_state(run: Ended, name: str, state: str) -> None:
    """Waits until a task has a state."""
    deadline = time.monotonic() + 300
    while run.states.get(name) != state:
        assert time.monotonic() < deadline, run.states
        time.sleep(0.1)


def events(scene: Scene, ended: Ended) -> list[dict[str, Any]]:
    """Returns the asset events of one run."""
    path = f"/api/v2/assets/events?source_dag_id={ended.dag}&limit=100"
    found = scene.admin.get(path)["asset_events"]
    return [one for one in found if one["source_run_id"] == ended.run]
