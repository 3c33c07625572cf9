"""The dashboards' queries, sent to a Prometheus as Grafana would send them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.demo.prometheus import instant_query

_VARIABLE = re.compile(r"\$(query|origin|namespace|operator|partition)\b")


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """One query of one panel, or of the marks on all of them."""

    board: str  # its uid
    panel: str  # its title
    ref: str  # the query within the panel
    expr: str  # PromQL, with the dashboard's variables

    @property
    def only_in_trouble(self) -> bool:
        """Whether it has no data while nothing is wrong."""
        return "ALERTS_FOR_STATE" in self.expr or self.ref == "Failed runs"

    @property
    def of_exporter(self) -> bool:
        """Whether it has no data without an exporter."""
        return "statemaint_exporter_" in self.expr

    def chosen(self, query: str = ".*") -> str:
        """Returns the expression with a value for the variable `query`, and all of the others."""
        return _VARIABLE.sub(lambda name: query if name[1] == "query" else ".*", self.expr)


def board_queries(folder: Path) -> tuple[BoardQuery, ...]:
    texts = [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.json"))]
    return tuple(query for text in texts for query in _of(json.loads(text)))


def silent_queries(folder: Path, prometheus: str) -> tuple[BoardQuery, ...]:
    """Returns the dashboards' queries for which a Prometheus of healthy queries has no data."""
    queries = [one for one in board_queries(folder) if not one.only_in_trouble | one.of_exporter]
    return tuple(one for one in queries if not instant_query(prometheus, one.chosen()))


def _of(board: dict[str, Any]) -> Iterator[BoardQuery]:
    uid = board["uid"]
    for mark in board["annotations"]["list"]:
        yield BoardQuery(uid, "annotations", mark["name"], mark["expr"])
    for panel in board["panels"]:
        for target in panel.get("targets") or ():
            yield BoardQuery(uid, panel["title"], target["refId"], target["expr"])
