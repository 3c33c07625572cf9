"""Acknowledgements: an operator is working on the queries of a DAG, until a time.

Each is the first line of a note on a run of the query's DAG, `ack until 2026-11-30T10:00Z: text`,
which the pages' script writes through Airflow's API. It holds until its end, whatever runs follow.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.models.dagrun import DagRun, DagRunNote
from sqlalchemy import select
from sqlalchemy.orm import Session

from statemaint.airflow.names import ACKNOWLEDGED
from statemaint.airflow.pages.query_facts import Acknowledgement

_LINE = re.compile(rf"{ACKNOWLEDGED}(\d{{4}}-\d\d-\d\dT\d\d:\d\d)Z: ?(.*)")
# An end later than this is cut; no older run is looked at.
LONGEST = timedelta(days=7)
# Only the worst DAGs are looked up.
_MOST_DAGS = 500


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
    return _holding(session.execute(noted), now) if named else {}


def _holding(notes: Iterable[Any], now: datetime) -> dict[str, Acknowledgement]:
    newest = {
        note.dag_id: ack
        for note in notes
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
    """Returns the acknowledgement in the first line of a note, if it is one."""
    match = _LINE.match(note)
    if not match:
        return None
    try:
        until = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Acknowledgement(until, match[2].strip(), user)
