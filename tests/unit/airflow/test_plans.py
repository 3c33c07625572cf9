"""The plans that runs leave for the pages: what is kept, downloaded and compared."""

import csv
import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow import passed_on, plans
from statemaint.airflow.pages.records import file_name
from statemaint.airflow.plans import PLAN, KeptPlan, difference, kept_plan, plan_csv, read_plan
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import plan_query
from statemaint.audit import doctor
from statemaint.model.policy import Policy
from statemaint.recover import plan_rollback
from statemaint.report.summary import Step
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint

LAST = 25
POLICY = Policy(min_batches_to_retain=5, grace=0.0)


def made(folder: Path) -> LocalStorage:
    folder.mkdir()
    storage = LocalStorage(folder)
    write_checkpoint(storage, last=LAST, batches=range(16, LAST), partitions=2)
    return storage


def dry_run(folder: Path, policy: Policy = POLICY) -> dict[str, Any]:
    planned = plan_query(QuerySettings("hourly", str(folder), policy), Options(dry_run=True))
    kept: dict[str, Any] = planned.shown[PLAN]
    return kept


def plan(*rows: tuple[str, str], steps: int = 0) -> KeptPlan:
    actions = [Step(action, path, "below_base", 10, 0, 1, "default") for action, path in rows]
    return KeptPlan(
        verb="maintain", query="a", checkpoint="/a", steps=steps or len(rows), actions=actions,
        counts=[], largest=[],
    )  # fmt: skip


def test_a_dry_run_has_the_restart_that_doctor_forecasts(tmp_path: Path) -> None:
    storage = made(tmp_path / "c")
    settings = QuerySettings("hourly", str(tmp_path / "c"), replace(POLICY, restart_within=30.0))
    shown = plan_query(settings, Options(dry_run=True)).shown["statemaint_fleet"]
    found = doctor(storage)
    assert found.load
    now, after = (found.forecast.seconds(load).high for load in (found.load, found.load_after))
    assert shown["restart"] == pytest.approx(now, abs=0.01)
    assert shown["restart_least"] == pytest.approx(after, abs=0.01)
    assert shown["restart_limit"] == 30.0


def test_a_dry_run_keeps_every_step_and_its_counts(tmp_path: Path) -> None:
    made(tmp_path / "c")
    found = read_plan(json.loads(json.dumps(dry_run(tmp_path / "c"))))
    assert found is not None
    assert (found.verb, found.query, found.steps) == ("maintain", "hourly", len(found.actions))
    assert found.facts == {"target version": 25, "floor": 17}
    assert sum(group.files for group in found.counts) == found.steps
    deleted = next(group for group in found.counts if group.action == "delete")
    sizes = [path.stat().st_size for n in (0, 1) for path in (tmp_path / f"c/state/0/{n}").iterdir()
             if path.name in {step.path.rpartition("/")[2] for step in found.actions}]  # fmt: skip
    assert (deleted.place, deleted.bytes) == ("operator 0, default", sum(sizes))
    assert deleted.meaning.startswith("a proved snapshot above it replaces it")
    ordered = [step.bytes for step in found.largest]
    assert ordered == sorted(ordered, reverse=True)
    assert len(ordered) == 10


def test_the_log_of_a_dry_run_counts_and_names_the_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    made(tmp_path / "c")
    kept = dry_run(tmp_path / "c")
    assert any(
        line.startswith("DRY RUN: would delete ") and "operator 0, default: a proved" in line
        for line in caplog.messages
    )
    assert not any(".delta" in line for line in caplog.messages)
    pushed: dict[str, Any] = {}
    context = {
        "ti": SimpleNamespace(xcom_push=pushed.__setitem__),
        "dag_run": SimpleNamespace(dag_id="statemaint__a", run_id="manual__1+00:00"),
    }
    monkeypatch.setattr(passed_on, "get_current_context", lambda: context)
    passed_on.pass_on({PLAN: kept})
    assert pushed == {PLAN: kept}
    assert caplog.messages[-1].endswith(
        "/statemaint/dags/statemaint__a/plans/manual__1%2B00%3A00?query=hourly"
    )


def test_of_a_plan_that_is_too_large_the_counts_and_the_first_steps_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "c")
    whole = dry_run(tmp_path / "c")
    monkeypatch.setattr(plans, "MOST_BYTES", 1000)
    short = dry_run(tmp_path / "c")
    assert 0 < len(json.dumps(short["actions"])) <= 1000
    assert short["actions"] == whole["actions"][: len(short["actions"])]
    assert {**short, "actions": 0} == {**whole, "actions": 0}
    assert (KeptPlan.model_validate(short).cut, KeptPlan.model_validate(whole).cut) == (True, False)


def test_a_plan_of_another_build_is_none() -> None:
    kept = plan().model_dump()
    assert read_plan(kept) == plan()
    assert read_plan({**kept, "new": 1}) == plan()
    assert read_plan({**kept, "v": 2}) is None
    assert read_plan(None) is None


def test_a_rollback_keeps_its_plan(tmp_path: Path) -> None:
    storage = made(tmp_path / "c")
    found = KeptPlan.model_validate(kept_plan("a", plan_rollback(storage, 20)))
    assert (found.verb, found.facts) == ("rollback", {"batch": 20})
    assert {step.action for step in found.actions} == {"remove"}
    assert "logs and metadata" in {group.place for group in found.counts}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_the_csv_is_a_formula(start: str) -> None:
    content = plan_csv(plan(("delete", f"{start}cmd|' /C calc'!A0")))
    header, row = csv.reader(content.splitlines(keepends=True))
    assert header[:3] == ["action", "path", "reason"]
    assert row[1] == f"'{start}cmd|' /C calc'!A0"
    assert row[3:6] == ["10", "0", "1"]


def test_a_download_has_a_file_name_without_anything_odd() -> None:
    kept = plan(("delete", "p"))
    assert file_name('manual__1+00:00"\r\nX: y', kept) == "plan-a-manual__1-00-00-X-y"
    (action,) = plans.plan_json(kept)["actions"]
    assert (action["path"], action["reason"]) == ("p", "below_base")
    assert plan_csv(kept).startswith("action,path,")


def test_two_plans_differ_by_path_and_step() -> None:
    before = plan(("delete", "1"), ("delete", "2"), ("attest", "3"))
    after = plan(("delete", "2"), ("delete", "3"), ("delete", "4"))
    found = difference(before, after)
    paths = [[step.path for step in part] for part in found.values()]
    assert paths == [["3", "4"], ["1", "3"], ["2"]]
