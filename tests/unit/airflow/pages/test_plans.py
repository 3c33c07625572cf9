"""The routes of plans, on a database of Airflow's own: what they answer, and to whom."""

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from fastapi.routing import APIRoute
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session

from statemaint.airflow.pages import app as routes
from statemaint.airflow.pages.records import runs_with_plans
from statemaint.airflow.pages.sources import UnknownQueryError
from statemaint.airflow.plans import PLAN, KeptPlan
from statemaint.report.summary import Group, Step

DAG = "statemaint__a"
BEGAN = datetime(2026, 11, 29, tzinfo=UTC)


def plan(query: str, *paths: str) -> dict[str, Any]:
    rows = [Step("delete", path, "below_base", 10, 0, 1, "default") for path in paths]
    counts = [Group("delete", 0, "default", "below_base", len(rows), 10 * len(rows))]
    return KeptPlan(
        verb="maintain", query=query, checkpoint=f"/data/{query}", steps=len(rows), actions=rows,
        counts=counts, largest=rows,
    ).model_dump(mode="json")  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Two runs that keep plans, the second of two queries, and one that keeps none."""
    engine = create_engine("sqlite://")
    import_all_models()  # type: ignore[no-untyped-call]
    Base.metadata.create_all(engine)
    kept: dict[str, dict[str, Any]] = {
        "one": {PLAN: plan("a", "1.delta", "2.delta")},
        "two": {f"{PLAN}.a": plan("a", "2.delta", "=3.delta"), f"{PLAN}.b": plan("b", "9.delta")},
        "none": {"statemaint_planned": {}},
    }
    with Session(engine) as made:
        for number, (name, xcoms) in enumerate(kept.items(), start=1):
            began = BEGAN + timedelta(hours=number)
            run = {
                "id": number, "dag_id": DAG, "run_id": name, "run_type": "manual",
                "_state": "success", "start_date": began, "run_after": began, "clear_number": 0,
                "span_status": "ended",
            }  # fmt: skip
            made.execute(insert(DagRun), [run])
            of_run = {
                "dag_run_id": number, "dag_id": DAG, "run_id": name, "task_id": "plan",
                "map_index": -1, "timestamp": began,
            }  # fmt: skip
            rows = [{**of_run, "key": key, "value": value} for key, value in xcoms.items()]
            made.execute(insert(XComModel), rows)
        made.commit()
        yield made


def text(answer: Any) -> str:
    return bytes(answer.body).decode()


def test_every_route_of_a_dag_is_behind_the_right_to_read_its_runs() -> None:
    of_dags = [
        route
        for route in routes.app().routes
        if isinstance(route, APIRoute) and route.path.startswith("/dags/")
    ]
    assert {route.path for route in of_dags} >= {
        "/dags/{dag_id}/plans/{run_id}",
        "/dags/{dag_id}/plans/{run_id}/diff/{other}",
    }
    right = routes._MAY_READ_RUNS.dependency
    for route in of_dags:
        assert right in [part.dependency for part in route.dependencies], route.path


def test_a_plan_is_a_page_and_two_downloads(session: Session) -> None:
    page = routes._plan(DAG, "one", session)
    assert "<code>1.delta</code>" in text(page)
    assert "/plans/one/diff/two?query=a" in text(page)
    as_json = routes._plan(DAG, "one", session, format="json")
    assert as_json.headers["content-disposition"] == 'attachment; filename="plan-a-one.json"'
    assert [step["path"] for step in json.loads(text(as_json))["actions"]] == ["1.delta", "2.delta"]
    as_csv = routes._plan(DAG, "two", session, query="a", format="csv")
    assert as_csv.headers["content-disposition"].endswith('"plan-a-two.csv"')
    assert as_csv.headers["content-type"].startswith("text/csv")
    assert [row[1] for row in csv.reader(text(as_csv).splitlines())][1:] == ["2.delta", "'=3.delta"]
    for answer in (page, as_json, as_csv):
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_run_of_several_queries_keeps_a_plan_of_each(session: Session) -> None:
    page = text(routes._plan(DAG, "two", session, query="b"))
    assert "<code>9.delta</code>" in page
    assert "2.delta" not in page
    assert "/plans/two?query=a" in page


def test_two_plans_of_one_query_are_compared(session: Session) -> None:
    page = text(routes._difference(DAG, "two", "one", session, query="a"))
    added, gone, unchanged = (
        page.index(f"<h2>{name}") for name in ("Added", "Removed", "Unchanged")
    )
    assert added < page.index("=3.delta") < gone < page.index("1.delta") < unchanged
    assert unchanged < page.index("2.delta")


@pytest.mark.parametrize(("run", "query"), [("none", None), ("gone", None), ("two", "c")])
def test_a_run_without_a_plan_says_who_keeps_one(
    session: Session, run: str, query: str | None
) -> None:
    with pytest.raises(UnknownQueryError, match="dry runs, repairs, rollbacks and undos keep"):
        routes._plan(DAG, run, session, query=query)


def test_runs_with_a_plan_are_known_newest_first(session: Session) -> None:
    assert runs_with_plans(session, DAG) == ["two", "one"]
    assert runs_with_plans(session, "another") == []


def test_the_address_of_a_query_leads_to_its_page_for_those_who_may_read_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = [SimpleNamespace(query="a", dag=DAG, invalid=None)]

    def manager(readable: set[str]) -> Any:
        return lambda: SimpleNamespace(get_authorized_dag_ids=lambda **_: readable)

    by_right = "statemaint.airflow.pages.records.records"
    monkeypatch.setattr(by_right, lambda _, readable, _dag: listed if DAG in readable else [])
    monkeypatch.setattr(routes, "get_auth_manager", manager({DAG}))
    answer = routes._find("a", None, None)  # type: ignore[arg-type]
    assert answer.status_code == 302
    assert answer.headers["location"] == f"/statemaint/dags/{DAG}?query=a"
    monkeypatch.setattr(routes, "get_auth_manager", manager(set()))
    with pytest.raises(UnknownQueryError, match="no DAG that you may read"):
        routes._find("a", None, None)  # type: ignore[arg-type]
