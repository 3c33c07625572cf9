"""The tasks of a DAG of several queries, without an Airflow: what one query does to the others."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from statemaint.airflow import passed_on, publish, run_tasks, tasks
from statemaint.airflow.settings import QuerySettings
from statemaint.airflow.tasks import Planned
from statemaint.model.policy import Policy
from statemaint.report.task import Failure

NAMES, TASK = ("a", "b"), {"task_id": "t", "map_index": -1, "try_number": 1}
PASSING, DAMAGE = Failure("STORAGE: away", retry=True), Failure("CORRUPT_FILE: commits/9")


class Run:
    """A run of both queries, as a task sees it; it keeps what the task passes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pushed: dict[str, Any] = {}
        self.queries = [QuerySettings(name, f"/{name}", Policy()) for name in NAMES]
        outlets = [SimpleNamespace(name=f"statemaint://{name}") for name in NAMES]
        self.context: dict[str, Any] = {
            "ti": SimpleNamespace(xcom_push=self.pushed.__setitem__, **TASK),
            "params": {},
            "dag_run": SimpleNamespace(conf={}, run_id="r"),
            "task": SimpleNamespace(outlets=outlets),
            "outlet_events": {},
        }
        for module in (passed_on, publish, run_tasks):
            monkeypatch.setattr(module, "get_current_context", lambda: self.context)
        self.maintained: dict[str, bool] = {}
        monkeypatch.setattr(run_tasks, "update_assets", self.note_update)

    def note_update(self, _: object, query: str, report: dict[str, Any]) -> None:
        self.maintained[query] = bool(report.get("maintained"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def plan(run: Run, monkeypatch: pytest.MonkeyPatch, *failures: Failure | None) -> None:
    plans = [Planned(failure=one) for one in failures]
    monkeypatch.setattr(run_tasks, "_plans", lambda *_: plans)
    run_tasks._plan_all_task(run.queries).function()


def test_a_plan_that_fails_for_all_is_tried_again_where_one_failure_may_pass(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AirflowException, match=r"a: STORAGE: away; b: CORRUPT_FILE") as caught:
        plan(run, monkeypatch, PASSING, DAMAGE)
    assert not isinstance(caught.value, AirflowFailException), "which would not be tried again"


@pytest.mark.parametrize("failures", [(PASSING, None), (DAMAGE, DAMAGE)])
def test_otherwise_spark_does_what_was_planned_and_has_the_failures(
    run: Run, monkeypatch: pytest.MonkeyPatch, failures: tuple[Failure | None, ...]
) -> None:
    plan(run, monkeypatch, *failures)
    said = [run.pushed[f"planned.{name}"]["failure"] for name in NAMES]
    assert said == [one and one.reason for one in failures]


def test_a_fault_in_the_end_of_one_query_is_on_its_page_and_does_not_stop_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"query": "b", "success": True, "note": "fine", "maintained": True, "broken": []}

    def reported(settings: QuerySettings, *_: object, **__: object) -> tuple[dict[str, Any], Any]:
        if settings.query == "a":
            raise KeyError("units")
        return good, {"note": "fine"}

    monkeypatch.setattr(tasks, "reported", reported)
    monkeypatch.setattr(run_tasks, "results_from", lambda *_: None)
    found = run_tasks._report_all_task(run.queries).function()
    assert found["b"] == good
    assert not found["a"]["success"]
    assert run.pushed["statemaint_failed.a"] == "FAULT: KeyError: 'units'"
    assert run.maintained == {"a": False, "b": True}


def test_a_report_that_airflow_does_not_take_is_no_fault_of_the_query(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([ConnectionError("Airflow is away")])

    def once(*_: object) -> None:
        if error := next(answers, None):
            raise error

    monkeypatch.setattr(tasks, "reported", lambda *_, **__: ({"maintained": True}, {"note": "x"}))
    monkeypatch.setattr(run_tasks, "results_from", lambda *_: None)
    monkeypatch.setattr(run_tasks, "pass_on", once)
    with pytest.raises(ConnectionError, match="Airflow is away"):
        run_tasks._report_all_task(run.queries).function()


def test_an_option_of_another_dag_is_refused_before_its_value(run: Run) -> None:
    run.context["dag_run"].conf = run.context["params"] = {"operators": "x"}
    with pytest.raises(AirflowFailException, match="has 'operators', which is not an option"):
        run_tasks._chosen(run.queries)
    assert "has 'operators'" in run.pushed["statemaint_refused"]


def test_a_query_of_another_dag_is_refused(run: Run) -> None:
    run.context["params"] = {"queries": ["c"]}
    with pytest.raises(AirflowFailException, match="does not maintain c, but a, b") as caught:
        run_tasks._chosen(run.queries)
    assert run.pushed["statemaint_refused"] == str(caught.value)


def test_a_run_whose_tasks_are_of_two_builds_fails_with_what_to_do() -> None:
    of_earlier = {"label": "op 0 / part 3", "summary": None, "reason": None, "retry": False}
    with pytest.raises(
        AirflowFailException, match=r"CONFIG: .*another build.*; clear the whole run"
    ):
        passed_on.results_of(None, [of_earlier])
