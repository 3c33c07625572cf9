"""Maintenance as a part of a user's DAG: one line after the task that runs a query."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Unpack

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import TaskGroup, TriggerRule

from statemaint.airflow.factory import task_arguments
from statemaint.airflow.run_tasks import Terms, run_tasks
from statemaint.airflow.settings import Notified, Options, QueryKeys, given_settings

# Keys of the queries file that have no effect on tasks.
_OF_DAG = frozenset(("after", "deadline", "tags"))


class StateMaintenanceTaskGroup(TaskGroup):
    """The tasks of a query's maintenance: `plan`, `maintain` (mapped), `report` and `done`.

        run_query >> StateMaintenanceTaskGroup(checkpoint="/data/checkpoints/revenue") >> next_query

    Tasks after the group run once maintenance has ended, even if there was nothing to do, and do
    not run if a partition is damaged or maintenance failed. The group is skipped if the task before
    it was.

    Args:
        group_id: the group's id; give one to have two groups in a DAG.
        checkpoint: the query's checkpointLocation; an Airflow template is filled in.
        query: the query's name, for metrics and Assets; by default the address's last part.
        force_snapshot: snapshot every partition, however short its chain is.
        dry_run: only show what would be done.
        notify: the notifiers to call when maintenance fails, with Airflow's context, in which
            `statemaint` is the report.
        pushgateway: where tasks push metrics; STATEMAINT_PUSHGATEWAY in their environment wins.
        textfile: a folder for metrics files.
        keys: as in the queries file: `connection`, `policy`, `pool`, `max_tasks`, `timeout`, ...

    Raises:
        ValueError: when an argument is wrong; one line.
    """

    def __init__(  # noqa: PLR0913 -- each is a choice of its own
        self,
        group_id: str = "statemaint",
        *,
        checkpoint: str,
        query: str | None = None,
        force_snapshot: bool = False,
        dry_run: bool = False,
        notify: Sequence[Notified] = (),
        pushgateway: str | None = None,
        textfile: str | None = None,
        **keys: Unpack[QueryKeys],
    ) -> None:
        if of_dag := sorted(_OF_DAG.intersection(keys)):
            raise ValueError(f"{of_dag[0]}: a DAG has it, not its tasks; leave it out")
        given, settings = given_settings(
            query, checkpoint, keys, pushgateway=pushgateway, textfile=textfile
        )
        arguments: Any = task_arguments(given)
        about = f"Maintains the state of {settings.query}"
        super().__init__(group_id=group_id, tooltip=about, default_args=arguments)
        options = Options(dry_run=dry_run, force_snapshot=force_snapshot)
        terms = Terms(timedelta(seconds=given.timeout), options, tuple(notify))
        with self:
            tasks = run_tasks(settings, terms)
            # `maintain` is skipped if there is nothing to do; tasks after the group are not.
            rule = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
            done: Any = EmptyOperator(task_id="done", trigger_rule=rule)
            tasks >> done
