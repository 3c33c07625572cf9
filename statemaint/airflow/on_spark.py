"""The work of `maintain` on Spark: all bundles of one query or more, in one task; without Airflow.

The bundles go to Spark's driver, and their outcomes come back, by files beside the checkpoint
(`maintain.work`): the driver may run on another machine.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from statemaint.airflow import texts
from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import StatemaintError
from statemaint.maintain.work import WorkOrder, hand_over, read_reports
from statemaint.report.task import BundleReport, Failure, named
from statemaint.storage import Storage

_log = logging.getLogger(__name__)

Start = Callable[[QuerySettings, Sequence[str]], str | None]
"""Runs Spark's program with a query's settings and some arguments; returns why it failed."""


Done = tuple[list[BundleReport], Failure | None]
"""The reports on a query's bundles, and why its work must fail."""


def maintain_queries(
    works: Sequence[tuple[QuerySettings, WorkOrder]], *, attempt: int, start: Start
) -> dict[str, Done]:
    """Maintains the bundles of queries in one Spark program; returns the results of each query.

    Safe to repeat: a further attempt only works on bundles that have no outcome, or failed for a
    reason that may pass. A failure of one query does not stop the others.
    """
    done: dict[str, Done] = {}
    handed = []
    for settings, order in works:
        try:
            hand_over(_storage(settings), order)
        except StatemaintError as error:
            done[settings.query] = [], Failure.of(error)
        else:
            handed.append((settings, order))
    if not handed:
        return done
    pairs = [part for settings, order in handed for part in (settings.checkpoint, order.key)]
    try:
        wrong = start(handed[0][0], ["units", *pairs, "--attempt", str(attempt)])
    except StatemaintError as error:
        return done | {settings.query: ([], Failure.of(error)) for settings, _ in handed}
    return done | {settings.query: _done(settings, one, attempt, wrong) for settings, one in handed}


def _done(settings: QuerySettings, order: WorkOrder, attempt: int, wrong: str | None) -> Done:
    """Returns the results of a query, after Spark's program has ended."""
    try:
        reports = read_reports(_storage(settings), order, attempt)
    except StatemaintError as error:
        return [], Failure.of(error)
    _log.info("%s\n%s", settings.query, texts.table([one for one in reports if one.inspected]))
    labels = {report.label for report in reports}
    silent = [bundle.label for bundle in order.bundles if bundle.label not in labels]
    return reports, Failure.of_all([*_silence(silent, wrong), *_failures(reports)])


def _storage(settings: QuerySettings) -> Storage:
    return open_checkpoint(settings.checkpoint, settings.connection)


def _silence(silent: Sequence[str], wrong: str | None) -> Iterator[Failure]:
    """Yields the failure of the bundles without an outcome."""
    if silent:
        why = wrong or "Spark's program ended"
        yield Failure(f"SPARK: {why}, and these have no outcome: {named(silent)}", retry=True)
    elif wrong:
        _log.warning("%s, after every partition had its outcome", wrong)


def _failures(reports: Iterable[BundleReport]) -> Iterator[Failure]:
    """Yields the failure of each bundle that has one, with the partitions that are damaged."""
    for report in reports:
        if report.failure:
            damaged = [str(unit.id) for unit in report.units if unit.damage]
            reason = f"{named(damaged) or report.label}: {report.failure.reason}"
            _log.error(reason)
            yield Failure(reason, report.failure.retry)
