"""The runs that are under way, with the progress of their tasks, for the pages' script."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import State
from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from statemaint.airflow.pages.records import chosen_queries, ours

_UNDER_WAY = ("queued", "running")
# Each takes a slot of Airflow's; a longer list is of no use.
_MOST_RUNS = 500
_DONE = frozenset(str(getattr(state, "value", state)) for state in State.finished)


def activity(
    session: Session, readable: Collection[str], now: datetime, dag: str | None = None
) -> list[dict[str, Any]]:
    """Returns the runs under way of readable DAGs, or of one of them, the oldest first."""
    selected = select(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.start_date, DagRun.conf)
    selected = selected.where(DagRun.state.in_(_UNDER_WAY), DagRun.dag_id.in_(ours(dag)))
    runs = [run for run in session.execute(selected.order_by(DagRun.id)) if run[0] in readable]
    counts = _counts(session, [(run[0], run[1]) for run in runs[:_MOST_RUNS]])
    return [
        {
            "dag": name,
            "run": run,
            "state": str(getattr(state, "value", state)),
            "queries": chosen_queries(conf),
            **progress(counts.get((name, run), Counter()), started, now),
        }
        for name, run, state, started, conf in runs[:_MOST_RUNS]
    ]


def progress(states: Counter[str], started: datetime | None, now: datetime) -> dict[str, Any]:
    """Returns the tasks done, all tasks, and the seconds left if the rest takes as long."""
    done, total = sum(states[state] for state in _DONE), states.total()
    left = None
    if started and 0 < done < total:
        left = max(0, round((now - started).total_seconds() / done * (total - done)))
    return {"done": done, "total": total, "left": left}


def _counts(
    session: Session, runs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], Counter[str]]:
    task, counts = TaskInstance, dict[tuple[str, str], Counter[str]]()
    if not runs:
        return counts
    selected = select(task.dag_id, task.run_id, task.state, func.count())
    selected = selected.where(tuple_(task.dag_id, task.run_id).in_(runs))
    for dag, run, state, count in session.execute(
        selected.group_by(task.dag_id, task.run_id, task.state)
    ):
        counts.setdefault((dag, run), Counter())[str(getattr(state, "value", state))] += count
    return counts
