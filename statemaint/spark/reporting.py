"""The driver's report on each query of a fleet: one group while executors work, then its record.

Records are made as everywhere (`maintain.record`), of what executors have noted beside their rows.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from statemaint.cli.output import tell
from statemaint.cli.queries import named_of, targets_of
from statemaint.errors import ConfigError
from statemaint.maintain.record import is_refusal, note_run, note_verification
from statemaint.maintain.work import TaskResults
from statemaint.model.verdict import Looked, Verdict, worst
from statemaint.queries.reading import QueriesReading
from statemaint.report.record import code_of, with_emptied
from statemaint.report.run import Emptied
from statemaint.savepoint.report import SavepointReport, note_in_record
from statemaint.spark.fleet import Target, tried
from statemaint.spark.outcomes import QuerySummary, Row
from statemaint.storage import Storage

if TYPE_CHECKING:
    from statemaint.metrics.tasks import Task

_log = logging.getLogger(__name__)
Ended = Callable[[Iterable[QuerySummary]], None]
_CHANGES = ("snapshots_written", "bytes_written", "files_deleted", "bytes_deleted")


@contextmanager
def reporting(
    reading: QueriesReading | None, fleet: Sequence[Target], verb: str, *, attempt: int = 1
) -> Iterator[Ended]:
    """Publishes that queries are at work until the block ends, and then their results.

    Yields what receives the results: until then, the figures are unknown. Without a verb, nothing
    is published, nor without a queries file. At last the metrics of missing queries are removed.
    """
    tasks = _tasks(reading, fleet, verb, attempt) if reading else []
    if not tasks:
        yield lambda _: None
        return
    from statemaint.metrics.publish import remove_missing  # noqa: PLC0415 -- needs an extra
    from statemaint.metrics.tasks import ENDING_SECONDS  # noqa: PLC0415 -- as above
    from statemaint.metrics.tasks import reporting as published  # noqa: PLC0415 -- as above

    with published(*tasks, clock=time.time) as progress:
        by_query = {task.of.query: of_task for task, of_task in zip(tasks, progress, strict=True)}

        def ended(results: Iterable[QuerySummary]) -> None:
            for summary in results:
                if found := by_query.get(summary.query):
                    changes = {
                        name: summary.sums[name] for name in _CHANGES if name in summary.sums
                    }
                    found.add(stores_planned=summary.stores, stores_done=summary.stores, **changes)
                    found.failed = summary.exit_code != 0

        yield ended
    for task in tasks:
        remove_missing(task.of, task.targets, ENDING_SECONDS)


def _tasks(
    reading: QueriesReading, fleet: Sequence[Target], verb: str, attempt: int
) -> "list[Task]":
    try:
        wanted = [
            (named_of(reading, target.query), targets)
            for target in fleet
            if verb and target.query in reading.queries
            for targets in (targets_of(reading, target.query),)
            if targets.gateway or targets.textfile
        ]
        if not wanted:
            return []
        from statemaint.metrics.tasks import Task  # noqa: PLC0415 -- needs an extra
    except (ConfigError, ImportError) as error:
        tell(f"the progress of the fleet is not published: {error}")
        return []
    return [Task(of, f"{verb}-0", targets, retries=attempt - 1) for of, targets in wanted]


def note_runs(
    run: str, ends: Mapping[Target, TaskResults], emptied: Mapping[Target, Emptied]
) -> None:
    """Adds the end of a run to the record of each query, if its arguments were accepted."""

    def note(target: Target, storage: Storage) -> None:
        end = ends[target]
        if not is_refusal(code_of(end.failure)):
            last = end.ended(run, storage.now())
            note_run(storage, with_emptied(last, emptied.get(target, Emptied())))

    _noted(note, ends)


def note_verifications(fleet: Iterable[Target], rows: Iterable[Row]) -> None:
    """Adds the result of a verification to the record of each query all of whose shares ended."""
    shares: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        shares[row["query"]].append(row)

    def note(target: Target, storage: Storage) -> None:
        found = shares[target.query]
        codes = {finding["code"] for row in found for finding in row["findings"] or ()}
        if found and not any(row["error"] for row in found):
            note_verification(
                storage,
                codes,
                healthy=all(row["healthy"] for row in found),
                verdict=worst(Verdict(row["verdict"]) for row in found),
                looked=Looked(found[0]["looked_at"]),
            )

    _noted(note, fleet)


def note_savepoints(reports: Mapping[Target, SavepointReport]) -> None:
    _noted(lambda target, storage: note_in_record(storage, reports[target]), reports)


def _noted(note: Callable[[Target, Storage], object], targets: Iterable[Target]) -> None:
    known = [target for target in targets if not target.mistake]
    for target, error in tried(lambda target: note(target, target.open()), known).items():
        _log.warning("%s: it is not in the metrics: %s", target.query, error)
