"""The pages of plans: one plan, and the difference of two, from what runs have left for them."""

import re
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from statemaint.airflow.names import of_query
from statemaint.airflow.pages.sources import NoPlanError
from statemaint.airflow.plans import PLAN, KeptPlan, difference, read_plan

# Of a longer plan, the downloads have the rest.
MOST_SHOWN = 2_000
_MOST_RUNS = 10
_KEY = or_(XComModel.key == PLAN, XComModel.key.startswith(of_query(PLAN, ""), autoescape=True))


def plan_of(session: Session, dag: str, run: str, query: str | None) -> KeptPlan:
    """Returns the plan of a query, by default the first, that a run keeps."""
    key = XComModel.key.in_((PLAN, of_query(PLAN, query))) if query else _KEY
    selected = select(XComModel.value).where(_of_run(dag, run), key).order_by(XComModel.timestamp)
    # One at a time: each may have megabytes.
    for value in session.scalars(selected.execution_options(yield_per=1)):
        plan = read_plan(value)
        if plan and query in (None, plan.query):
            return plan
    raise NoPlanError(
        f"the run {run} of {dag} keeps no plan{f' of {query}' if query else ''}: dry runs, "
        "repairs, rollbacks and undos keep theirs as long as Airflow keeps the run"
    )


def _of_run(dag: str, run: str) -> Any:
    return (XComModel.dag_id == dag) & (XComModel.run_id == run)


def _queries_of(session: Session, dag: str, run: str) -> list[str]:
    """Returns the queries of a run that keeps the plans of several."""
    keys = select(XComModel.key).where(_of_run(dag, run), _KEY).order_by(XComModel.key)
    prefix = of_query(PLAN, "")
    return [key.removeprefix(prefix) for key in session.scalars(keys) if key != PLAN]


def runs_with_plans(session: Session, dag: str) -> list[str]:
    """Returns the last runs of a DAG that keep a plan, the newest first."""
    kept = select(XComModel.dag_run_id).where((XComModel.dag_id == dag) & _KEY)
    newest = select(DagRun.run_id).where(DagRun.id.in_(kept)).order_by(DagRun.id.desc())
    return list(session.scalars(newest.limit(_MOST_RUNS)))


def of_plan(
    session: Session, dag: str, run: str, query: str | None, other: str | None = None
) -> dict[str, Any]:
    """Returns the values of the page of a plan, or of its difference from that of another run."""
    plan = plan_of(session, dag, run, query)
    before = plan_of(session, dag, other, plan.query) if other else None
    return {
        "dag": dag,
        "run": run,
        "plan": plan,
        "most": MOST_SHOWN,
        "queries": [name for name in _queries_of(session, dag, run) if name != plan.query],
        "others": [kept for kept in runs_with_plans(session, dag) if kept != run],
        "other": other,
        "before": before,
        "compared": before and difference(before, plan),
    }


def file_name(run: str, plan: KeptPlan) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"plan-{plan.query}-{run}").strip(".-")[:150]
