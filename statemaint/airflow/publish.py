"""The metrics of a run: of its tasks as they work, and of the whole; errors are only logged."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import (
    AirflowRescheduleException,
    AirflowSkipException,
    DownstreamTasksSkipped,
    TaskDeferred,
)

from statemaint.airflow.connections import stored_connection
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import StatemaintError
from statemaint.maintain.bundles import MOST_TASKS
from statemaint.maintain.record import (
    may_record,
    note_in_trend,
    read_record,
    with_run,
    write_record,
)
from statemaint.metrics.options import Named, namespace_of
from statemaint.queries.checks import expected_interval
from statemaint.report.record import LastRun, Record, with_loss
from statemaint.storage import storage_of

if TYPE_CHECKING:
    from statemaint.metrics.tasks import Progress

_log = logging.getLogger(__name__)


@contextmanager
def reporting(
    settings: QuerySettings, part: object = None, *, verb: str = "maintain", first: bool = False
) -> Iterator["Progress"]:
    """Publishes the progress of the task in the block; also a decorator of a task.

    `part` is the task's part in the run, by default its index. The `first` task of a run deletes
    the groups of earlier runs.
    """
    with all_reporting([settings], part, verb, first=first) as progress:
        yield progress[settings.query]


@contextmanager
def all_reporting(
    queries: Sequence[QuerySettings], part: object = None, verb: str = "maintain", *, first: bool
) -> Iterator[dict[str, "Progress"]]:
    """Publishes the progress of each query in the block, by its name; as `reporting` does."""
    from statemaint.metrics import tasks  # noqa: PLC0415 -- not for parsing a DAG

    ti = get_current_context()["ti"]
    part = max(ti.map_index or 0, 0) if part is None else part

    def task(settings: QuerySettings) -> tasks.Task:
        others = (*range(max(settings.max_tasks or 0, MOST_TASKS)), "apply", "report")
        return tasks.Task(
            of=named(settings),
            name=f"{verb}-{part}",
            targets=settings.targets,
            credentials=credentials(settings),
            retries=ti.try_number - 1,
            earlier=[f"{verb}-{other}" for other in others] if first else (),
        )

    endings = {
        AirflowSkipException: tasks.TaskState.SUCCEEDED,
        DownstreamTasksSkipped: tasks.TaskState.SUCCEEDED,
        AirflowRescheduleException: tasks.TaskState.WAITING,
        TaskDeferred: tasks.TaskState.WAITING,
    }
    with tasks.reporting(*map(task, queries), clock=time.time, endings=endings) as progress:
        yield dict(zip((settings.query for settings in queries), progress, strict=True))


def publish(settings: QuerySettings, last: LastRun, *, store: bool = True) -> None:
    """Publishes the metrics of a run, and stores its record and trend with the checkpoint."""
    kept, record = None, Record(last, None if last.failed else last.ended)
    try:
        storage = settings.open()
        before = read_record(storage)
    except StatemaintError as error:
        _log.warning("the record of earlier runs cannot be read: %s", error)
    else:
        kept = storage if store and may_record(storage, before, last) else None
        record = with_run(storage, before, last)
    if not published(settings, record) and record.totals:
        record = with_loss(record)
    if kept:
        try:
            write_record(kept, record)
            note_in_trend(kept, last)
        except StatemaintError as error:
            _log.warning("the record of the run is not stored: %s", error)


def published(settings: QuerySettings, record: Record) -> bool:
    """Publishes a record, if that is asked for; returns whether none of it is lost."""
    from statemaint.metrics.publish import publish_record  # noqa: PLC0415 -- not for parsing a DAG

    where = settings.targets
    if not (where.gateway or where.textfile):
        return True
    return publish_record(named(settings), record, where, credentials=credentials(settings))


def publish_held(settings: QuerySettings) -> None:
    from statemaint.metrics.publish import publish_waiting  # noqa: PLC0415 -- as above

    key = credentials(settings)
    publish_waiting(named(settings), time.time(), settings.targets, credentials=key)


def named(settings: QuerySettings) -> Named:
    """Returns the data of a query's metrics beyond its record, as far as this task knows it."""
    from statemaint import __version__  # noqa: PLC0415 -- as above

    return replace(
        settings.named,
        query=settings.query,
        interval=expected_interval(settings.schedule),
        version=__version__,
        namespace=namespace_of(os.environ),
        storage=storage_of(settings.checkpoint),
    )


def credentials(settings: QuerySettings) -> tuple[str | None, str] | None:
    """Returns the login and password of the Pushgateway's Airflow connection."""
    name = settings.targets.auth.connection
    if name is None or settings.targets.gateway is None:
        return None
    connection = stored_connection(name)
    if connection is None:
        _log.warning("the Airflow connection %s is not defined, or not for this task", name)
        return None
    return connection.login or None, connection.password or ""
