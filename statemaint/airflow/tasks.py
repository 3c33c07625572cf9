"""What the three tasks do, without Airflow: plan, maintain a bundle, report.

Whether a failed task is worth another try is said by `Failure.retry`; raising is up to the caller,
once what was learned has been handed on.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

from statemaint.airflow import texts
from statemaint.airflow.bundles import Bundle, bundles
from statemaint.airflow.connections import open_checkpoint
from statemaint.errors import LeaseHeldError, LeaseLostError, StatemaintError, StorageError
from statemaint.maintain import Holder, begin_run, end_run, maintain
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.model.policy import Policy
from statemaint.plan import Plan, Request
from statemaint.planning import plan_checkpoint
from statemaint.report import Halted, Report, summarize
from statemaint.storage import Storage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """One query as the queries file and the environment describe it.

    Attributes:
        query: its name.
        checkpoint: the address of its checkpoint.
        policy: when to snapshot and what to keep.
        connection: the id of the Airflow connection that reaches it; `None`: the environment does.
        max_tasks: how many tasks may share the partitions.
        gateway: the Pushgateway's address; `None` without one.
        textfile: where metrics files go; `None` for nowhere.
    """

    query: str
    checkpoint: str
    policy: Policy
    connection: str | None = None
    max_tasks: int = 64
    gateway: str | None = None
    textfile: Path | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """What one run is asked for, as its form says; `None` leaves the file's policy as it is."""

    dry_run: bool = False
    force_snapshot: bool = False
    min_deltas_for_snapshot: int | None = None
    min_batches_to_retain: int | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Options":
        """Returns the options that a run's params hold."""
        return cls(**{name: params[name] for name in cls.__slots__})

    def change(self, policy: Policy) -> Policy:
        """Returns the policy of this run."""
        return policy.override(
            min_deltas_for_snapshot=self.min_deltas_for_snapshot,
            min_batches_to_retain=self.min_batches_to_retain,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task must fail; `retry` tells whether trying again could help."""

    reason: str
    retry: bool = False

    @classmethod
    def of(cls, error: StatemaintError) -> "Failure":
        """Returns what an error means for its task: a storage may be well, a lease free soon."""
        retry = isinstance(error, StorageError | LeaseHeldError | LeaseLostError)
        return cls(f"{error.code}: {error}", retry=retry)


@dataclass(frozen=True, slots=True)
class Planned:
    """What `plan` decided: the bundles to map over, or why it failed."""

    bundles: tuple[Bundle, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """What became of a bundle: its summary where there is a report, and why it failed."""

    summary: dict[str, Any] | None
    failure: Failure | None = None


def plan_query(settings: QuerySettings, options: Options, holder: Holder | None = None) -> Planned:
    """Fixes the run's target version, and finds the partitions that need attention.

    What an earlier attempt at the run has left stops before its next deletion, its lease ends.

    Pushes the metrics of all other partitions, which no task will: that they were looked at and are
    well is news too, above all after they were not.

    Args:
        settings: the query's.
        options: the run's.
        holder: of the lease that the run's tasks will share; each has its own by default.
    """
    try:
        if holder and not options.dry_run:
            begin_run(_storage(settings), holder)
        plan = _plan(settings, options)
    except StatemaintError as error:
        return Planned(failure=Failure.of(error))
    _log.info(texts.plan_line(plan, settings.query))
    _tell(plan.all_findings)
    if plan.target is not None and not options.dry_run:
        _publish(settings, _unmapped(settings, plan))
    if plan.halted:
        return Planned(failure=Failure(texts.reasons(plan.findings)))
    if plan.target is None:
        return Planned()
    most = settings.max_tasks
    return Planned(bundles(plan.units, target=plan.target, most=most, holder=holder))


def maintain_bundle(
    settings: QuerySettings, bundle: Bundle, options: Options, *, run: str
) -> Maintained:
    """Maintains some partitions at the target that `plan` fixed, as `run`; safe to repeat.

    Metrics are pushed whatever came out; a Pushgateway that does not answer is only worth a line.
    """
    try:
        report = _maintain(settings, bundle, options, run)
    except StatemaintError as error:
        return Maintained(None, Failure.of(error))
    for line in texts.dry_run_lines(report.plan) if report.dry_run else ():
        _log.info(line)
    _tell(report.findings)
    if not report.dry_run:
        _publish(settings, report)
    summary = texts.summary(report, bundle.label)
    _log.info("%s\n%s", settings.query, texts.table([summary]))
    return Maintained(summary, _failure(report))


def finish(
    settings: QuerySettings,
    planned: Sequence[Bundle],
    summaries: Sequence[Mapping[str, Any]],
    options: Options,
) -> dict[str, Any]:
    """Ends the run: logs what all bundles came to, and returns the event's extra.

    The tasks shared the run's lease, which ends here even under one that still runs; the trash is
    emptied before, and the query's metrics are pushed.
    """
    holder = planned[0].holder if planned else None
    if holder and not options.dry_run:
        sound = not any(one["halted"] for one in summaries) and len(summaries) == len(planned)
        _end_run(settings, holder, sound=sound)
    told = {one["label"] for one in summaries}
    silent = [bundle.label for bundle in planned if bundle.label not in told]
    _log.info("%s\n%s", settings.query, texts.table(summaries))
    for label in silent:
        _log.warning("%s gave no report; its task's log says why", label)
    if not options.dry_run:
        _publish_query(settings, options)
    sums = texts.totals(summaries)
    return {
        "query": settings.query,
        "target": planned[0].target if planned else None,
        "snapshots": sums["snapshots"],
        "files": sums["files"],
        "bytes": sums["bytes"],
        "halted": sums["halted"],
        "findings": [one["code"] for one in sums["findings"]],
        "without_report": len(silent),
    }


def _storage(settings: QuerySettings) -> Storage:
    return open_checkpoint(settings.checkpoint, settings.connection)


def _end_run(settings: QuerySettings, holder: Holder, *, sound: bool) -> None:
    try:
        end_run(_storage(settings), holder, sound=sound)
    except StatemaintError as error:
        _log.warning("the lease ends by itself: %s", error)


def _plan(settings: QuerySettings, options: Options) -> Plan:
    request = Request(force_snapshot=options.force_snapshot)
    policy = options.change(settings.policy)
    return plan_checkpoint(_storage(settings), policy, request=request)[1]


def _unmapped(settings: QuerySettings, plan: Plan) -> Report:
    """Returns the report of the partitions that no task sees: all, where the logs are damaged."""
    now = _storage(settings).now()
    mapped = set() if plan.halted else set(plan.units)
    idle = tuple(one for one in plan.stores if one.store.id.unit not in mapped)
    outcomes = [(Halted(one.store.id),) if plan.halted else () for one in idle]
    stores = tuple(
        summarize(one, happened, plan.target) for one, happened in zip(idle, outcomes, strict=True)
    )
    return Report(run="", plan=replace(plan, stores=idle), stores=stores, started=now, seconds=0.0)


def _maintain(settings: QuerySettings, bundle: Bundle, options: Options, run: str) -> Report:
    request = Request(
        target=bundle.target,
        force_snapshot=options.force_snapshot,
        operators=frozenset({bundle.operator}),
        partitions=frozenset(bundle.partitions),
    )
    storage = _storage(settings)
    policy = options.change(settings.policy)
    return maintain(
        storage, policy, request=request, dry_run=options.dry_run, run=run, holder=bundle.holder
    )


def _failure(report: Report) -> Failure | None:
    if not damaged(report.findings):
        return None
    codes = {finding.code for finding in report.findings}
    return Failure(texts.reasons(report.findings), retry=FindingCode.STORAGE_FAILED in codes)


def _tell(findings: Sequence[Finding]) -> None:
    for finding in findings:
        level = logging.ERROR if finding.damage else logging.WARNING
        _log.log(level, "%s: %s", finding.code.value, finding.detail)


def _publish(settings: QuerySettings, report: Report) -> None:
    from statemaint import metrics  # noqa: PLC0415 -- nothing that parsing a DAG should load

    query, gateway, folder = settings.query, settings.gateway, settings.textfile
    if gateway:
        _try(lambda: metrics.push(report, query=query, gateway=gateway))
    if folder:
        _try(lambda: metrics.write_textfile(report, query=query, folder=folder))


def _publish_query(settings: QuerySettings, options: Options) -> None:
    from statemaint import metrics  # noqa: PLC0415 -- nothing that parsing a DAG should load

    query, gateway, folder = settings.query, settings.gateway, settings.textfile
    if not (gateway or folder):
        return
    try:
        plan = _plan(settings, options)
    except StatemaintError as error:
        _log.warning("metrics of the query are not published: %s", error)
        return
    if gateway:
        _try(lambda: metrics.push_query(plan, query=query, gateway=gateway))
    if folder:
        _try(lambda: metrics.write_query_textfile(plan, query=query, folder=folder))


def _try(publish: Callable[[], object]) -> None:
    # Maintenance is done by now, whatever becomes of its metrics. A ValueError is an address that
    # cannot be one.
    try:
        publish()
    except (OSError, HTTPException, ValueError) as error:
        _log.warning("metrics are not published: %s", error)
