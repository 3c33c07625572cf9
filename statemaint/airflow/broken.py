"""A DAG in place of an invalid entry of the queries file: it shows the reason, and fails."""

from collections.abc import Sequence
from datetime import UTC, datetime

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Schedules start here; with `catchup` off, missed runs are not made up."""

# A mistake must be visible even if no user opens the page: as a failed run.
_SCHEDULE = "@daily"


def broken_dag(dag_id: str, what: str, problems: Sequence[str], schedule: str | None = None) -> DAG:
    """Returns a DAG whose page and only task state the mistakes.

    Args:
        dag_id: the id of the DAG that it replaces.
        what: the invalid part and the consequence, as a sentence without its end.
        problems: a line for each mistake.
        schedule: the schedule of the DAG that it replaces; daily by default.
    """
    listed = "\n".join(f"- {one}" for one in problems)
    text = f"{what}:\n{listed}"
    with DAG(
        dag_id=dag_id,
        description=f"NOT VALID: {problems[0]}"[:200],
        doc_md=f"### Not valid\n\n{text}\n\nCheck it with `statemaint queries FILE validate`.",
        schedule=schedule or _SCHEDULE,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        tags=["statemaint", "statemaint-invalid"],
        default_args={"retries": 0},
    ) as dag:

        @task(task_id="configuration", doc_md=text)
        def configuration() -> None:
            raise AirflowFailException(f"CONFIG: {text}")

        configuration()
    return dag
