"""A DAG in the place of an entry of the queries file that is wrong: it shows why, and fails."""

from collections.abc import Sequence
from datetime import UTC, datetime

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Schedules start here; with `catchup` off, missed runs are not made up."""

# A mistake that nobody looks at must be noticed all the same: as a failed run.
_SCHEDULE = "@daily"


def broken_dag(dag_id: str, what: str, problems: Sequence[str], schedule: str | None = None) -> DAG:
    """Returns a DAG whose page and only task state what is wrong.

    Args:
        dag_id: the id of the DAG that would be there.
        what: what is not valid, and what follows, as a sentence without its end.
        problems: what is wrong with it, a line for each mistake.
        schedule: when the DAG that would be there runs; daily by default.
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
