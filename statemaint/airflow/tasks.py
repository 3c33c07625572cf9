"""The work of the three tasks, without Airflow: plan, maintain a bundle, report.

`Failure.retry` states whether a failed task is worth another attempt. The caller raises, after it
has passed on the results.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from statemaint.airflow import advice, texts
from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.figures import figures_of_run
from statemaint.airflow.names import COSTS, NOTE
from statemaint.airflow.publish import publish
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.errors import ConfigError, LeaseHeldError, StatemaintError
from statemaint.execute.lease import check_free, end_earlier
from statemaint.maintain.bundles import (
    Bundle,
    Costs,
    bundles,
    costs_of,
    task_count,
    unit_count,
    weights,
)
from statemaint.maintain.record import is_refusal
from statemaint.maintain.run import OnOutcome, end_run, ignored, reserve
from statemaint.maintain.work import TaskResults, WorkOrder, maintain_part, prepare
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.model.ids import run_folder
from statemaint.plan.actions import Plan
from statemaint.plan.withheld import by_reason, together
from statemaint.planning import plan_checkpoint
from statemaint.records.claims import Holder
from statemaint.report.facts import planned_units
from statemaint.report.outcome import Emptied
from statemaint.report.record import LastRun, code_of, with_emptied
from statemaint.report.task import (
    MOST_FINDINGS,
    BundleReport,
    Failure,
    PlanSummary,
    dumped,
    findings_json,
    loaded,
    reasons,
)
from statemaint.report.to_json import plan_json
from statemaint.storage import Storage
from statemaint.wording import counted

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of `plan`, and of a run that one task carries out.

    Attributes:
        bundles: the partitions with work, as tasks of about equal work.
        failure: why the task must fail.
        held: why the task must wait: another run holds the lease.
        decided: the facts for `report`.
        handover: the files that the tasks need not read again, as text.
        note: the result of a dry run, in a few lines.
        shown: the XComs for the pages, by their keys: of a dry run, or of a whole run.
        report: the report of a whole run, or of a dry run in one task.
    """

    bundles: tuple[Bundle, ...] = ()
    failure: Failure | None = None
    held: str | None = None
    decided: PlanSummary = field(default_factory=PlanSummary)
    handover: str | None = None
    note: str | None = None
    shown: Mapping[str, Any] = field(default_factory=dict)
    report: dict[str, Any] | None = None

    @property
    def xcoms(self) -> dict[str, Any]:
        """Returns the XComs of the task for the UI, by their keys."""
        return {**({NOTE: self.note} if self.note else {}), **self.shown}

    def results(
        self, reports: Iterable[BundleReport] = (), *, refused: bool = False
    ) -> TaskResults:
        """Returns what the run's report needs, with the reports of the other tasks."""
        failure = self.failure.reason if self.failure else None
        return TaskResults(self.bundles, self.decided, failure, tuple(reports), refused)


def plan_query(
    settings: QuerySettings,
    options: Options,
    holder: Holder | None = None,
    *,
    run: str = "",
    costs: Costs | None = None,
) -> Planned:
    """Fixes the run's target version and finds the partitions that need attention.

    Ends the lease of an earlier attempt at the run, whose remaining tasks then stop before their
    next deletion; takes the lease for the tasks to come. A dry run takes none (S13): it logs the
    whole plan, and writes it to a file outside the checkpoint.

    Passes on the facts of all other partitions, which no task sees: that they were inspected and
    are sound must be recorded too, above all after damage.

    Args:
        settings: the query's settings.
        options: the run's options.
        holder: the holder of the lease that the run's tasks share; by default each takes its own.
        run: the run's id, for the name of a dry run's file.
        costs: how slow each partition was in the last run.
    """
    try:
        _check_engine(settings)
        storage = _storage(settings)
        if options.dry_run:
            return _shown(settings, options, storage, run)
        if holder:
            end_earlier(storage, holder)
            check_free(storage, holder)
        return _planned(settings, options, storage, holder, costs or {})
    except LeaseHeldError as error:
        return Planned(held=f"{error.code}: {error}")
    except StatemaintError as error:
        return Planned(failure=Failure.of(error))


def _planned(
    settings: QuerySettings,
    options: Options,
    storage: Storage,
    holder: Holder | None,
    costs: Costs,
) -> Planned:
    prepared = prepare(storage, options.change(settings.policy), options.request())
    plan = prepared.plan
    _log.info(texts.plan_line(plan, settings.query))
    _tell(plan.all_findings, before=f"{settings.query}: ")
    decided = replace(
        prepared.summary(every_unit=settings.named.every_unit),
        units=tuple(planned_units(plan)),
        scope=options.scope,
    )
    if plan.halted:
        return Planned(failure=Failure(reasons(plan.findings)), decided=decided)
    if plan.target is None or not prepared.has_work:
        return Planned(decided=decided)
    if holder:
        reserve(storage, holder)
    units = weights(plan, costs)
    spark = settings.engine == "spark"
    most = unit_count(units) if spark else task_count(units, costs, settings.max_tasks)
    packed = bundles(units, target=plan.target, most=most, holder=holder)
    _log.info(texts.task_line([one.label for one in packed]))
    return Planned(packed, decided=decided, handover=prepared.handover.to_json())


def _check_engine(settings: QuerySettings) -> None:
    if settings.engine == "spark" and settings.connection:
        raise ConfigError(
            "Spark's executors have no Airflow connections; run it with the engine `tasks`, "
            f"or give Spark its credentials and take {settings.connection!r} out of the query"
        )


def _shown(settings: QuerySettings, options: Options, storage: Storage, run: str) -> Planned:
    """Shows the plan of a dry run: in the log, as a file and as a note."""
    policy, request = options.change(settings.policy), options.request()
    checkpoint, plan = plan_checkpoint(storage, policy, request=request, dry=True)
    _log.info("DRY RUN: %s", texts.plan_line(plan, settings.query))
    _tell(plan.all_findings, before="DRY RUN: ")
    for line in texts.dry_run_lines(plan):
        _log.info(line)
    file = _write_plan(settings, run, checkpoint, plan)
    waits = [str(one) for one in by_reason(plan.withheld)]
    counts = {
        **texts.planned_counts(plan),
        "target": plan.target,
        "scope": options.scope,
        "withheld": waits,
    }
    note = advice.dry_note(counts, findings_json(plan.all_findings), file)
    _log.info(note)
    damage = reasons(plan.all_findings)
    failure = Failure(f"DRY RUN: {damage}") if damage else None
    units, waiting = tuple(planned_units(plan)), by_reason(plan.withheld)
    decided = PlanSummary.of(plan, plan.all_findings, units=units, withheld=waiting)
    results = TaskResults(summary=decided)
    shown = figures_of_run(settings, results, success=not failure, dry_run=True)
    return Planned(failure=failure, note=note, shown=shown)


def _write_plan(
    settings: QuerySettings, run: str, checkpoint: Checkpoint, plan: Plan
) -> str | None:
    """Writes a plan as `statemaint plan --json` prints it, and returns the file's path."""
    if settings.plans is None:
        return None
    file = settings.plans / settings.query / f"{run_folder(run)}.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        document = {"dry_run": True, **plan_json(checkpoint, plan)}
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        _log.warning("DRY RUN: the plan is not written to %s: %s", file, error)
        return None
    return str(file)


def mapped(settings: QuerySettings, planned: Sequence[Bundle]) -> list[dict[str, Any]]:
    """Returns the inputs of `maintain`: each bundle, or for Spark all of them as one."""
    listed = [{"label": bundle.label, **dumped(bundle)} for bundle in planned]
    if settings.engine != "spark" or not listed:
        return listed
    partitions = sum(len(one.partitions) for one in planned)
    return [{"label": f"{counted(partitions, 'partition')} on Spark", "bundles": listed}]


def bundles_of(inputs: Iterable[Mapping[str, Any]]) -> list[Bundle]:
    """Returns the bundles in the result of `mapped`."""
    return [loaded(Bundle, one) for each in inputs for one in each.get("bundles", (each,))]


def maintain_bundle(
    settings: QuerySettings, order: WorkOrder, bundle: Bundle, *, on_outcome: OnOutcome = ignored
) -> BundleReport:
    """Maintains some partitions at the target that `plan` fixed; safe to repeat.

    The report has the facts for the metrics, which `finish` publishes for all bundles together.
    """
    try:
        report = maintain_part(_storage(settings), order, bundle, on_outcome=on_outcome)
    except StatemaintError as error:
        return BundleReport.of_error(bundle.label, error)
    _tell(report.findings)
    for line in texts.store_lines(report):
        _log.info(line)
    return order.report(bundle, report)


def finish(settings: QuerySettings, results: TaskResults, *, run: str = "") -> dict[str, Any]:
    """Ends the run: logs the totals of all bundles and returns the run's report.

    Ends the lease that the run's tasks share, even if a task is still running. Before that, empties
    the trash; after it, publishes the metrics of the plan and the tasks.
    """
    scope, reports = results.plan.scope, results.inspected
    ended = results.ended(run, time.time())
    emptied = Emptied()
    if results.planned and results.planned[0].holder:
        # A run of only a part of a checkpoint leaves the trash alone.
        sound = not (results.silent or scope) and not any(report.halted for report in reports)
        ended, emptied = _end_run(settings, results.planned[0].holder, ended, sound=sound)
    _log.info("%s\n%s", settings.query, texts.table(reports))
    for label in results.silent:
        _log.warning("%s gave no report; its task's log says why", label)
    if not (scope or results.refused):  # the figures of a part are not the query's
        publish(settings, ended, store=not is_refusal(code_of(results.reason)))
    success = not (
        results.reason
        or results.silent
        or emptied.finding
        or any(report.failure for report in reports)
    )
    report = {
        **_report(settings, results, emptied),
        "failure": results.failure,
        "without_report": len(results.silent),
        "success": success,
        "maintained": success and bool(results.planned),
    }
    report["note"] = advice.note(report)
    _log.info(report["note"])
    return report


def reported(
    settings: QuerySettings, results: TaskResults, *, run: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ends the run of a query, as `finish` does; returns its report, and its XComs by key."""
    report = finish(settings, results, run=run)
    xcoms = {NOTE: report["note"]}
    xcoms |= figures_of_run(settings, results, success=report["success"])
    if results.planned and not report["scope"]:
        xcoms[COSTS] = run_costs(results)
    return report, xcoms


def maintain_query(
    settings: QuerySettings,
    options: Options,
    holder: Holder,
    *,
    run: str,
    on_outcome: OnOutcome = ignored,
) -> Planned:
    """Maintains all partitions of a query in this process; `max_tasks` has no effect.

    Without a report, the task must wait.
    """
    planned = plan_query(settings, options, holder, run=run)
    if planned.held:
        return planned
    if options.dry_run:
        report = {"query": settings.query, "checkpoint": settings.checkpoint, "dry_run": True}
        nothing = {"maintained": False, "broken": [], "success": planned.failure is None}
        return replace(planned, report={**report, **nothing, "note": planned.note})
    order = options.order(settings, planned.bundles, run=run, handover=planned.handover)
    reports = [
        maintain_bundle(settings, order, bundle, on_outcome=on_outcome)
        for bundle in planned.bundles
    ]
    refused = options.refused(planned.failure.reason if planned.failure else None)
    results = planned.results(reports, refused=refused)
    done = finish(settings, results, run=run)
    shown = figures_of_run(settings, results, success=done["success"])
    failure = planned.failure or Failure.of_all([one.failure for one in reports if one.failure])
    return replace(planned, report=done, failure=failure, shown=shown)


def run_costs(results: TaskResults) -> Costs:
    """Returns the cost of each partition of a run, for the next run's bundles."""
    seconds = {report.label: report.seconds for report in results.inspected}
    return costs_of(results.planned, seconds)


def _report(settings: QuerySettings, results: TaskResults, emptied: Emptied) -> dict[str, Any]:
    plan, reports = results.plan, results.inspected
    of_tasks = (found for report in reports for found in report.findings)
    findings = [*plan.findings, *of_tasks, *findings_json(emptied.findings)]
    waits = [*plan.withheld, *(one for report in reports for one in report.withheld)]
    return {
        "query": settings.query,
        "checkpoint": settings.checkpoint,
        "scope": plan.scope,
        "target": results.planned[0].target if results.planned else plan.target,
        "snapshots": sum(report.snapshots for report in reports),
        "files": sum(report.files for report in reports),
        "bytes": sum(report.bytes for report in reports),
        "trash_files_deleted": emptied.files,
        "trash_bytes_deleted": emptied.bytes,
        "halted": sum(report.halted for report in reports),
        "withheld": [str(one) for one in together(waits)],
        "findings": sorted({one["code"] for one in findings}),
        "broken": [one for one in findings if one["damage"]][:MOST_FINDINGS],
        "todo": advice.steps(findings, settings.checkpoint),
    }


def _storage(settings: QuerySettings) -> Storage:
    return open_checkpoint(settings.checkpoint, settings.connection)


def _end_run(
    settings: QuerySettings, holder: Holder, ended: LastRun, *, sound: bool
) -> tuple[LastRun, Emptied]:
    units, code = settings.engine == "spark", ended.exit_code
    try:
        storage = _storage(settings)
        emptied = end_run(storage, holder, sound=sound, units=units, run=ended.run, exit_code=code)
    except StatemaintError as error:
        _log.warning("the lease is left to expire, and the trash to the next run: %s", error)
        emptied = Emptied()
    return with_emptied(ended, emptied), emptied


def _tell(findings: Sequence[Finding], before: str = "") -> None:
    for finding in findings:
        level = logging.ERROR if finding.damage else logging.WARNING
        _log.log(level, "%s%s: %s", before, finding.code.value, finding.detail)
