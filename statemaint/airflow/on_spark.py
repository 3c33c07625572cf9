"""The work of `maintain` on Spark: all bundles of one query or more, in one task; without Airflow.

The bundles go to Spark's driver, and their outcomes come back, by files beside the checkpoint
(`maintain.handed`): the driver may run on another machine.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from statemaint.airflow import texts
from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.settings import Failure, Options, QuerySettings
from statemaint.airflow.tasks import Maintained
from statemaint.errors import StatemaintError
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.handed import Handed, hand_over, read_outcomes
from statemaint.report.units import Unit
from statemaint.storage import Storage

_log = logging.getLogger(__name__)
_MOST_NAMED = 5

Start = Callable[[QuerySettings, Sequence[str]], str | None]
"""Runs Spark's program, with a query's settings and arguments; returns why it failed, if it did."""


@dataclass(frozen=True, slots=True)
class QueryWork:
    """The work of one query in a run of Spark's program.

    Attributes:
        settings: the query's settings.
        planned: the bundles of its plan.
        handover: the data that the plan has read, as text.
    """

    settings: QuerySettings
    planned: Sequence[Bundle]
    handover: str | None = None


Done = tuple[list[Maintained], Failure | None]
"""The results of a query's bundles, and why its work must fail."""


def maintain_bundles(  # noqa: PLR0913 -- each is a separate choice
    settings: QuerySettings,
    planned: Sequence[Bundle],
    options: Options,
    *,
    run: str,
    handover: str | None,
    attempt: int,
    start: Start,
) -> Done:
    """Maintains all bundles of a query by executors; as `maintain_queries` does."""
    work = QueryWork(settings, planned, handover)
    return maintain_queries([work], options, run=run, attempt=attempt, start=start)[settings.query]


def maintain_queries(
    works: Sequence[QueryWork], options: Options, *, run: str, attempt: int, start: Start
) -> dict[str, Done]:
    """Maintains the bundles of queries with one Spark program; returns the result of each.

    Safe to repeat: a further attempt works on those bundles only that have no outcome, or failed
    for a temporary reason. The failure of one query does not stop the others.

    Args:
        works: the queries with work, all with one Spark.
        options: the run's options.
        run: the run's name in the ledger.
        attempt: the number of this attempt.
        start: runs Spark's program.
    """
    done: dict[str, Done] = {}
    handed: list[tuple[QuerySettings, Handed]] = []
    for work in works:
        settings, given = work.settings, _handed(work, options, run)
        try:
            hand_over(_storage(settings), given)
        except StatemaintError as error:
            done[settings.query] = [], Failure.of(error)
        else:
            handed.append((settings, given))
    return done | _maintained(handed, attempt, start)


def _handed(work: QueryWork, options: Options, run: str) -> Handed:
    settings = work.settings
    return Handed(
        query=settings.query,
        policy=options.change(settings.policy),
        run=run,
        bundles=tuple(work.planned),
        force_snapshot=options.force_snapshot,
        handover=work.handover,
        every_unit=settings.metrics.every_unit,
    )


def _maintained(
    handed: Sequence[tuple[QuerySettings, Handed]], attempt: int, start: Start
) -> dict[str, Done]:
    if not handed:
        return {}
    pairs = [part for where, work in handed for part in (where.checkpoint, work.key)]
    try:
        wrong = start(handed[0][0], ["units", *pairs, "--attempt", str(attempt)])
    except StatemaintError as error:
        return {where.query: ([], Failure.of(error)) for where, _ in handed}
    return {where.query: _done(where, work, attempt, wrong) for where, work in handed}


def _done(settings: QuerySettings, work: Handed, attempt: int, wrong: str | None) -> Done:
    """Returns the result of a query, after Spark's program has ended."""
    try:
        results = _results(_storage(settings), work, attempt)
    except StatemaintError as error:
        return [], Failure.of(error)
    summaries = [one.summary for one in results.values() if one.summary]
    _log.info("%s\n%s", settings.query, texts.table(summaries))
    silent = [one.label for one in work.bundles if one.label not in results]
    failures = [*_silence(silent, wrong), *_failures(results)]
    return list(results.values()), together(failures)


def _storage(settings: QuerySettings) -> Storage:
    return open_checkpoint(settings.checkpoint, settings.connection)


def _results(storage: Storage, work: Handed, attempt: int) -> dict[str, Maintained]:
    outcomes = read_outcomes(storage, work, attempt)
    return {label: Maintained.of(one) for label, one in outcomes.items()}


def _silence(silent: Sequence[str], wrong: str | None) -> Iterator[Failure]:
    """Yields the failure of the bundles for which Spark reported nothing."""
    if silent:
        why = wrong or "Spark's program ended"
        yield Failure(f"SPARK: {why}, and these have no outcome: {_named(silent)}", retry=True)
    elif wrong:
        _log.warning("%s, after every partition had its outcome", wrong)


def _failures(results: dict[str, Maintained]) -> Iterator[Failure]:
    """Yields the failure of each bundle that has one, with the partitions that are damaged."""
    for label, one in results.items():
        if one.failure:
            reason = f"{_named(_damaged(one)) or label}: {one.failure.reason}"
            _log.error(reason)
            yield Failure(reason, one.failure.retry)


def _damaged(one: Maintained) -> list[str]:
    units = [Unit(*row) for row in one.summary["units"]] if one.summary else []
    return [str(unit.id) for unit in units if unit.damage]


def together(failures: Sequence[Failure]) -> Failure | None:
    """Returns the failure of a task that has several reasons to fail; `None` without any."""
    if not failures:
        return None
    # Another attempt works on those with a temporary failure; damage fails it again.
    retry = any(one.retry for one in failures)
    return Failure(_named([one.reason for one in failures], "; "), retry)


def _named(all_of_them: Sequence[str], between: str = ", ") -> str:
    more = len(all_of_them) - _MOST_NAMED
    shown = between.join(all_of_them[:_MOST_NAMED])
    return f"{shown}{between}and {more} more" if more > 0 else shown
