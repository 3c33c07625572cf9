"""The families of the mistakes in the queries file."""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.metrics_core import Metric as Family

from statemaint.metrics.catalogue import MOST_PROBLEMS
from statemaint.metrics.families import family


def problem_families(
    problems: Sequence[tuple[str, int, str]], labels: Mapping[str, str] = {}
) -> Iterator[Family]:
    """Yields the families of mistakes.

    Args:
        problems: the file, the line and the entry of each; the entry is empty outside of entries.
        labels: the labels of the installation.
    """
    yield family("exporter_problems", labels, [({}, len(problems))])
    first = dict.fromkeys(problems)
    places = [
        {
            "file": file,
            **({"line": str(line)} if line else {}),
            **({"query": query} if query else {}),
        }
        for file, line, query in [*first][:MOST_PROBLEMS]
    ]
    yield family("configuration_problem", labels, [(one, 1) for one in places])
