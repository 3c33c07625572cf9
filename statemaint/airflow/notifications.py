"""A notifier that posts a run's outcome to a webhook, such as that of a chat."""

from collections.abc import Mapping
from typing import Any

import httpx
from airflow.sdk import BaseHook, BaseNotifier

from statemaint.airflow.endings import REPORT_VARIABLE

_SECONDS = 10.0


class StateReportNotifier(BaseNotifier):
    """Posts `{"text": ...}` to a webhook: the query, what is broken, and what to do next.

    Args:
        conn_id: the Airflow connection whose password is the webhook's whole address, a secret.
        text: the message, a template of Airflow's; by default made from the run's report.
    """

    template_fields = ("text",)

    def __init__(self, conn_id: str, text: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id, self.text = conn_id, text

    def notify(self, context: Mapping[str, Any]) -> None:
        """Posts the message.

        Raises:
            RuntimeError: when the webhook refuses it; its address is not shown.
        """
        # Stores of secrets often end them with a line break, which is not part of an address.
        address = (BaseHook.get_connection(self.conn_id).password or "").strip()
        text = self.text or message(context)
        try:
            answer = httpx.post(address, json={"text": text}, timeout=_SECONDS)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = f"cannot be reached ({type(error).__name__})"
        else:
            problem = "" if answer.is_success else f"answers {answer.status_code}"
        if problem:
            raise RuntimeError(f"the webhook of connection {self.conn_id} {problem}")


def message(context: Mapping[str, Any]) -> str:
    report, run = context.get(REPORT_VARIABLE), context.get("dag_run")
    where = f"{_of(run, 'dag_id')}, run {_of(run, 'run_id')}"
    if "deadline" in context:  # it may still be running
        return f"Maintenance of streaming state has missed its deadline ({where})."
    if not report:
        reason = context.get("reason") or "its log says why"
        return f"Maintenance of streaming state failed ({where}): {reason}"
    return f"Maintenance of {report['query']} failed ({where}).\n\n{report['note']}"


def _of(run: object, name: str) -> str:
    value = run.get(name) if isinstance(run, Mapping) else getattr(run, name, None)
    return str(value or "unknown")
