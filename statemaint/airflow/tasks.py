"""The work of the three tasks, without Airflow: plan, maintain a bundle, report.

`Failure.retry` states whether a failed task is worth another attempt. The caller raises, after it
has passed on the results.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from statemaint.airflow import texts
from statemaint.airflow.figures import REFUSED, figures_of_run
from statemaint.airflow.names import COSTS, NOTE
from statemaint.airflow.plans import PLAN, kept_plan
from statemaint.airflow.publish import publish
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.errors import ConfigError, LeaseHeldError, StatemaintError
from statemaint.execute.lease import check_free, end_earlier
from statemaint.maintain.bundles import Bundle, bundles, costs_of, task_count, unit_count, weights
from statemaint.maintain.record import is_refusal
from statemaint.maintain.run import OnOutcome, end_run, reserve
from statemaint.maintain.work import TaskResults, WorkOrder, maintain_part, prepare
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.model.ids import run_folder
from statemaint.plan.actions import Plan
from statemaint.plan.withheld import by_reason, together
from statemaint.planning import plan_checkpoint
from statemaint.records.claims import Holder
from statemaint.report.facts import planned_units, restart_facts
from statemaint.report.record import LastRun, code_of, with_emptied
from statemaint.report.run import Emptied
from statemaint.report.task import (
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
from statemaint.workers import nothing

# The keys under which the tasks pass on their results, in addition to `plan`'s list of bundles.
PLANNED, HANDOVER, REPORT = "planned", "handover", "report"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of `plan`, and of a run that one task carries out.

    Attributes:
        held: why the task must wait: another run holds the lease.
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

    def results(
        self, reports: Iterable[BundleReport] = (), options: Options | None = None
    ) -> TaskResults:
        """Returns what the run's report needs, with the reports of the other tasks."""
        failure = self.failure.reason if self.failure else None
        refused = bool(options and options.refused(failure))
        return TaskResults(self.bundles, self.decided, failure, tuple(reports), refused)

    def xcoms(self, options: Options | None = None) -> dict[str, Any]:
        handover = {HANDOVER: self.handover} if self.handover else {}
        return {**self.shown, **planned_xcoms(self.results(options=options)), **handover}


def planned_xcoms(results: TaskResults) -> dict[str, Any]:
    """Returns the results of a plan; why it was refused is for the pages, even of a dry run."""
    refused = {REFUSED: results.failure} if results.refused else {}
    return {PLANNED: dumped(results), **refused}


def plan_query(
    settings: QuerySettings,
    options: Options,
    holder: Holder | None = None,
    *,
    run: str = "",
    costs: Mapping[str, float] | None = None,
) -> Planned:
    """Fixes the run's target version and finds the partitions that need attention.

    Ends the lease of an earlier attempt at the run, whose remaining tasks then stop before their
    next deletion; takes the lease for the tasks to come, which without a holder take their own.
    A dry run takes none (S13): it logs the plan, and writes it to a file outside the checkpoint.

    Passes on the facts of all other partitions, which no task sees: that they were inspected and
    are sound must be recorded too, above all after damage. `costs` are those of the last run.
    """
    try:
        if settings.engine == "spark" and settings.connection:
            raise ConfigError(
                "Spark's executors have no Airflow connections; run it with the engine `tasks`, or "
                f"give Spark its credentials and take {settings.connection!r} out of the query"
            )
        for line in options.looser(settings.policy):
            _log.warning("%s: %s", settings.query, line)
        storage = settings.open()
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
    costs: Mapping[str, float],
) -> Planned:
    prepared = prepare(storage, options.change(settings.policy), options.request())
    plan = prepared.plan
    _log.info(texts.plan_line(plan, settings.query))
    _tell(plan.all_findings, before=f"{settings.query}: ")
    decided = prepared.summary(every_unit=settings.named.every_unit)
    decided = replace(decided, units=tuple(planned_units(plan)), scope=options.scope)
    if plan.halted:
        return Planned(failure=Failure(reasons(plan.findings)), decided=decided)
    if plan.target is None or not prepared.has_work:
        return Planned(decided=decided)
    if holder:
        reserve(storage, holder)
    units = weights(plan, costs)
    spark = settings.engine == "spark"
    most = unit_count(units) if spark else task_count(units, costs, settings.max_tasks)
    packed = bundles(
        units, target=plan.target, most=most, holder=holder, snapshots_from=plan.snapshots_from
    )
    _log.info(texts.task_line([bundle.label for bundle in packed]))
    return Planned(packed, decided=decided, handover=prepared.handover.to_json())


def _shown(settings: QuerySettings, options: Options, storage: Storage, run: str) -> Planned:
    policy, request = options.change(settings.policy), options.request()
    checkpoint, plan = plan_checkpoint(storage, policy, request=request, dry=True)
    _log.info("DRY RUN: %s", texts.plan_line(plan, settings.query))
    _tell(plan.all_findings, before="DRY RUN: ")
    for line in texts.dry_run_lines(plan):
        _log.info(line)
    file = _write_plan(settings, run, checkpoint, plan)
    decided = PlanSummary.of(
        plan,
        plan.all_findings,
        scope=options.scope,
        units=tuple(planned_units(plan)),
        withheld=by_reason(plan.withheld),
        facts=restart_facts(plan, [planned.store for planned in plan.stores]),
    )
    note = texts.dry_note(plan, decided, file)
    _log.info(note)
    damage = reasons(plan.all_findings)
    failure = Failure(f"DRY RUN: {damage}") if damage else None
    results = TaskResults(summary=decided)
    shown = figures_of_run(settings, results, success=not failure, dry_run=True)
    shown[PLAN] = kept_plan(settings.query, plan)
    return Planned(failure=failure, note=note, shown=shown)


def _write_plan(
    settings: QuerySettings, run: str, checkpoint: Checkpoint, plan: Plan
) -> str | None:
    """Writes a plan as `statemaint plan --json` prints it; returns the file's path."""
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
    partitions = sum(len(bundle.partitions) for bundle in planned)
    return [{"label": f"{counted(partitions, 'partition')} on Spark", "bundles": listed}]


def bundles_of(inputs: Iterable[Mapping[str, Any]]) -> list[Bundle]:
    return [loaded(Bundle, part) for each in inputs for part in each.get("bundles", (each,))]


def maintain_bundle(
    settings: QuerySettings, order: WorkOrder, bundle: Bundle, *, on_outcome: OnOutcome = nothing
) -> BundleReport:
    """Maintains some partitions at the target that `plan` fixed; safe to repeat."""
    try:
        report = maintain_part(settings.open(), order, bundle, on_outcome=on_outcome)
    except StatemaintError as error:
        return BundleReport.of_error(bundle.label, error)
    _tell(report.findings)
    for line in texts.store_lines(report):
        _log.info(line)
    return order.report(bundle, report)


def finish(settings: QuerySettings, results: TaskResults, *, run: str = "") -> dict[str, Any]:
    """Empties the trash, ends the lease of the run's tasks, and publishes their metrics.

    The lease ends even if a task is still running. Returns the run's report.
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
    report["note"] = texts.note(report)
    _log.info(report["note"])
    return report


def reported(
    settings: QuerySettings, results: TaskResults, *, run: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ends a run, as `finish` does; returns its report, and its XComs by key."""
    report = finish(settings, results, run=run)
    xcoms = {NOTE: report["note"]}
    xcoms |= figures_of_run(settings, results, success=report["success"])
    if results.planned and not report["scope"]:
        seconds = {report.label: report.seconds for report in results.inspected}
        xcoms[COSTS] = costs_of(results.planned, seconds)
    return report, xcoms


def maintain_query(
    settings: QuerySettings,
    options: Options,
    holder: Holder,
    *,
    run: str,
    on_outcome: OnOutcome = nothing,
) -> Planned:
    """Maintains all partitions of a query in this process; without a report, it must wait."""
    planned = plan_query(settings, options, holder, run=run)
    if planned.held:
        return planned
    if options.dry_run:
        report = {"query": settings.query, "checkpoint": settings.checkpoint, "dry_run": True}
        nothing = {"maintained": False, "broken": [], "success": planned.failure is None}
        return replace(planned, report={**report, **nothing, "note": planned.note})
    order = options.order(settings, planned.bundles, run=run, handover=planned.handover)
    maintain = partial(maintain_bundle, settings, order, on_outcome=on_outcome)
    reports = [maintain(bundle) for bundle in planned.bundles]
    results = planned.results(reports, options)
    done = finish(settings, results, run=run)
    shown = figures_of_run(settings, results, success=done["success"])
    failures = [report.failure for report in reports if report.failure]
    failure = planned.failure or Failure.of_all(failures)
    return replace(planned, report=done, failure=failure, shown=shown)


def _report(settings: QuerySettings, results: TaskResults, emptied: Emptied) -> dict[str, Any]:
    plan, reports = results.plan, results.inspected
    parts: list[PlanSummary | BundleReport] = [plan, *reports]
    findings = [finding for part in parts for finding in part.findings]
    findings += findings_json(emptied.findings)
    return {
        "query": settings.query,
        "checkpoint": settings.checkpoint,
        "scope": plan.scope,
        "target": results.planned[0].target if results.planned else plan.target,
        "snapshots": sum(report.snapshots for report in reports),
        "bytes_written": sum(report.bytes_written for report in reports),
        "files": sum(report.files for report in reports),
        "bytes": sum(report.bytes for report in reports),
        "trash_files_deleted": emptied.files,
        "trash_bytes_deleted": emptied.bytes,
        "halted": sum(report.halted for report in reports),
        "withheld": [*map(str, together(wait for part in parts for wait in part.withheld))],
        "findings": sorted({finding["code"] for finding in findings}),
        **texts.advice(findings, settings.checkpoint),
    }


def _end_run(
    settings: QuerySettings, holder: Holder, ended: LastRun, *, sound: bool
) -> tuple[LastRun, Emptied]:
    units, code = settings.engine == "spark", ended.exit_code
    try:
        storage = settings.open()
        emptied = end_run(storage, holder, sound=sound, units=units, run=ended.run, exit_code=code)
    except StatemaintError as error:
        _log.warning("the lease is left to expire, and the trash to the next run: %s", error)
        emptied = Emptied()
    return with_emptied(ended, emptied), emptied


def _tell(findings: Sequence[Finding], before: str = "") -> None:
    for finding in findings:
        level = logging.ERROR if finding.damage else logging.WARNING
        _log.log(level, "%s%s: %s", before, finding.code.value, finding.detail)
