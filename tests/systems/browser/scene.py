"""A real Airflow with checkpoints in every state, for the browser's tests and the screenshots."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT
from tests.systems.airflow.support import (
    DAGS,
    PLUGINS,
    THRIFTY,
    damaged,
    neglected,
    uncommitted,
)
from tools.demo.airflow import Airflow, Setup, airflow
from tools.demo.airflow_client import Client

USERS = {"admin": "admin", "viewer": "viewer", "paula": "viewer"}

_QUERIES = """
defaults: {{min_batches_to_retain: 5, grace: 0s, trash_for: 7d}}
queries:
  good: {{checkpoint: {folder}/good}}
  revenue_hourly: {{checkpoint: {folder}/revenue_hourly, schedule: "@daily", max_tasks: 4}}
  clicks: {{checkpoint: {folder}/clicks}}
  sessions: {{checkpoint: {folder}/sessions}}
  joined_orders: {{checkpoint: {folder}/joined_orders, max_tasks: 4}}
  never: {{checkpoint: {folder}/never}}
  misspelt: {{checkpoint: {folder}/misspelt, cron: "@hourly"}}
"""
_OWN = """
from datetime import datetime

from airflow.sdk import DAG

from statemaint.airflow.maintenance_dag import StateMaintenanceDag
from statemaint.airflow.operators import MaintainCheckpointOperator
from statemaint.airflow.task_group import StateMaintenanceTaskGroup

dag = StateMaintenanceDag("own_dag", checkpoint="{folder}/own", query="own_query")

with DAG("mixed_dag", schedule=None, start_date=datetime(2026, 1, 1)) as mixed:
    MaintainCheckpointOperator(task_id="keep", checkpoint="{folder}/kept", query="kept_query")
    StateMaintenanceTaskGroup(checkpoint="{folder}/grouped", query="grouped_query")
"""
RUN = (
    "statemaint__good",
    "statemaint__clicks",
    "statemaint__sessions",
    "statemaint__revenue_hourly",
    "own_dag",
    "mixed_dag",
)
DRY = ("statemaint__joined_orders",)


@dataclass(frozen=True, slots=True)
class Scene:
    """The Airflow, and where the checkpoints are."""

    airflow: Airflow
    folder: Path
    admin: Client


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Runs the Airflow for the length of a `with` block; some queries have been maintained."""
    _fill(folder)
    with airflow(_setup(folder)) as running:
        admin = running.client()
        for dag in (*RUN, *DRY, "statemaint_verify", "statemaint_repair", "statemaint__never"):
            admin.wait_for_dag(dag)
            admin.unpause(dag)
        started = [(dag, admin.trigger(dag)) for dag in RUN]
        started += [(dag, admin.trigger(dag, {"dry_run": True})) for dag in DRY]
        for dag, run in started:
            admin.wait_for_run(dag, run)
        yield Scene(running, folder, admin)


def _fill(folder: Path) -> None:
    for name in ("good", "own", "never", "kept", "grouped"):
        neglected(folder / name)
    neglected(folder / "revenue_hourly", partitions=60, last=60)
    neglected(folder / "joined_orders", partitions=24, last=300)
    damaged(folder / "clicks")
    uncommitted(folder / "sessions")
    shutil.copytree(DAGS, folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "dags/own_dag.py").write_text(_OWN.format(folder=folder), encoding="utf-8")
    text = _QUERIES.format(folder=folder)
    (folder / "queries.yaml").write_text(text, encoding="utf-8")


def _setup(folder: Path) -> Setup:
    return Setup(
        home=folder / "home",
        dags=folder / "dags",
        plugins=PLUGINS,
        queries=folder / "queries.yaml",
        users=USERS,
        environ={
            **THRIFTY,
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__CORE__AUTH_MANAGER": "tests.systems.airflow.picky_auth.PickyAuthManager",
        },
    )
