"""A fleet in a database of Airflow's, for `test_fleet.py`: `python -m ... QUERIES RUNS PARTITIONS`.

Prints, as JSON, what the page with all queries and the page of one query cost.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.models import import_all_models
from airflow.models.asset import AssetModel, TaskOutletAssetReference
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import Engine, create_engine, event, insert
from sqlalchemy.orm import Session

from statemaint.airflow.figures import FLEET, PARTITIONS, figures_json, partitions_json
from statemaint.airflow.pages import contents
from statemaint.airflow.pages.records import details, records
from statemaint.airflow.pages.render import render
from statemaint.report.facts import Unit

_LAST = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
_PLACE = {"root": "", "pages": "/statemaint"}
_BUNDLE = "dags"


def main(queries: int, runs: int, partitions: int) -> None:
    """Fills a database, and prints the costs of the pages."""
    engine = database()
    counted = _counted(engine)
    with Session(engine) as session:
        fill(session, queries, runs, partitions)
        fleet = _cost(counted, lambda: _fleet_page(session, queries))
        query = _cost(counted, lambda: _query_page(session))
    print(json.dumps({"fleet": fleet, "query": query}))  # noqa: T201


def database() -> Engine:
    """Returns a new database with the tables of Airflow, in memory."""
    engine = create_engine("sqlite://")
    import_all_models()  # type: ignore[no-untyped-call]
    Base.metadata.create_all(engine)
    return engine


def _fleet_page(session: Session, queries: int) -> str:
    dags = {f"statemaint__q{number}" for number in range(queries)}
    return render(
        "queries.html", **contents.of_fleet(records(session, dags), session, dags), **_PLACE
    )


def _query_page(session: Session) -> str:
    (record,) = records(session, {"statemaint__q0"}, "statemaint__q0")
    found = contents.of_query(record, details(session, record), source=None, refused={})
    rest: dict[str, Any] = {"unknown": "", "live": False, "others": [], "paused": {}, "planned": []}
    rest["may_note"] = True
    return render("query.html", **found, **rest, **_PLACE)


def _cost(counted: list[str], make: Callable[[], str]) -> dict[str, float]:
    """Returns what making a page costs: statements, seconds by the clock and of the processor."""
    counted.clear()
    began, used = time.perf_counter(), time.process_time()
    page = make()
    return {
        "statements": len(counted),
        "seconds": round(time.perf_counter() - began, 3),
        "cpu": round(time.process_time() - used, 3),
        "rows": page.count('<th scope="row"'),
        "cells": page.count('class="cell"'),
        "bytes": len(page),
    }


def _counted(engine: Engine) -> list[str]:
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    return found


def fill(session: Session, queries: int, runs: int, partitions: int) -> None:
    """Adds queries with some runs each, the last of which has left its partitions."""
    numbers = range(queries)
    session.execute(insert(DagBundleModel), [{"name": _BUNDLE, "active": True}])
    session.execute(insert(DagModel), [_dag(number) for number in numbers])
    session.execute(insert(AssetModel), [_asset(number) for number in numbers])
    session.execute(insert(TaskOutletAssetReference), [_outlet(number) for number in numbers])
    for run in range(runs):
        session.execute(insert(DagRun), [run_of(number, run, queries) for number in numbers])
        session.execute(
            insert(XComModel),
            [xcom_of(number, run, queries, FLEET, partitions) for number in numbers],
        )
    last = runs - 1
    session.execute(insert(XComModel), [xcom_of(0, last, queries, PARTITIONS, partitions)])
    session.commit()


def _dag(number: int) -> dict[str, Any]:
    return {
        "dag_id": f"statemaint__q{number}",
        "is_paused": False,
        "is_stale": False,
        "bundle_name": _BUNDLE,
        "max_active_tasks": 16,
        "max_consecutive_failed_dag_runs": 0,
        "has_task_concurrency_limits": False,
        "timetable_type": "cron",
    }


def _asset(number: int) -> dict[str, Any]:
    name = f"statemaint://q{number}"
    return {"id": number + 1, "name": name, "uri": name, "group": "asset", "extra": {}}


def _outlet(number: int) -> dict[str, Any]:
    place = {"dag_id": f"statemaint__q{number}", "task_id": "report"}
    return {"asset_id": number + 1, "allow_global_consumers": True, **place}


def run_of(number: int, run: int, queries: int) -> dict[str, Any]:
    """Returns a run of a query."""
    began = _LAST + timedelta(hours=run)
    return {
        "id": run * queries + number + 1,
        "dag_id": f"statemaint__q{number}",
        "run_id": f"scheduled__{began.isoformat()}",
        "run_type": "scheduled",
        "_state": "success",
        "start_date": began,
        "end_date": began,
        "run_after": began,
        "clear_number": 0,
        "span_status": "ended",
    }


def xcom_of(number: int, run: int, queries: int, key: str, partitions: int) -> dict[str, Any]:
    """Returns the figures that a run of a query has left."""
    units = [Unit(0, one, 25, 10, 10**6, 26, 10**6, 10**5, 0, one % 2) for one in range(partitions)]
    about = {"query": f"q{number}", "checkpoint": f"/data/q{number}", "committed": 9, "target": 10}
    about["chains"] = list(range(30))
    made = figures_json(units, [], about) if key == FLEET else partitions_json(units, [])
    began = _LAST + timedelta(hours=run)
    return {
        "dag_run_id": run * queries + number + 1,
        "dag_id": f"statemaint__q{number}",
        "run_id": f"scheduled__{began.isoformat()}",
        "task_id": "report",
        "map_index": -1,
        "key": key,
        "value": made,
        "timestamp": began,
    }


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
