"""The links on a task's page: to the fleet page, and to the dashboard of its query."""

from typing import Any
from urllib.parse import quote

import attrs
from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from statemaint.airflow.names import page_address

# The setting with the dashboard's address, `[statemaint] dashboard_url`.
_SECTION, _OPTION = "statemaint", "dashboard_url"


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
        address: str = conf.get(_SECTION, _OPTION, fallback="")
        query = self.query or getattr(operator, "query", None) or ""
        return address.replace("{query}", quote(query, safe=""))


def links(query: str = "") -> tuple[BaseOperatorLink, ...]:
    return FleetLink(), DashboardLink(query)
