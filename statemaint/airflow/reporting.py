"""The groups of metrics in which our tasks report their progress."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import (
    AirflowRescheduleException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from statemaint.airflow.publish import credentials, named
from statemaint.airflow.settings import QuerySettings
from statemaint.maintain.bundles import MOST_TASKS

if TYPE_CHECKING:
    from statemaint.metrics.tasks import Progress


@contextmanager
def reporting(
    settings: QuerySettings, part: object = None, *, verb: str = "maintain", first: bool = False
) -> Iterator["Progress"]:
    """Publishes the progress of the task in the block; also a decorator of a task.

    Args:
        settings: the query that it works on.
        part: the task's part in the run; by default its index.
        verb: what the run does.
        first: whether it is the first task of a run, which deletes the groups of earlier runs.
    """
    with all_reporting([settings], part, verb=verb, first=first) as progress:
        yield progress[settings.query]


@contextmanager
def all_reporting(
    queries: Sequence[QuerySettings],
    part: object = None,
    *,
    verb: str = "maintain",
    first: bool = False,
) -> Iterator[dict[str, "Progress"]]:
    """Publishes the progress of each query in the block, by its name; as `reporting` does."""
    from statemaint.metrics import tasks  # noqa: PLC0415 -- not for parsing a DAG

    ti = get_current_context()["ti"]
    part = max(ti.map_index or 0, 0) if part is None else part

    def task(settings: QuerySettings) -> tasks.Task:
        others = (
            (*range(max(settings.max_tasks or 0, MOST_TASKS)), "apply", "report") if first else ()
        )
        return tasks.Task(
            of=named(settings),
            name=f"{verb}-{part}",
            targets=settings.targets,
            credentials=credentials(settings),
            retries=ti.try_number - 1,
            earlier=[f"{verb}-{one}" for one in others],
        )

    endings = {
        AirflowSkipException: tasks.TaskState.SUCCEEDED,
        DownstreamTasksSkipped: tasks.TaskState.SUCCEEDED,
        AirflowRescheduleException: tasks.TaskState.WAITING,
    }
    with tasks.reporting(*map(task, queries), clock=time.time, endings=endings) as progress:
        yield dict(zip((one.query for one in queries), progress, strict=True))
