"""The endings of our tasks: failed, to be retried, waiting, or with the event of an Asset."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
)

from statemaint.airflow import tasks
from statemaint.airflow.settings import Failure

_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=5), timedelta(minutes=5)


def wait(held: str, most: timedelta) -> NoReturn:
    """Ends this attempt, to check again later: each wait is twice as long as the one before.

    Waiting takes no worker and no slot of the pool, and is not a retry.

    Args:
        held: why the task must wait.
        most: the longest time that it waits.
    """
    context = get_current_context()
    now = datetime.now(UTC)
    first = context["ti"].get_first_reschedule_date(context) or now
    if now - first > most:
        raise AirflowFailException(f"{held}; gave up after {most}")
    waits = int(context.get("task_reschedule_count", 0) or 0)
    delay = min(_FIRST_WAIT * 2 ** min(waits, 10), _LONGEST_WAIT)
    tasks.log_waiting(held, delay)
    raise AirflowRescheduleException(now + delay)  # type: ignore[no-untyped-call]


def fail(failure: Failure) -> NoReturn:
    """Fails the task, permanently unless another attempt could succeed."""
    if failure.retry:
        raise AirflowException(failure.reason)
    raise AirflowFailException(failure.reason)


def update_assets(
    context: Mapping[str, Any], told: Mapping[str, bool], extra: Mapping[str, Any]
) -> None:
    """Decides which of our Assets a task updates when it succeeds; it keeps the others.

    Args:
        context: Airflow's context of the task.
        told: whether to update each of our Assets, by its name.
        extra: the `extra` of their events.
    """
    outlets = context["task"].outlets
    outlets[:] = [one for one in outlets if told.get(_name(one), True)]
    for one in outlets:
        if _name(one) in told:
            context["outlet_events"][one].extra = dict(extra)


def _name(outlet: object) -> str:
    return str(getattr(outlet, "name", ""))
