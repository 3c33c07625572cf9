"""Runs that looked at nothing, in a database of Airflow's: what the pages show of their queries.

Two queries that a run has looked at; then a run of the first could not plan, and one of the second
was refused for its own arguments. Prints both rows and pages as JSON.
"""

import json
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import insert
from sqlalchemy.orm import Session

from statemaint.airflow.figures import FAILED, REFUSED, TREND
from statemaint.airflow.pages import contents
from statemaint.airflow.pages.records import details, records
from statemaint.airflow.pages.render import render
from statemaint.model.verdict import Verdict
from statemaint.report.trend import Point, Trend
from tests.systems.airflow.many_queries import database, fill, run_of, xcom_of

_PLACE = {"root": "", "pages": "/statemaint"}
_TREND = [
    Trend((Point(3600, verdict),)).to_json() for verdict in (Verdict.UNKNOWN, Verdict.HEALTHY)
]
_WHY = {0: (FAILED, "STORAGE: s3://bucket: no answer"), 1: (REFUSED, "CONFIG: no partition 99")}


def main() -> None:
    """Fills a database, and prints what the pages show."""
    with Session(database()) as session:
        fill(session, 2, 1, 3)
        for number, (key, why) in _WHY.items():
            session.execute(insert(DagRun), [{**run_of(number, 1, 2), "_state": "failed"}])
            xcom = {**xcom_of(number, 1, 2, key, 0), "key": key, "value": why}
            session.execute(insert(XComModel), [xcom])
            # The run that failed has read the history; the one that was refused has not.
            trend = {**xcom_of(number, 1 - number, 2, TREND, 0), "value": _TREND[number]}
            session.execute(insert(XComModel), [trend])
        session.commit()
        dags = {"statemaint__q0", "statemaint__q1"}
        found = contents.of_fleet(records(session, dags), session, frozenset())
        shown = {row.record.query: _shown(session, row) for row in found["rows"]}
    print(json.dumps(shown))  # noqa: T201


def _shown(session: Session, row: Any) -> dict[str, Any]:
    record = row.record
    values = contents.of_query(record, details(session, record), source=None, refused={})
    rest: dict[str, Any] = {"unknown": "", "live": False, "others": [], "paused": {}, "planned": []}
    rest["may_note"] = True
    return {
        "restart": row.verdict.label,
        "why": row.verdict.why,
        "outcome": row.outcome.text,
        "files": row.figures.files,
        "known": row.known,
        "runs": [one.state for one in values["runs"]],
        "page": render("query.html", **values, **rest, **_PLACE),
    }


if __name__ == "__main__":
    main()
