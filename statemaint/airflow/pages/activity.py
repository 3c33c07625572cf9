"""The work under way: runs with the progress of their tasks, and what operators acknowledge.

An acknowledgement says that an operator is working on the queries of a DAG, until a time. It is the
first line of a note on a run of the DAG, `ack until 2026-11-30T10:00Z: text`, which the pages'
script writes through Airflow's API. It holds until its end, whatever runs follow.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.models.dagrun import DagRun, DagRunNote
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import State
from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from statemaint.airflow.names import ACKNOWLEDGED
from statemaint.airflow.pages.query import Acknowledgement
from statemaint.airflow.pages.records import chosen_queries, ours

_UNDER_WAY = ("queued", "running")
# Each takes a slot of Airflow's; a longer list is of no use.
_MOST_RUNS = 500
_LINE = re.compile(rf"{ACKNOWLEDGED}(\d{{4}}-\d\d-\d\dT\d\d:\d\d)Z: ?(.*)")
# An end later than this is cut; no older run is looked at.
LONGEST = timedelta(days=7)
# Only the worst DAGs are looked up.
_MOST_DAGS = 500
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


def _counts(session: Session, runs: list[tuple[str, str]]) -> dict[tuple[str, str], Counter[str]]:
    task, counts = TaskInstance, dict[tuple[str, str], Counter[str]]()
    by = (task.dag_id, task.run_id, task.state)
    selected = select(*by, func.count()).where(tuple_(task.dag_id, task.run_id).in_(runs))
    for dag, run, state, count in session.execute(selected.group_by(*by)) if runs else ():
        counts.setdefault((dag, run), Counter())[str(getattr(state, "value", state))] += count
    return counts


def acknowledgements(
    session: Session, dags: Iterable[str], now: datetime
) -> dict[str, Acknowledgement]:
    """Returns the acknowledgements that hold, by DAG: of each the one on its newest run."""
    named = list(dict.fromkeys(dags))[:_MOST_DAGS]
    noted = (
        select(DagRun.dag_id, DagRunNote.content, DagRunNote.user_id, DagRunNote.updated_at)
        .join(DagRunNote, DagRunNote.dag_run_id == DagRun.id)
        .where(DagRun.dag_id.in_(named), DagRunNote.updated_at > now - LONGEST)
        .where(DagRunNote.content.startswith(ACKNOWLEDGED, autoescape=True))
        .order_by(DagRunNote.updated_at)
    )
    newest = {
        note.dag_id: ack
        for note in (session.execute(noted) if named else ())
        if (ack := parsed(note.content, user=_name(note.user_id)))
    }
    return {
        dag: replace(ack, until=min(ack.until, now + LONGEST))
        for dag, ack in newest.items()
        if now < ack.until
    }


def _name(user: str | None) -> str:
    """Returns the name of a user; empty where the auth manager has only numbers."""
    return "" if user is None or user.isdigit() else user


def parsed(note: str, *, user: str = "") -> Acknowledgement | None:
    match = _LINE.match(note)
    if not match:
        return None
    try:
        until = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Acknowledgement(until, match[2].strip(), user)
