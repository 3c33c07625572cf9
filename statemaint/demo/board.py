"""The dashboard's queries, sent to a Prometheus as Grafana would send them."""

import json
from dataclasses import dataclass
from pathlib import Path

from statemaint.demo.prometheus import instant_query


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """One query of one panel."""

    panel: str
    ref: str
    expr: str

    def chosen(self, query: str = ".*") -> str:
        """Returns the expression with a value for the dashboard's variable."""
        return self.expr.replace("$query", query)


def board_queries(dashboard: Path) -> tuple[BoardQuery, ...]:
    """Returns every query of a dashboard, panel by panel."""
    panels = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    return tuple(
        BoardQuery(panel["title"], target["refId"], target["expr"])
        for panel in panels
        if panel["type"] != "row"
        for target in panel["targets"]
    )


def silent_queries(dashboard: Path, prometheus: str) -> tuple[BoardQuery, ...]:
    """Returns the dashboard's queries for which a Prometheus has no data."""
    queries = board_queries(dashboard)
    return tuple(one for one in queries if not instant_query(prometheus, one.chosen()))
