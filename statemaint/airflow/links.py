"""The links on a task's page: to the page of its query, and to its dashboard."""

from typing import Any
from urllib.parse import quote

import attrs
from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from statemaint.airflow.names import page_address


@attrs.define
class StateLink(BaseOperatorLink):
    """The link to the page of a query, by default that of the task; of several, to all of them."""

    query: str = ""
    name = "State of the query"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        base: str = conf.get("api", "base_url", fallback="").rstrip("/")
        query = quote(self.query or _query_of(operator, ti_key), safe="")
        return f"{base}/statemaint/queries/{query}" if query else page_address(base)


def _query_of(operator: Any, ti_key: Any) -> str:
    """Returns the query of a task, which resolves its links itself; empty if it has several."""
    if query := getattr(operator, "query", None):
        return str(query)
    if checkpoint := getattr(operator, "checkpoint", None):
        return str(checkpoint).rstrip("/").rpartition("/")[2]
    context: Any = getattr(ti_key, "get_template_context", dict)()
    return str(context.get("params", {}).get("query") or "")


@attrs.define
class DashboardLink(BaseOperatorLink):
    """The link to the dashboard; empty without the setting `[statemaint] dashboard_url`."""

    query: str = ""
    name = "Dashboard"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return dashboard_of(self.query or _query_of(operator, ti_key))


def dashboard_of(query: str) -> str:
    return _address("dashboard_url").replace("{query}", quote(query, safe=""))


def silence_of(query: str) -> str:
    """Returns the address of Alertmanager's form of a silence, filled in; empty without one."""
    manager = _address("alertmanager_url").rstrip("/")
    matcher = quote(f'{{query="{query}"}}', safe="")
    return f"{manager}/#/silences/new?filter={matcher}" if manager else ""


def _address(option: str) -> str:
    address: str = conf.get("statemaint", option, fallback="")
    return address if address.startswith(("https://", "http://")) else ""


def links(query: str = "") -> tuple[BaseOperatorLink, ...]:
    return StateLink(query), DashboardLink(query)


def add_links(*parts: Any, query: str = "") -> None:
    """Gives the links to tasks, beside those that their operators have."""
    for part in parts:
        operator = getattr(part, "operator", part)
        operator.operator_extra_links = (*operator.operator_extra_links, *links(query))
