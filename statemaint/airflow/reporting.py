"""The group of metrics in which each of our tasks reports its progress."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import (
    AirflowRescheduleException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from statemaint.airflow.publish import credentials, named, targets
from statemaint.airflow.settings import QuerySettings
from statemaint.maintain.bundles import MOST_TASKS

if TYPE_CHECKING:
    from statemaint.metrics.tasks import Progress


@contextmanager
def reporting(
    settings: QuerySettings, part: object = None, *, verb: str = "maintain", first: bool = False
) -> Iterator["Progress"]:
    """Publishes the progress of the task in the block.

    Args:
        settings: the query that it works on.
        part: the task's part in the run; by default its index.
        verb: what the run does.
        first: whether it is the first task of a run, which deletes the groups of earlier runs.
    """
    from statemaint.metrics import tasks  # noqa: PLC0415 -- not for parsing a DAG

    ti = get_current_context()["ti"]
    part = max(ti.map_index or 0, 0) if part is None else part
    others = (*range(settings.max_tasks or MOST_TASKS), "apply", "report") if first else ()
    earlier = [f"{verb}-{one}" for one in others]
    with tasks.reporting(
        tasks.Task(named(settings), f"{verb}-{part}", ti.try_number - 1, earlier),
        targets(settings),
        clock=time.time,
        endings={
            AirflowSkipException: tasks.TaskState.SUCCEEDED,
            DownstreamTasksSkipped: tasks.TaskState.SUCCEEDED,
            AirflowRescheduleException: tasks.TaskState.WAITING,
        },
        credentials=credentials(settings),
    ) as progress:
        yield progress
