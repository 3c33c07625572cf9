"""The ends of our tasks: failed, to be tried again, waiting, or with the event of an Asset."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
)

from statemaint.report.task import Failure

_log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=5), timedelta(minutes=5)


def wait(held: str, most: timedelta) -> NoReturn:
    """Ends this attempt, to try again later: each wait is twice as long as the one before.

    Waiting takes no worker and no slot of the pool, and is no retry.

    Args:
        held: why the task has to wait.
        most: the maximum time that it waits.
    """
    context = get_current_context()
    now = datetime.now(UTC)
    first = context["ti"].get_first_reschedule_date(context) or now
    if now - first > most:
        raise AirflowFailException(f"{held}; gave up after {most}")
    waits = int(context.get("task_reschedule_count", 0) or 0)
    delay = min(_FIRST_WAIT * 2 ** min(waits, 10), _LONGEST_WAIT)
    _log.info("%s; looking again in %d s", held, delay.total_seconds())
    raise AirflowRescheduleException(now + delay)  # type: ignore[no-untyped-call]


def fail(failure: Failure) -> NoReturn:
    """Fails the task, for good unless another attempt could succeed."""
    if failure.retry:
        raise AirflowException(failure.reason)
    raise AirflowFailException(failure.reason)


def update_assets(
    context: Mapping[str, Any], updates: Mapping[str, bool], extra: Mapping[str, Any]
) -> None:
    """Decides which of our Assets a task updates when it succeeds; others stay as they are.

    Args:
        context: Airflow's context of the task.
        updates: whether to update each of our Assets, by its name.
        extra: the `extra` of their events.
    """
    outlets = context["task"].outlets
    outlets[:] = [one for one in outlets if updates.get(_name(one), True)]
    for outlet in outlets:
        if _name(outlet) in updates:
            context["outlet_events"][outlet].extra = dict(extra)


def _name(outlet: object) -> str:
    return str(getattr(outlet, "name", ""))
