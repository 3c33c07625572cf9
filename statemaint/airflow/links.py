"""The links on a task's page: to the fleet page, and to the dashboard of its query."""

from typing import Any
from urllib.parse import quote

import attrs
from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from statemaint.airflow.names import page_address

# Airflow's section with the addresses of other pages.
_SECTION = "statemaint"


class FleetLink(BaseOperatorLink):
    """The link to the page with all queries."""

    name = "Streaming state"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        del operator, ti_key
        return page_address(conf.get("api", "base_url", fallback=""))


@attrs.define
class DashboardLink(BaseOperatorLink):
    """The link to the dashboard; empty without the setting `[statemaint] dashboard_url`.

    Attributes:
        query: the query; by default that of the operator.
    """

    query: str = ""
    name = "Dashboard"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        del ti_key
        return dashboard_of(self.query or getattr(operator, "query", None) or "")


def dashboard_of(query: str) -> str:
    """Returns the address of a query's dashboard; empty without the setting."""
    return _address("dashboard_url").replace("{query}", quote(query, safe=""))


def silence_of(query: str) -> str:
    """Returns the address of Alertmanager's form of a silence, filled in; empty without one."""
    manager = _address("alertmanager_url").rstrip("/")
    matcher = quote(f'{{query="{query}"}}', safe="")
    return f"{manager}/#/silences/new?filter={matcher}" if manager else ""


def _address(option: str) -> str:
    address: str = conf.get(_SECTION, option, fallback="")
    return address if address.startswith(("https://", "http://")) else ""


def links(query: str = "") -> tuple[BaseOperatorLink, ...]:
    return FleetLink(), DashboardLink(query)
