"""The DAG that maintains one query, made in Python instead of the queries file."""

from datetime import timedelta
from typing import Any, Unpack

from airflow.sdk import DAG

from statemaint.airflow.factory import dag_arguments
from statemaint.airflow.names import dag_id as default_id
from statemaint.airflow.run_tasks import Terms, run_tasks
from statemaint.airflow.settings import QueryKeys, given_settings, is_template


class DagKeys(QueryKeys, total=False):
    """The keys of a query in the queries file that concern its tasks and its DAG."""

    schedule: str | None
    after: str | None
    tags: list[str]
    deadline: str | None
    notify: list[dict[str, Any]]


class StateMaintenanceDag(DAG):
    """The DAG of an entry of the queries file: the same tasks, form, pool and Asset.

        StateMaintenanceDag(checkpoint="s3://lake/checkpoints/revenue", connection="lake",
                            schedule="@hourly", policy={"min_batches_to_retain": 50})

    Args:
        dag_id: the DAG's id; by default `statemaint__QUERY`.
        checkpoint: the query's checkpointLocation.
        query: the query's name, for metrics and Assets; by default the address's last part.
        pushgateway: where tasks push metrics; STATEMAINT_PUSHGATEWAY in their environment wins.
        textfile: a folder for metrics files.
        plans: a folder for the plans of dry runs.
        dag: other arguments of Airflow's `DAG`; `default_args` and `params` join the query's own.
        keys: as in the queries file.

    Raises:
        ValueError: when an argument is wrong; one line.
    """

    def __init__(  # noqa: PLR0913 -- each is a choice of its own
        self,
        dag_id: str | None = None,
        *,
        checkpoint: str,
        query: str | None = None,
        pushgateway: str | None = None,
        textfile: str | None = None,
        plans: str | None = None,
        dag: dict[str, Any] | None = None,
        **keys: Unpack[DagKeys],
    ) -> None:
        if is_template(checkpoint):
            raise ValueError("checkpoint: must be an address; a task group takes a template")
        given, settings = given_settings(
            query, checkpoint, keys, pushgateway=pushgateway, textfile=textfile, plans=plans
        )
        arguments = dag_arguments(given, settings)
        for name, value in (dag or {}).items():
            joined = name in ("default_args", "params")
            arguments[name] = {**arguments[name], **value} if joined else value
        super().__init__(dag_id=dag_id or default_id(settings.query), **arguments)
        with self:
            run_tasks(settings, Terms(timedelta(seconds=given.timeout)))
