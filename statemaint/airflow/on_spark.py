"""The work of `maintain` on Spark: all bundles in one task, by executors; without Airflow.

The bundles go to Spark's driver, and their outcomes come back, by files beside the checkpoint
(`maintain.handed`): the driver may run on another machine.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

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
"""Runs Spark's program with some arguments; returns why it did not end well."""


def maintain_bundles(  # noqa: PLR0913 -- each is a choice of its own
    settings: QuerySettings,
    planned: Sequence[Bundle],
    options: Options,
    *,
    run: str,
    handover: str | None,
    attempt: int,
    start: Start,
) -> tuple[list[Maintained], Failure | None]:
    """Maintains all bundles by executors; returns their results, and why the task must fail.

    Safe to repeat: a further attempt works on those bundles only that have no outcome, or failed
    for what may pass.

    Args:
        settings: the query's settings.
        planned: the bundles of the plan.
        options: the run's options.
        run: the run's name in the ledger.
        handover: what the plan has read, as text.
        attempt: the number of this attempt.
        start: runs Spark's program.
    """
    work = Handed(
        query=settings.query,
        policy=options.change(settings.policy),
        run=run,
        bundles=tuple(planned),
        force_snapshot=options.force_snapshot,
        handover=handover,
        every_unit=settings.metrics.every_unit,
    )
    try:
        return _maintained(settings, work, attempt, start)
    except StatemaintError as error:
        return [], Failure.of(error)


def _maintained(
    settings: QuerySettings, work: Handed, attempt: int, start: Start
) -> tuple[list[Maintained], Failure | None]:
    storage = open_checkpoint(settings.checkpoint, settings.connection)
    hand_over(storage, work)
    wrong = start(settings, ["units", settings.checkpoint, work.key, "--attempt", str(attempt)])
    found = _results(storage, work, attempt)
    summaries = [one.summary for one in found.values() if one.summary]
    _log.info("%s\n%s", settings.query, texts.table(summaries))
    silent = [one.label for one in work.bundles if one.label not in found]
    failures = [*_silence(silent, wrong), *_failures(found)]
    return list(found.values()), _together(failures)


def _results(storage: Storage, work: Handed, attempt: int) -> dict[str, Maintained]:
    outcomes = read_outcomes(storage, work, attempt)
    return {label: Maintained.of(one) for label, one in outcomes.items()}


def _silence(silent: Sequence[str], wrong: str | None) -> Iterator[Failure]:
    """Yields the failure of the bundles of which Spark said nothing."""
    if silent:
        why = wrong or "Spark's program ended"
        yield Failure(f"SPARK: {why}, and these have no outcome: {_named(silent)}", retry=True)
    elif wrong:
        _log.warning("%s, after every partition had its outcome", wrong)


def _failures(found: dict[str, Maintained]) -> Iterator[Failure]:
    """Yields the failure of each bundle that has one, with the partitions that are damaged."""
    for label, one in found.items():
        if one.failure:
            reason = f"{_named(_damaged(one)) or label}: {one.failure.reason}"
            _log.error(reason)
            yield Failure(reason, one.failure.retry)


def _damaged(one: Maintained) -> list[str]:
    units = [Unit(*row) for row in one.summary["units"]] if one.summary else []
    return [str(unit.id) for unit in units if unit.damage]


def _together(failures: Sequence[Failure]) -> Failure | None:
    if not failures:
        return None
    # Another attempt works on those whose failure may pass; what is damaged fails it again.
    retry = any(one.retry for one in failures)
    return Failure(_named([one.reason for one in failures], "; "), retry)


def _named(all_of_them: Sequence[str], between: str = ", ") -> str:
    more = len(all_of_them) - _MOST_NAMED
    shown = between.join(all_of_them[:_MOST_NAMED])
    return f"{shown}{between}and {more} more" if more > 0 else shown
