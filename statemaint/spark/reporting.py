"""The driver's report on each query of a fleet while executors work on it: one group a query."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from statemaint.cli.messages import tell
from statemaint.cli.queries import named_of, targets_of
from statemaint.errors import ConfigError
from statemaint.queries import QueriesReading
from statemaint.spark.fleet import Target
from statemaint.spark.summary import QuerySummary

if TYPE_CHECKING:
    from statemaint.metrics.tasks import Task

Ended = Callable[[Iterable[QuerySummary]], None]
_CHANGES = ("snapshots_written", "bytes_written", "files_deleted", "bytes_deleted")


@contextmanager
def reporting(
    reading: QueriesReading | None, fleet: Sequence[Target], verb: str, *, attempt: int = 1
) -> Iterator[Ended]:
    """Publishes that queries are at work until the block ends, and then their results.

    Yields what receives the results: until then, the figures are unknown. Without a verb, nothing
    is published, nor without a queries file.
    """
    tasks = _tasks(reading, fleet, verb, attempt) if reading else []
    if not tasks:
        yield lambda _: None
        return
    from statemaint.metrics.tasks import reporting as published  # noqa: PLC0415 -- needs an extra

    with published(*tasks, clock=time.time) as progress:
        by_query = {task.of.query: one for task, one in zip(tasks, progress, strict=True)}

        def ended(results: Iterable[QuerySummary]) -> None:
            for one in results:
                if found := by_query.get(one.query):
                    changes = {name: one.sums[name] for name in _CHANGES if name in one.sums}
                    found.add(stores_planned=one.stores, stores_done=one.stores, **changes)
                    found.failed = one.exit_code != 0

        yield ended


def _tasks(
    reading: QueriesReading, fleet: Sequence[Target], verb: str, attempt: int
) -> "list[Task]":
    """Returns a task of each query whose metrics have a destination."""
    try:
        wanted = [
            (named_of(reading, one.query), targets)
            for one in fleet
            if verb and one.query in reading.queries
            for targets in (targets_of(reading, one.query),)
            if targets.gateway or targets.textfile
        ]
        if not wanted:
            return []
        from statemaint.metrics.tasks import Task  # noqa: PLC0415 -- needs an extra
    except (ConfigError, ImportError) as error:
        tell(f"the progress of the fleet is not published: {error}")
        return []
    return [Task(of, f"{verb}-0", targets, retries=attempt - 1) for of, targets in wanted]
