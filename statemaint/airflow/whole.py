"""A whole run in one task: plan, maintenance of all partitions, report; the work is `tasks`'."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statemaint.airflow import tasks
from statemaint.airflow.for_pages import figures_of_run
from statemaint.airflow.settings import Failure, Options, QuerySettings
from statemaint.maintain import Holder
from statemaint.maintain.run import OnOutcome, ignored


@dataclass(frozen=True, slots=True)
class WholeRun:
    """The result of a whole run.

    Attributes:
        report: the run's report; `None` if the task must wait.
        failure: why the task must fail.
        held: why the task must wait: another run holds the lease.
        shown: the XComs for the pages, by their keys.
    """

    report: dict[str, Any] | None = None
    failure: Failure | None = None
    held: str | None = None
    shown: Mapping[str, Any] = field(default_factory=dict)


def maintain_query(
    settings: QuerySettings,
    options: Options,
    holder: Holder,
    *,
    run: str,
    on_outcome: OnOutcome = ignored,
) -> WholeRun:
    """Maintains all partitions of a query in this process, one operator after another.

    Args:
        settings: the query's settings; `max_tasks` has no effect.
        options: the run's options.
        holder: the holder of the run's lease.
        run: the run's name in the ledger.
        on_outcome: called with each outcome as it happens, for progress.
    """
    planned = tasks.plan_query(settings, options, holder, run=run)
    if planned.held:
        return WholeRun(held=planned.held)
    if options.dry_run:
        report = {"query": settings.query, "checkpoint": settings.checkpoint, "dry_run": True}
        nothing = {"maintained": False, "broken": [], "success": planned.failure is None}
        summary = {**report, **nothing, "note": planned.note}
        return WholeRun(summary, planned.failure, shown=planned.shown)
    done = [
        tasks.maintain_bundle(
            settings, one, options, run=run, handover=planned.handover, on_outcome=on_outcome
        )
        for one in planned.bundles
    ]
    summaries = [one.summary for one in done if one.summary]
    facts: dict[str, Any] = {
        "decided": planned.decided,
        "failure": planned.failure.reason if planned.failure else None,
    }
    facts["refused"] = options.refused(facts["failure"])
    errors = [one.error for one in done if one.error]
    report = tasks.finish(settings, planned.bundles, summaries, **facts, run=run, errors=errors)
    success = bool(report["success"])
    shown = figures_of_run(settings, planned.bundles, summaries, **facts, success=success)
    failures = [one.failure for one in done if one.failure]
    return WholeRun(report, planned.failure or _together(failures), shown=shown)


def _together(failures: Sequence[Failure]) -> Failure | None:
    if not failures:
        return None
    # Another attempt maintains the parts that a storage failed for; damaged ones fail it again.
    retry = any(one.retry for one in failures)
    return Failure("; ".join(one.reason for one in failures), retry=retry)
