"""Acknowledgements: somebody works on a query, until a time.

One is the first line of a note on a run of the query's DAG, `ack until 2026-11-30T10:00Z: text`,
which the pages' script writes through Airflow's API. It holds until its end, whatever runs follow.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.models.dagrun import DagRun, DagRunNote
from sqlalchemy import select
from sqlalchemy.orm import Session

from statemaint.airflow.pages.fleet import Acknowledgement

_PREFIX = "ack until "
_LINE = re.compile(rf"{_PREFIX}(\d{{4}}-\d\d-\d\dT\d\d:\d\d)Z: ?(.*)")
# An end later than this is cut; no older run is looked at.
LONGEST = timedelta(days=7)
# Of a fleet in flames the worst are looked at.
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
        .where(DagRunNote.content.startswith(_PREFIX, autoescape=True))
        .order_by(DagRunNote.updated_at)
    )
    return _holding(session.execute(noted), now) if named else {}


def _holding(notes: Iterable[Any], now: datetime) -> dict[str, Acknowledgement]:
    newest = {
        note.dag_id: ack for note in notes if (ack := parsed(note.content, user=note.user_id or ""))
    }
    return {dag: ack for dag, ack in newest.items() if now < ack.until <= now + LONGEST}


def parsed(note: str, *, user: str = "") -> Acknowledgement | None:
    """Returns the acknowledgement in the first line of a note, if it is one."""
    found = _LINE.match(note)
    if not found:
        return None
    try:
        until = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Acknowledgement(until, found[2].strip(), user)
