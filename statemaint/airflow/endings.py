"""What our tasks share: their form, and their ends: failed, waiting, an Asset, a notice."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
)

from statemaint.airflow.names import asset_uri, findings_uri
from statemaint.airflow.settings import unknown_options
from statemaint.airflow.texts import is_damaged
from statemaint.errors import LeaseHeldError, StatemaintError
from statemaint.report.task import Failure

_log = logging.getLogger(__name__)
# The name under which notifiers find the report: `{{ statemaint.note }}` in their templates.
REPORT_VARIABLE = "statemaint"

_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=5), timedelta(minutes=5)


def our_task(name: str, text: str | None, **more: Any) -> Callable[[Callable[..., Any]], Any]:
    """Returns Airflow's decorator of a task whose result is not for the log."""
    return task(task_id=name, doc_md=text, show_return_value_in_logs=False, **more)


def wait(held: str, most: timedelta) -> NoReturn:
    """Ends this attempt, to try again later: each wait is twice as long as the one before.

    Waiting takes no worker and no slot of the pool, and is no retry.
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


def form_values(names: Sequence[str]) -> dict[str, Any]:
    """Returns the values of the run's form; refuses other keys before anything is done."""
    context = get_current_context()
    if unknown := unknown_options(context["dag_run"].conf, names):
        fail(unknown)
    return {name: context["params"][name] for name in names}


def fail(failure: Failure) -> NoReturn:
    """Fails the task, for good unless another attempt could succeed."""
    if failure.retry:
        raise AirflowException(failure.reason)
    raise AirflowFailException(failure.reason)


@contextmanager
def errors_end(waits: timedelta) -> Iterator[None]:
    """Ends the task with our errors: waits for a lease that another run holds, fails otherwise."""
    try:
        yield
    except LeaseHeldError as error:
        wait(f"{error.code}: {error}", waits)
    except StatemaintError as error:
        fail(Failure.of(error))
    except ValueError as error:
        fail(Failure(f"CONFIG: {error}"))


@contextmanager
def of_one_build() -> Iterator[None]:
    """Fails a task that cannot read what the earlier tasks of its run have passed on."""
    try:
        yield
    except ValueError as error:
        raise AirflowFailException(
            "CONFIG: an earlier task of this run ran on another build of statemaint; "
            f"clear the whole run, to begin again with its plan ({str(error).splitlines()[0]})"
        ) from None


def update_assets(
    context: Mapping[str, Any], query: str, report: Mapping[str, Any], *, known: bool = True
) -> None:
    """Decides which Assets of a query a task updates when it succeeds; others stay as they are.

    Without a report it updates none, and if Airflow does not know them.
    """
    updates = {
        asset_uri(query): known and bool(report.get("maintained")),
        findings_uri(query): known and is_damaged(report.get("broken", ())),
    }
    outlets = context["task"].outlets
    outlets[:] = [outlet for outlet in outlets if updates.get(getattr(outlet, "name", ""), True)]
    for outlet in outlets:
        if getattr(outlet, "name", "") in updates:
            context["outlet_events"][outlet].extra = dict(report)


def notify_all(
    notifiers: Iterable[Callable[[Mapping[str, Any]], object]],
    context: Mapping[str, Any],
    report: Mapping[str, Any],
) -> None:
    """Calls notifiers with Airflow's context, in which `statemaint` is the run's report.

    Errors are only logged: the run's outcome is that of its maintenance.
    """
    for notifier in notifiers:
        try:
            notifier({**context, REPORT_VARIABLE: dict(report)})
        except Exception:  # noqa: BLE001 -- the notifier is not ours
            _log.exception("a notifier of this task failed")
