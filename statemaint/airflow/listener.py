"""The scheduler's work for our DAGs: it creates their pool, and puts a note on each run.

No task can do either: tasks have no access to Airflow's database, and its API for tasks has neither
pools nor notes. Without this plugin, create the pool manually; the note is in the XCom `note`.

Every Airflow process loads the plugins, down to each task, so this module imports little.
"""

import logging
from collections.abc import Callable
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from statemaint.airflow.names import NOTE, POOL, is_together, query_of

# More than one query takes by default, so that other queries do not wait for a wide one.
SLOTS = 32
_ABOUT = "Maintenance of streaming state; created by statemaint, which does not change its slots."

_log = logging.getLogger(__name__)


class Listener:
    """The callbacks of Airflow for the start of its programs and the end of a run."""

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """Creates the pool when a program with access to the database starts, unless it exists.

        Also imports the modules that DAG files need: such a program forks a process for each task,
        or for each DAG file, and each of them would take most of a second for these imports.
        """
        if type(component).__name__ == "Job":
            _or_log(_make_pool)
            _or_log(_import_tasks)

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """Puts the note of a run on it."""
        del msg
        _or_log(lambda: _put_note(dag_run))

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """Puts the note of a run on it."""
        del msg
        _or_log(lambda: _put_note(dag_run))


class StatemaintListenerPlugin(AirflowPlugin):
    """The listener, for Airflow."""

    name = "statemaint_listener"
    listeners = [Listener()]  # noqa: RUF012 -- as Airflow wants it


def _make_pool() -> None:
    from airflow.models.pool import Pool  # noqa: PLC0415 -- only where there is a database

    if Pool.get_pool(POOL) is None:
        Pool.create_or_update_pool(
            name=POOL, slots=SLOTS, description=_ABOUT, include_deferred=False
        )
        _log.info("created the pool %s with %d slots", POOL, SLOTS)


def _import_tasks() -> None:
    from statemaint.airflow import factory  # noqa: PLC0415 -- where processes are forked from

    del factory


def _put_note(dag_run: Any) -> None:
    from airflow.models.xcom import XComModel  # noqa: PLC0415 -- only where there is a database
    from sqlalchemy import select  # noqa: PLC0415
    from sqlalchemy.orm import object_session  # noqa: PLC0415

    session = object_session(dag_run)
    ours = query_of(dag_run.dag_id) is not None or is_together(dag_run.dag_id)
    if not ours or session is None or dag_run.note:
        return
    statement = select(XComModel).where(
        XComModel.dag_id == dag_run.dag_id,
        XComModel.run_id == dag_run.run_id,
        XComModel.key == NOTE,
    )
    for note in session.scalars(statement):
        dag_run.note = str(XComModel.deserialize_value(note))


def _or_log(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception as error:  # noqa: BLE001 -- Airflow continues, whatever is wrong with a note
        _log.warning("statemaint's listener: %s", " ".join(str(error).split()))
