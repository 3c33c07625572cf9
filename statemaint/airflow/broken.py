"""A DAG that shows what is wrong with the queries file, and fails every hour until it is mended."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Schedules start here; with `catchup` off, missed runs are not made up."""


def broken_dag(
    dag_id: str,
    what: str,
    problems: Sequence[str],
    callbacks: Sequence[Callable[..., Any]] = (),
) -> DAG:
    """Returns a DAG whose page and only task state the mistakes.

    It is not paused when it is new, as other DAGs are: a mistake that no one looks at must be
    noticed, as a failed run.

    Args:
        dag_id: its id: that of the DAG that it replaces, if there is one.
        what: what is not valid, and what follows, as a sentence without its end.
        problems: the mistakes, a line for each.
        callbacks: the functions that Airflow calls when a run has failed.
    """
    listed = "\n".join(f"- {one}" for one in problems)
    text = f"{what}:\n{listed}"
    with DAG(
        dag_id=dag_id,
        description=f"NOT VALID: {problems[0]}"[:200],
        doc_md=f"### Not valid\n\n{text}\n\nCheck it with `statemaint queries FILE validate`.",
        schedule="@hourly",
        start_date=START,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        on_failure_callback=[*callbacks] or None,
        tags=["statemaint", "statemaint-invalid"],
        default_args={"retries": 0},
    ) as dag:

        @task(task_id="configuration", doc_md=text)
        def configuration() -> None:
            raise AirflowFailException(f"CONFIG: {text}")

        configuration()
    return dag
