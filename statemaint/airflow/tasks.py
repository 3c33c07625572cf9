"""The work of the three tasks, without Airflow: plan, maintain a bundle, report.

`Failure.retry` states whether a failed task is worth another attempt. The caller raises, after it
has passed on the results.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from statemaint.airflow import advice, texts
from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.decided import Decided, decided_of
from statemaint.airflow.figures import withheld_figures
from statemaint.airflow.for_pages import UNPLANNED, figures_of_run
from statemaint.airflow.names import NOTE
from statemaint.airflow.publish import publish
from statemaint.airflow.settings import Failure, Options, QuerySettings
from statemaint.errors import ConfigError, LeaseHeldError, StatemaintError
from statemaint.maintain import Holder, begin_run, check_free, end_run, reserve
from statemaint.maintain.bundles import (
    Bundle,
    Costs,
    bundles,
    costs_of,
    task_count,
    unit_count,
    weights,
)
from statemaint.maintain.outcomes import PartOutcome
from statemaint.maintain.parts import maintain_part, prepare
from statemaint.maintain.record import is_refusal
from statemaint.maintain.run import OnOutcome, ignored
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, damaged
from statemaint.model.ids import run_folder
from statemaint.plan import Plan, by_reason
from statemaint.planning import plan_checkpoint
from statemaint.report import Emptied
from statemaint.report.ended import code_of, run_ended
from statemaint.report.part import MOST_FINDINGS, findings_json, reasons
from statemaint.report.record import LastRun, with_emptied
from statemaint.report.to_json import plan_json
from statemaint.scan import Handover
from statemaint.storage import Storage
from statemaint.wording import counted

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of `plan`.

    Attributes:
        bundles: the partitions with work, as tasks of about equal work.
        failure: why the task must fail.
        held: why the task must wait: another run holds the lease.
        decided: the facts for `report`.
        handover: the files that the tasks need not read again, as text.
        note: the result of a dry run, in a few lines.
        shown: the XComs of a dry run for the pages, by their keys.
    """

    bundles: tuple[Bundle, ...] = ()
    failure: Failure | None = None
    held: str | None = None
    decided: Decided = field(default_factory=Decided)
    handover: str | None = None
    note: str | None = None
    shown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def xcoms(self) -> dict[str, Any]:
        """Returns the XComs of the task for the UI, by their keys."""
        return {**({NOTE: self.note} if self.note else {}), **self.shown}


@dataclass(frozen=True, slots=True)
class Maintained:
    """The result of `maintain`: a summary if anything was inspected, a failure if there is one."""

    summary: dict[str, Any] | None
    failure: Failure | None = None

    @classmethod
    def of(cls, outcome: PartOutcome) -> "Maintained":
        """Returns the result of a bundle's outcome."""
        failure = Failure(outcome.reason, outcome.retry) if outcome.reason else None
        return cls(dict(outcome.summary) if outcome.summary else None, failure)

    @property
    def error(self) -> str | None:
        """Returns the code of the error that left no summary."""
        return None if self.summary or not self.failure else code_of(self.failure.reason)


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
            begin_run(storage, holder)
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
    plan, idle = prepared.plan, prepared.idle
    _log.info(texts.plan_line(plan, settings.query))
    _tell(plan.all_findings, before=f"{settings.query}: ")
    known = prepared.decided(every_unit=settings.metrics.every_unit)
    decided = decided_of(
        plan,
        idle.findings,
        known["lag"],
        scope=options.scope,
        facts=known["facts"],
        withheld=idle.withheld,
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
    failure = None
    if damaged(plan.all_findings):
        failure = Failure(f"DRY RUN: {reasons(plan.all_findings)}")
    decided = decided_of(plan, plan.all_findings, withheld=plan.withheld)
    shown = figures_of_run(settings, (), (), decided=decided, success=not failure, dry_run=True)
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
    listed = [one.to_json() for one in planned]
    if settings.engine != "spark" or not listed:
        return listed
    partitions = sum(len(one.partitions) for one in planned)
    return [{"label": f"{counted(partitions, 'partition')} on Spark", "bundles": listed}]


def bundles_of(inputs: Iterable[Mapping[str, Any]]) -> list[Bundle]:
    """Returns the bundles in the result of `mapped`."""
    return [Bundle.from_json(one) for each in inputs for one in each.get("bundles", (each,))]


def maintain_bundle(
    settings: QuerySettings,
    bundle: Bundle,
    options: Options,
    *,
    run: str,
    handover: str | None = None,
    on_outcome: OnOutcome = ignored,
) -> Maintained:
    """Maintains some partitions at the target that `plan` fixed, as `run`; safe to repeat.

    The summary has the facts for the metrics, which `finish` publishes for all bundles together.
    """
    try:
        report = maintain_part(
            _storage(settings),
            options.change(settings.policy),
            bundle,
            run=run,
            force_snapshot=options.force_snapshot,
            handover=Handover.from_json(handover) if handover else None,
            on_outcome=on_outcome,
        )
    except StatemaintError as error:
        return Maintained(None, Failure.of(error))
    _tell(report.findings)
    every_unit = settings.metrics.every_unit
    done = Maintained.of(PartOutcome.of_report(bundle, report, every_unit=every_unit))
    for line in texts.store_lines(report):
        _log.info(line)
    return done


def finish(  # noqa: PLR0913 -- what each task has handed on
    settings: QuerySettings,
    planned: Sequence[Bundle],
    summaries: Sequence[Mapping[str, Any]],
    *,
    decided: Decided | None = None,
    failure: str | None = None,
    run: str = "",
    errors: Sequence[str] = (),
    refused: bool = False,
) -> dict[str, Any]:
    """Ends the run: logs the totals of all bundles and returns the run's report.

    Ends the lease that the run's tasks share, even if a task is still running. Before that, empties
    the trash; after it, publishes the metrics of the plan and the tasks.

    Args:
        settings: the query's settings.
        planned: the bundles of the plan.
        summaries: the summaries of the tasks that made one.
        decided: the facts of the plan; `None` if the plan has failed.
        failure: why the plan has failed.
        run: the run's name in the ledger.
        errors: the code of each task's error that left no summary.
        refused: whether the run was refused for its own arguments: its metrics are no one's.
    """
    labels, scope = {one["label"] for one in summaries}, decided.scope if decided else ""
    silent = [bundle.label for bundle in planned if bundle.label not in labels]
    failed = [one["label"] for one in summaries if one["failed"]]
    seen = _seen(decided or Decided(), summaries)
    why = failure or (None if decided else UNPLANNED)
    ended = run_ended(
        run, len(planned), summaries, seen, ended=time.time(), failure=why, errors=errors
    )
    emptied = Emptied()
    if planned and planned[0].holder:
        # A run of only a part of a checkpoint leaves the trash alone.
        sound = not (silent or scope) and not any(one["halted"] for one in summaries)
        ended, emptied = _end_run(settings, planned[0].holder, ended, sound=sound)
    _log.info("%s\n%s", settings.query, texts.table(summaries))
    for label in silent:
        _log.warning("%s gave no report; its task's log says why", label)
    if not (scope or refused):  # the figures of a part are not the query's
        publish(settings, ended, store=not is_refusal(code_of(why)))
    report = _report(settings, planned, summaries, decided or Decided(), emptied)
    success = bool(decided) and not (failure or silent or failed or emptied.finding)
    report |= {"failure": failure, "without_report": len(silent), "success": success}
    report["maintained"] = success and bool(planned)
    report["note"] = advice.note(report)
    _log.info(report["note"])
    return report


def run_costs(planned: Sequence[Bundle], summaries: Sequence[Mapping[str, Any]]) -> Costs:
    """Returns the cost of each partition of a run, for the next run's bundles."""
    return costs_of(planned, {one["label"]: one["seconds"] for one in summaries})


def decided_json(decided: Decided) -> dict[str, Any]:
    """Returns the facts of the plan for `report`, in the form of an XCom."""
    # Lists: Airflow stores a tuple with the name of its class.
    lists = {"units": [list(one) for one in decided.units], "counts": list(decided.counts)}
    return {**asdict(decided), **lists}


def _report(
    settings: QuerySettings,
    planned: Sequence[Bundle],
    summaries: Sequence[Mapping[str, Any]],
    decided: Decided,
    emptied: Emptied,
) -> dict[str, Any]:
    sums = texts.totals(summaries)
    of_tasks = (found for one in summaries for found in one["findings"])
    findings = [*decided.findings, *of_tasks, *findings_json(emptied.findings)]
    broken = [one for one in findings if one["damage"]]
    waits = [*decided.withheld, *(one for part in summaries for one in part.get("withheld", ()))]
    return {
        "query": settings.query,
        "checkpoint": settings.checkpoint,
        "scope": decided.scope,
        "target": planned[0].target if planned else decided.target,
        "snapshots": sums["snapshots"],
        "files": sums["files"],
        "bytes": sums["bytes"],
        "trash_files_deleted": emptied.files,
        "trash_bytes_deleted": emptied.bytes,
        "halted": sums["halted"],
        "withheld": [one["text"] for one in withheld_figures(waits)],
        "findings": sorted({one["code"] for one in findings}),
        "broken": broken[:MOST_FINDINGS],
        "todo": advice.steps(findings, settings.checkpoint),
    }


def _seen(decided: Decided, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the facts of the plan for the metrics, with the lag of all partitions."""
    lags = [one for one in (decided.lag, *(one["lag"] for one in summaries)) if one is not None]
    return {**asdict(decided), "lag": max(lags, default=None)}


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
