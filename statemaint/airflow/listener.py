"""The scheduler's part of our DAGs: their pool, runs without a pool, and a note on each run.

No task can do this: tasks have no access to Airflow's database, and its API for tasks has neither
pools nor notes. Without this plugin, create the pool by hand; the note is in the XCom `note`.

Every Airflow process loads the plugins, down to each task, so that this module imports little.
"""

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from statemaint.airflow import names

# More than one query takes by default, so that others need not wait for a wide one.
SLOTS = 32
_MOST_NOTE = 1000  # characters, as Airflow has it
_ABOUT = "Maintenance of streaming state; created by statemaint, which never changes its slots."

_log = logging.getLogger(__name__)


class Listener:
    """The functions that Airflow calls when one of its programs or a run starts, or a run ends."""

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """Creates the pool when a program with access to the database starts, unless it exists.

        Also imports the modules of DAG files: such a program forks a process for each task, or for
        each DAG file, and each of them would need most of a second for these imports.
        """
        if type(component).__name__ == "Job":
            _or_log(_make_pool)
            _or_log(lambda: import_module("statemaint.airflow.factory"))

    @hookimpl
    def on_dag_run_running(self, dag_run: Any, msg: str) -> None:
        """Fails a run whose pool does not exist: its tasks would wait for it without an end."""
        del msg
        _or_log(lambda: _with_session(_check_pools, dag_run))

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        del msg
        _or_log(lambda: _with_session(_put_note, dag_run))

    on_dag_run_failed = on_dag_run_success


class StatemaintListenerPlugin(AirflowPlugin):
    """The listener, where Airflow finds it."""

    name = "statemaint_listener"
    listeners = [Listener()]  # noqa: RUF012 -- as Airflow wants it


def _make_pool() -> None:
    from airflow.models.pool import Pool  # noqa: PLC0415 -- only where there is a database

    if Pool.get_pool(names.POOL) is None:
        Pool.create_or_update_pool(names.POOL, SLOTS, description=_ABOUT, include_deferred=False)
        _log.info("created the pool %s with %d slots", names.POOL, SLOTS)


def _with_session(work: Callable[[Any, Any], None], dag_run: Any) -> None:
    """Calls a function with a run of one of our DAGs and its session."""
    from sqlalchemy.orm import object_session  # noqa: PLC0415 -- only where there is a database

    session = object_session(dag_run)
    if session and names.is_ours(dag_run.dag_id):
        work(dag_run, session)


def _check_pools(dag_run: Any, session: Any) -> None:
    from airflow.models.pool import Pool  # noqa: PLC0415 -- only where there is a database
    from sqlalchemy import select  # noqa: PLC0415

    with session.no_autoflush:  # a flush would lock SQLite until the scheduler commits
        tasks = dag_run.get_task_instances(session=session)
        pools = {task.pool for task in tasks}
        missing = pools - set(session.scalars(select(Pool.pool).where(Pool.pool.in_(pools))))
    if missing:
        what = names.missing_pool(min(missing))
        dag_run.note = f"Nothing was done: {what} Then trigger it again."
        _log.error("%s, run %s: %s", dag_run.dag_id, dag_run.run_id, dag_run.note)
        for task in tasks:  # from which the scheduler concludes that the run has failed
            task.set_state("failed", session=session)


def _put_note(dag_run: Any, session: Any) -> None:
    from airflow.models.xcom import XComModel  # noqa: PLC0415 -- only where there is a database
    from sqlalchemy import select  # noqa: PLC0415

    kept = dag_run.note or ""
    # Airflow has the user of each note but ours, which a run keeps when it is cleared.
    if kept and dag_run.clear_number and dag_run.dag_run_note.user_id is None:
        kept = ""
    if kept and not kept.startswith(names.ACKNOWLEDGED):
        return
    of_run = (XComModel.dag_id == dag_run.dag_id) & (XComModel.run_id == dag_run.run_id)
    notes = select(XComModel).where(of_run, XComModel.key == names.NOTE)
    for note in session.scalars(notes):
        dag_run.note = f"{kept}\n{XComModel.deserialize_value(note)}".strip()[:_MOST_NOTE]


def _or_log(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:  # noqa: BLE001 -- Airflow continues, whatever is wrong with a note
        _log.warning("statemaint's listener: %s", " ".join(str(error).split()))
