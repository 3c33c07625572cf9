"""The DAG of a query's savepoints in a real Airflow: it makes, lists and expires."""

import json
from pathlib import Path

import pytest

from statemaint.audit import verify
from statemaint.execute.lease import acquire
from statemaint.maintain.record import read_record
from statemaint.records.claims import Holder
from statemaint.storage import LocalStorage
from tests.systems.airflow.conftest import SAVING, Ended, Scene
from tests.systems.airflow.forking import Pythons
from tests.systems.airflow.test_dag_file import described
from tests.systems.airflow.test_runs import wait_for_state

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

PAGE = "/statemaint/dags/statemaint__backed"


@pytest.fixture(scope="module")
def runs(scene: Scene) -> list[Ended]:
    """A dry run, a misspelt one, one that saves an older batch, and one that saves the newest."""
    confs: list[dict[str, object]] = [{"dry_run": True}, {"bach": 23}, {"batch": 23}, {}]
    return [scene.run_dag(SAVING, conf) for conf in confs]


@pytest.fixture(scope="module")
def folder(scene: Scene, runs: list[Ended]) -> Path:
    assert runs
    return scene.folder / "to/backed"


def test_the_form_refuses_what_it_does_not_know_and_shows_a_dry_run(runs: list[Ended]) -> None:
    dry, misspelt, *_ = runs
    assert (dry.state, dry.states) == ("success", {"savepoint": "success", "expire": "skipped"})
    assert "DRY RUN: would save batch 24 to " in dry.log("savepoint")
    assert misspelt.states == {"savepoint": "failed", "expire": "upstream_failed"}
    assert "has 'bach', which is not an option" in misspelt.log("savepoint")


def test_each_run_makes_one_and_the_rules_leave_the_newest(runs: list[Ended], folder: Path) -> None:
    *_, first, second = runs
    done = {"savepoint": "success", "expire": "success"}
    assert [first.states, second.states] == [done, done]
    assert "23: whole, " in first.log("expire")
    assert "kept as newest last" in first.log("expire")
    assert "23: deleted" in second.log("expire")
    assert [one.name for one in folder.iterdir()] == ["24"]
    assert verify(LocalStorage(folder / "24"), deep=True).findings == ()


def test_the_record_and_the_pushgateway_have_the_newest(scene: Scene, folder: Path) -> None:
    record = read_record(LocalStorage(scene.checkpoint("backed")))
    assert record
    assert record.savepoint
    assert record.savepoint.batch == 24
    pushed = scene.pushed.query("backed")
    assert f'statemaint_last_savepoint_bytes{{query="backed"}} {record.savepoint.bytes}' in pushed
    assert "statemaint_last_savepoint_timestamp_seconds" in pushed
    assert "statemaint_savepoint_expected_interval_seconds" in pushed
    assert "last_run" not in pushed
    tasks = scene.pushed.tasks("backed")
    assert tasks["savepoint-0"]["state"] == tasks["savepoint-expire"]["state"] == "succeeded"
    assert tasks["savepoint-0"]["stores_done"] == tasks["savepoint-0"]["stores_planned"] == 4
    assert tasks["savepoint-expire"]["files_deleted"] > 4
    assert folder.exists()


def test_the_page_shows_the_newest_and_has_a_button(scene: Scene, folder: Path) -> None:
    assert folder.exists()
    page = scene.admin.page(PAGE).body
    assert "The newest savepoint is of batch 24, just now" in page
    assert f'data-dag="{SAVING}" data-conf="{{}}"' in page.replace("&#34;", '"')
    viewer = scene.airflow.client("viewer").page(PAGE).body
    assert f"Savepoint: You have no right to run the DAG {SAVING}." in viewer
    other = scene.admin.page("/statemaint/dags/statemaint__unseen").body
    assert "Savepoint: There is no DAG statemaint_savepoint__unseen." in other


def test_a_damaged_savepoint_fails_expire_and_stays(scene: Scene, folder: Path) -> None:
    (scene.folder / "to/backed/1/_statemaint").mkdir(parents=True)
    (folder / "1/_statemaint/savepoint.json").write_text(json.dumps({"v": 9}), encoding="utf-8")
    ended = scene.run_dag(SAVING)
    assert ended.states == {"savepoint": "success", "expire": "failed"}
    assert "CHECKPOINT: " in ended.log("expire")
    assert ended.instance("expire").tries == 1
    assert (folder / "1/_statemaint/savepoint.json").exists()


def test_a_folder_that_cannot_be_written_is_tried_again_and_fails_in_one_line(
    scene: Scene, folder: Path
) -> None:
    (scene.folder / "file").touch()
    ended = scene.run_dag(SAVING, {"to": f"{scene.folder}/file/below"})
    assert ended.states == {"savepoint": "failed", "expire": "upstream_failed"}
    assert ended.instance("savepoint").tries == 4
    assert [one.name for one in folder.iterdir() if one.name != "1"] == ["24"]


def test_a_lease_that_another_run_holds_is_waited_for(scene: Scene, folder: Path) -> None:
    to = folder / "2"
    to.mkdir()
    lease = acquire(LocalStorage(to), Holder("another run"))
    run = scene.admin.trigger(SAVING, {"to": str(to), "new_id": True})
    held = Ended(scene.admin, SAVING, run, "running")
    wait_for_state(held, "savepoint", "up_for_reschedule")
    lease.release()
    scene.admin.wait_for_run(SAVING, run)
    assert held.instance("savepoint").state == "success"
    assert held.instance("savepoint").tries == 1
    assert "LEASE_HELD: " in held.log("savepoint")
    assert verify(LocalStorage(to)).findings == ()


def test_each_enabled_query_with_savepoints_has_a_dag(pythons: Pythons, tmp_path: Path) -> None:
    found = described(
        pythons,
        tmp_path,
        """
queries:
  none: {checkpoint: /n}
  off: {checkpoint: /o, enabled: false, savepoint: {to: "/to/{batch}"}}
  manual: {checkpoint: /m, schedule: "@hourly", savepoint: {to: "/to/{query}/{batch}"}}
  shared: {checkpoint: /s, engine: spark, together: x, savepoint: {to: "/to/{query}/{batch}"}}
  daily:
    checkpoint: /d
    after: orders
    owner: streaming
    pool: big
    timeout: 2h
    retries: 5
    deadline: 3h
    notify: [{call: json.dumps}]
    savepoint: {to: "/to/{query}/{batch}", schedule: "@daily", keep: {last: 7, weekly: 4}}
""",
    )
    assert not found["errors"]
    dags = {name.removeprefix("statemaint_savepoint__"): dag for name, dag in found["dags"].items()}
    assert {"manual", "shared", "daily"} == {*dags} - {*found["dags"]}
    daily = dags["daily"]
    assert (daily["schedule"], dags["manual"]["schedule"]) == ("0 0 * * *", None)
    assert (daily["max_active_runs"], daily["catchup"]) == (1, False)
    assert (daily["notified"], daily["deadline"]) == (1, None)
    assert [*daily["params"]] == ["batch", "new_id", "to", "dry_run"]
    assert "last 7, weekly 4" in daily["doc"]
    assert daily["tasks"]["savepoint"]["downstream"] == ["expire"]
    for task in daily["tasks"].values():
        arguments = task["arguments"]
        assert (arguments["owner"], arguments["pool"]) == ("streaming", "big")
        assert (arguments["timeout"], task["retries"], task["outlets"]) == (7200.0, 5, [])
