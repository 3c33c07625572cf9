"""Real runs in a real Airflow."""

import time
from typing import Any

import pytest

from statemaint.demo.airflow_client import ApiError
from statemaint.execute import Claim, newest
from statemaint.storage import LocalStorage
from tests.systems.airflow.conftest import Ended, Scene, obstacle
from tests.systems.airflow.support import FLOOR, TARGET, snapshots, tree_hash

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
    for partition in range(4):
        assert "statemaint_last_success_timestamp_seconds" in scene.pushed.group("good", partition)
    assert "statemaint_snapshot_lag_versions" in scene.pushed.query("good")


def test_a_run_tells_of_itself_by_an_asset_event(scene: Scene, good: Ended) -> None:
    (event,) = events(scene, good)
    assert event["name"] == "statemaint://good"
    extra = event["extra"]
    assert (extra["target"], extra["snapshots"], extra["files"]) == (TARGET, 8, 64)
    assert (extra["halted"], extra["findings"]) == (0, [])


def test_a_run_logs_a_table_of_all_partitions(good: Ended) -> None:
    lines = good.log("report").splitlines()
    assert [line for line in lines if line.startswith("op 0 / part")] != []
    assert any(line.split()[:5] == ["all", "4", "0", "0", "8"] for line in lines)


def test_the_next_run_maps_nothing_and_succeeds(scene: Scene, good: Ended) -> None:
    assert good.state == "success"
    again = scene.run("good")
    assert again.state == "success"
    assert again.states == {"plan": "success", "maintain": "skipped", "report": "success"}


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
    assert 'code="BROKEN_CHAIN"' in scene.pushed.group("damaged", 2)
    (event,) = events(scene, damaged)
    assert (event["extra"]["halted"], event["extra"]["findings"]) == (1, ["BROKEN_CHAIN"])


def test_a_dry_run_shows_what_would_be_done_and_writes_nothing(scene: Scene) -> None:
    before = tree_hash(scene.checkpoint("dry"))
    dry = scene.run("dry", {"dry_run": True})
    assert dry.states == ALL_GOOD
    assert f"dry run: would write state/0/3/{TARGET}.snapshot" in dry.log("op 0 / part 3")
    assert tree_hash(scene.checkpoint("dry")) == before
    assert scene.pushed.group("dry", 3) == ""
    assert events(scene, dry) == []


def test_a_partition_whose_storage_fails_is_tried_again(scene: Scene) -> None:
    dag = "statemaint__flaky"
    run = scene.admin.trigger(dag)
    flaky = Ended(scene.admin, dag, run, "running")
    deadline = time.monotonic() + 60
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
    deadline = time.monotonic() + 60
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
    assert anew.instance("plan").tries == 2
    assert f"attempt 1 at run {held.holder.name}; this is attempt 2" in anew.log("plan")
    assert snapshots(scene.checkpoint("anew")) == BOTH_IN_ALL
    ended = claim(scene, "anew")
    assert (ended.holder.name, ended.holder.attempt, ended.ended) == (held.holder.name, 2, True)
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
    assert labels == ["op 0 / parts 0-2", "op 0 / parts 3-5", "op 0 / parts 6-9"]
    found = snapshots(scene.checkpoint("wide"))
    assert list(found) == list(range(10))
    assert {tuple(versions) for versions in found.values()} == {(FLOOR, TARGET)}


def test_a_query_without_a_committed_batch_is_left_alone(scene: Scene) -> None:
    before = tree_hash(scene.checkpoint("fresh"))
    fresh = scene.run("fresh")
    assert fresh.state == "success"
    assert fresh.states == {"plan": "success", "maintain": "skipped", "report": "success"}
    assert tree_hash(scene.checkpoint("fresh")) == before


def test_a_damaged_commit_log_fails_the_plan_with_its_reason(scene: Scene) -> None:
    ended = scene.run("unreadable")
    assert ended.state == "failed"
    states = {"plan": "failed", "maintain": "upstream_failed", "report": "success"}
    assert ended.states == states
    assert "AirflowFailException: UNREADABLE_COMMIT: commits/24" in ended.log("plan")
    assert ended.instance("plan").tries == 1
    assert events(scene, ended) == []


def test_a_form_that_asks_for_the_impossible_is_refused(scene: Scene) -> None:
    with pytest.raises(ApiError) as caught:
        scene.admin.trigger("statemaint__good", {"min_batches_to_retain": 0})
    assert caught.value.status == 400


def test_nothing_failed_to_import(scene: Scene) -> None:
    assert scene.admin.import_errors() == []
    assert scene.admin.get("/api/v2/plugins/importErrors")["import_errors"] == []


def events(scene: Scene, ended: Ended) -> list[dict[str, Any]]:
    """Returns the asset events of one run."""
    path = f"/api/v2/assets/events?source_dag_id={ended.dag}&limit=100"
    found = scene.admin.get(path)["asset_events"]
    return [one for one in found if one["source_run_id"] == ended.run]
