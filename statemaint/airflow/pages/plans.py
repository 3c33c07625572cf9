"""The pages of plans: one plan, and the difference of two, from what runs have left for them."""

import re
from collections.abc import Mapping
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from statemaint.airflow.names import of_query
from statemaint.airflow.pages.sources import UnknownQueryError
from statemaint.airflow.plans import PLAN, KeptPlan, difference, plan_csv, plan_json, read_plan

# Of a longer plan, the downloads have the rest.
MOST_SHOWN = 2_000
_MOST_RUNS = 10
_KEY = or_(XComModel.key == PLAN, XComModel.key.startswith(of_query(PLAN, ""), autoescape=True))


def plans_of(session: Session, dag: str, run: str) -> dict[str, KeptPlan]:
    """Returns the plans that a run keeps, by their queries."""
    of_run = (XComModel.dag_id == dag) & (XComModel.run_id == run) & _KEY
    selected = select(XComModel.value).where(of_run).order_by(XComModel.timestamp)
    plans = map(read_plan, session.scalars(selected))
    return {plan.query: plan for plan in plans if plan}


def plan_of(session: Session, dag: str, run: str, query: str | None) -> KeptPlan:
    """Returns the plan of a query, by default the first, that a run keeps.

    Raises:
        UnknownQueryError: when it keeps none.
    """
    plans = plans_of(session, dag, run)
    for name, plan in plans.items():
        if query in (None, name):
            return plan
    what = f"plan of {query}" if query and plans else "plan"
    raise UnknownQueryError(
        f"the run {run} of {dag} keeps no {what}: dry runs, repairs, rollbacks and undos keep "
        "theirs as long as Airflow keeps the run"
    )


def runs_with_plans(session: Session, dag: str) -> list[str]:
    """Returns the last runs of a DAG that keep a plan, the newest first."""
    kept = select(XComModel.dag_run_id).where((XComModel.dag_id == dag) & _KEY)
    newest = select(DagRun.run_id).where(DagRun.id.in_(kept)).order_by(DagRun.id.desc())
    return list(session.scalars(newest.limit(_MOST_RUNS)))


def of_plan(session: Session, dag: str, run: str, query: str | None) -> dict[str, Any]:
    plan = plan_of(session, dag, run, query)
    others = [other for other in runs_with_plans(session, dag) if other != run]
    names = [name for name in plans_of(session, dag, run) if name != plan.query]
    return {**_values(dag, run, plan), "others": others, "queries": names}


def of_difference(
    session: Session, dag: str, run: str, other: str, query: str | None
) -> dict[str, Any]:
    """Returns the values of the page of what a plan has that the other has not, and vice versa."""
    plan = plan_of(session, dag, run, query)
    before = plan_of(session, dag, other, plan.query)
    compared = difference(before, plan)
    return {**_values(dag, run, plan), "other": other, "before": before, "compared": compared}


def _values(dag: str, run: str, plan: KeptPlan) -> dict[str, Any]:
    return {"dag": dag, "run": run, "plan": plan, "most": MOST_SHOWN}


def download(run: str, plan: KeptPlan, kind: str) -> tuple[Any, Mapping[str, str]]:
    """Returns a plan as JSON, or as the text of a CSV file, and the headers that name its file."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"plan-{plan.query}-{run}").strip(".-")[:150]
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return plan_json(plan) if kind == "json" else plan_csv(plan), headers
