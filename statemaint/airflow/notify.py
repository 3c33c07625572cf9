"""Notification of a run that failed, from the task that knows its report."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_log = logging.getLogger(__name__)
# The name under which notifiers find the report: `{{ statemaint.note }}` in their templates.
REPORT_VARIABLE = "statemaint"


def notify_all(
    notifiers: Iterable[Callable[[Mapping[str, Any]], object]],
    context: Mapping[str, Any],
    report: Mapping[str, Any],
) -> None:
    """Calls notifiers with Airflow's context, in which `statemaint` is the run's report.

    A failure is only logged: the run's outcome is that of its maintenance.
    """
    for one in notifiers:
        try:
            one({**context, REPORT_VARIABLE: dict(report)})
        except Exception:  # noqa: BLE001 -- the notifier is not ours
            _log.exception("a notifier of this task failed")
