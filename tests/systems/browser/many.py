"""The pages of many queries and of many partitions, as the server makes them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from statemaint.airflow.figures import QueryFigures
from statemaint.airflow.pages.fleet import fleet, row_of, totals
from statemaint.airflow.pages.query import AirflowRun, QueryRecord, buttons, heat_map, worst_units
from statemaint.airflow.pages.render import render
from statemaint.airflow.pages.trend import history
from statemaint.report.facts import Unit
from statemaint.report.trend import Point

_TIME = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
_PLACE = {"root": "", "pages": "/statemaint"}


def fleet_page(queries: int) -> str:
    """Returns the page with all queries; `qN` replays N bytes."""
    rows = fleet((_record(number) for number in range(queries)), _TIME)
    dags = frozenset(row.record.dag for row in rows)
    values = {
        "rows": rows,
        "rest": 0,
        "totals": totals(rows),
        "editable": dags,
        "verify": "statemaint_verify",
    }
    return render("queries.html", **values, **_PLACE)


def query_page(partitions: int, points: Sequence[Point] = ()) -> str:
    """Returns the page of one query; its partition N has a chain of N deltas."""
    units = [Unit(0, one, one, one, 10 * one, one, one, 0, 0, 0) for one in range(partitions)]
    record = _record(0)
    values = {
        "row": row_of(record, _TIME),
        "checkpoint": "/data/q0",
        "map": heat_map(units, 10),
        "units": partitions,
        "worst": worst_units(units),
        "advice": (),
        "buttons": buttons(record.dag, record.query, own=True, refused={}),
        "trend": history(points, "healthy"),
        "runs": [record.last],
        "saved": None,
        "saved_at": None,
        "source": object(),
        "suffix": "?query=q0",
        "now": _TIME,
        "unknown": "",
        "live": False,
        "others": [],
        "paused": {},
        "planned": [],
        "commands": (),
        "acknowledged": None,
        "contact": "",
        "contact_link": "",
        "dashboard": "",
        "silence": "",
        "failed_task": None,
        "may_note": True,
    }
    return render("query.html", **values, **_PLACE)


def _record(number: int) -> QueryRecord:
    query = f"q{number}"
    figures = QueryFigures(
        query=query, checkpoint=f"/data/{query}", target=25, replay_bytes=number, partitions=1
    )
    run = AirflowRun("scheduled", "success", "scheduled", _TIME, _TIME)
    dag = f"statemaint__{query}"
    return QueryRecord(dag, "", query, last=run, figures=figures, looked=_TIME)
