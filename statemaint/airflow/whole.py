"""A whole run in one task: plan, maintenance of all partitions, report; the work is `tasks`'."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from statemaint.airflow import tasks
from statemaint.airflow.figures import figures_of_run
from statemaint.airflow.on_spark import together
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.maintain import Holder
from statemaint.maintain.run import OnOutcome, ignored
from statemaint.report.task import Failure


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
    order = options.order(settings, planned.bundles, run=run, handover=planned.handover)
    reports = [
        tasks.maintain_bundle(settings, order, bundle, on_outcome=on_outcome)
        for bundle in planned.bundles
    ]
    refused = options.refused(planned.failure.reason if planned.failure else None)
    results = planned.results(reports, refused=refused)
    done = tasks.finish(settings, results, run=run)
    shown = figures_of_run(settings, results, success=done["success"])
    failures = [one.failure for one in reports if one.failure]
    return WholeRun(done, planned.failure or together(failures), shown=shown)
