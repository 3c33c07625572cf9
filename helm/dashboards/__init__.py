"""The Grafana dashboards that the chart delivers, as code: fleet, query and partition.

    python -m helm.dashboards

writes `helm/statemaint/files/dashboards`. The fleet leads to a query, a query to its partitions.
"""

from pathlib import Path

from helm.dashboards.board import render
from helm.dashboards.fleet import fleet
from helm.dashboards.partition import partition
from helm.dashboards.query import query

FOLDER = Path(__file__).resolve().parents[1] / "statemaint" / "files" / "dashboards"


def files() -> dict[Path, str]:
    """Returns the dashboards' files, and the text of each."""
    boards = {"fleet": fleet(), "query": query(), "partition": partition()}
    return {FOLDER / f"statemaint-{name}.json": render(one) for name, one in boards.items()}
