"""A real Airflow with a fleet of 300, and what the stories happen to, for `test_stories.py`.

All DAGs are Airflow's own, of a queries file. The last runs of the fleet, and what they left, are
put into Airflow's database: 300 runs would take many minutes. Whatever a story starts really runs.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import create_engine, insert

from statemaint.airflow.figures import FLEET, PARTITIONS, figures_json, partitions_json
from statemaint.report.facts import Unit
from tests.support.paths import ROOT
from tests.systems.airflow.support import DAGS, PLUGINS, THRIFTY, neglected
from tests.systems.browser.scene import Scene
from tests.systems.browser.spark_query import counted_by_spark
from tools.demo.airflow import Setup, airflow

HOURLY = [f"hourly_{number:03d}" for number in range(288)]
NIGHTLY = [f"nightly_{number:02d}" for number in range(12)]
"""Together the fleet. The hourly ones have no checkpoint; the nightly ones wait to be compacted."""
FRESH = ["fresh_clicks", "fresh_orders"]
"""Their DAGs are as Airflow has made them: paused, and without a run."""
REVENUE, REVENUE_FILES = "revenue", 8
"""A real query of Spark, and how many files it has read."""

_CHAIN = 25


@contextmanager
def stories_scene(folder: Path) -> Iterator[Scene]:
    """Runs the Airflow for the length of a `with` block."""
    for name in (*NIGHTLY, *FRESH):
        neglected(folder / name, partitions=1 if name in NIGHTLY else 4, last=_CHAIN)
    (folder / "queries.yaml").write_text(_queries(folder), encoding="utf-8")
    with ThreadPoolExecutor(1) as pool:
        query = pool.submit(counted_by_spark, folder / REVENUE, REVENUE_FILES)
        with airflow(_setup(folder)) as running:
            admin = running.client()
            for dag in (f"statemaint__{FRESH[-1]}", "statemaint_rollback", "statemaint_verify"):
                admin.wait_for_dag(dag, seconds=300.0)
            _leave_runs(folder)
            for name in (*NIGHTLY, REVENUE):
                admin.unpause(f"statemaint__{name}")
            query.result()
            yield Scene(running, folder, admin)


def _queries(folder: Path) -> str:
    fleet = (f"  {name}: {{checkpoint: {folder}/{name}, tags: [fleet]}}\n" for name in HOURLY)
    nightly = (f"  {name}: {{checkpoint: {folder}/{name}, tags: [fleet]}}\n" for name in NIGHTLY)
    fresh = (f"  {name}: {{checkpoint: {folder}/{name}}}\n" for name in FRESH)
    revenue = f"  {REVENUE}: {{checkpoint: {folder}/{REVENUE}/checkpoint}}\n"
    defaults = "defaults: {min_batches_to_retain: 5, grace: 0s, trash_for: 7d}\nqueries:\n"
    return "".join((defaults, *fleet, *nightly, revenue, *fresh))


def _setup(folder: Path) -> Setup:
    return Setup(
        home=folder / "home",
        dags=DAGS,
        plugins=PLUGINS,
        queries=folder / "queries.yaml",
        triggerer=True,
        environ={
            **THRIFTY,
            "PYTHONPATH": str(ROOT),
            # Parsed once: a fleet of 300 takes seconds of the processor, however long they last.
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "240",
            "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "270",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
        },
    )


def _leave_runs(folder: Path) -> None:
    """Leaves a successful run, two hours old, of each query of the fleet."""
    ended = datetime.now(UTC) - timedelta(hours=2)
    runs = [_run(number, name, ended) for number, name in enumerate((*HOURLY, *NIGHTLY), 1)]
    engine = create_engine(f"sqlite:///{folder / 'home/airflow.db'}", connect_args={"timeout": 60})
    with engine.begin() as connection:
        connection.execute(insert(DagRun.__table__), [run for run, _ in runs])
        connection.execute(
            insert(XComModel.__table__), [xcom for _, xcoms in runs for xcom in xcoms]
        )
    engine.dispose()


def _run(number: int, name: str, ended: datetime) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    chain = _CHAIN if name in NIGHTLY else number % 9
    units = [Unit(0, 0, chain, _CHAIN, 10**6 + number, chain, 10**5 * chain, 0, 0, 0)]
    about = {"query": name, "checkpoint": f"/{name}", "success": True, "verdict": "healthy"}
    figures = figures_json(units, [], {**about, "committed": 24, "target": 25})
    dag, run_id = f"statemaint__{name}", f"scheduled__{ended.isoformat()}"
    run = {
        "id": number,
        "dag_id": dag,
        "run_id": run_id,
        "run_type": "scheduled",
        "state": "success",
        "start_date": ended,
        "end_date": ended,
        "run_after": ended,
        "clear_number": 0,
        "span_status": "ended",
    }
    place = {"dag_run_id": number, "dag_id": dag, "run_id": run_id, "task_id": "report"}
    left = {FLEET: figures, PARTITIONS: partitions_json(units, [])}
    return run, [
        {**place, "map_index": -1, "key": key, "value": value, "timestamp": ended}
        for key, value in left.items()
    ]
