"""What the listener notes on runs, in a database of Airflow's."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from statemaint.airflow.figures import FLEET
from statemaint.airflow.listener import Listener
from statemaint.airflow.names import NOTE, UNDO_DAG, dag_id, savepoint_id, together_id
from tests.systems.airflow.many_queries import database, fill, xcom_of


@pytest.fixture
def run() -> Iterator[DagRun]:
    with Session(database()) as session:
        fill(session, queries=1, runs=1, partitions=1)
        yield session.scalars(select(DagRun)).one()


def end(run: DagRun, note: str) -> Any:
    """Returns the note on a run that ends, and whose `report` has passed on a note."""
    session = Session.object_session(run)
    assert session is not None
    session.execute(delete(XComModel))
    session.execute(insert(XComModel), [{**xcom_of(0, 0, 1, FLEET, 0), "key": NOTE, "value": note}])
    Listener().on_dag_run_success(run, "")
    return run.note


def test_a_cleared_run_has_the_note_of_its_new_end(run: DagRun) -> None:
    assert end(run, "Broken: BROKEN_CHAIN") == "Broken: BROKEN_CHAIN"
    run.clear_number = 1
    assert end(run, "3 snapshots written") == "3 snapshots written"


def test_the_note_of_a_user_stays(run: DagRun) -> None:
    run.note = ("Ask Kim first", "opal")
    assert end(run, "3 snapshots written") == "Ask Kim first"
    run.clear_number = 1
    assert end(run, "3 snapshots written") == "Ask Kim first"


@pytest.mark.parametrize("dag", [dag_id("q0"), savepoint_id("q0"), together_id("q0"), UNDO_DAG])
def test_a_run_of_our_dags_fails_when_it_starts_without_its_pool(run: DagRun, dag: str) -> None:
    session = Session.object_session(run)
    assert session is not None
    run.dag_id = dag
    session.flush()
    task = {"id": uuid4(), "dag_id": dag, "run_id": run.run_id, "task_id": "a", "map_index": -1}
    session.execute(insert(TaskInstance), [{**task, "pool": "no pool", "pool_slots": 1}])
    Listener().on_dag_run_running(run, "")
    assert session.scalars(select(TaskInstance.state)).one() == "failed"
    assert "`airflow pools set 'no pool' 32 maintenance`" in str(run.note)
