"""The work of the three tasks, without Airflow: plan, maintain a bundle, report.

`Failure.retry` states whether a failed task is worth another attempt. The caller raises, after it
has passed on the results.
"""

import logging
import os
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
from statemaint.workers import Workers, memory_from

_log = logging.getLogger(__name__)
# Of one task: the other tasks of a run make requests as well.
_STORES_AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """One query as the queries file and the environment describe it.

    Attributes:
        query: its name.
        checkpoint: the address of its checkpoint.
        policy: when to snapshot and what to keep.
        connection: the id of the Airflow connection that reaches it; `None` for the environment.
        max_tasks: the largest number of tasks that share the partitions.
        gateway: the Pushgateway's address; `None` without one.
        textfile: the folder for metrics files; `None` to write none.
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
    """The options of one run, from its form; `None` keeps the value of the file's policy."""

    dry_run: bool = False
    force_snapshot: bool = False
    min_deltas_for_snapshot: int | None = None
    min_batches_to_retain: int | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Options":
        """Returns the options in a run's params."""
        return cls(**{name: params[name] for name in cls.__slots__})

    def change(self, policy: Policy) -> Policy:
        """Returns the policy of this run."""
        return policy.override(
            min_deltas_for_snapshot=self.min_deltas_for_snapshot,
            min_batches_to_retain=self.min_batches_to_retain,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a task must fail; `retry` states whether another attempt could succeed."""

    reason: str
    retry: bool = False

    @classmethod
    def of(cls, error: StatemaintError) -> "Failure":
        """Returns an error's failure: a storage may recover, and a lease may soon be free."""
        retry = isinstance(error, StorageError | LeaseHeldError | LeaseLostError)
        return cls(f"{error.code}: {error}", retry=retry)


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of `plan`: the bundles to map over, or the failure."""

    bundles: tuple[Bundle, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """The result of a bundle: its summary if there is a report, and its failure if there is one."""

    summary: dict[str, Any] | None
    failure: Failure | None = None


def plan_query(settings: QuerySettings, options: Options, holder: Holder | None = None) -> Planned:
    """Fixes the run's target version and finds the partitions that need attention.

    Ends the lease of an earlier attempt at the run, whose remaining tasks then stop before their
    next deletion.

    Pushes the metrics of all other partitions, which no task does: that they were inspected and are
    sound must be recorded too, above all after they were damaged.

    Args:
        settings: the query's settings.
        options: the run's options.
        holder: the holder of the lease that the run's tasks share; by default each takes its own.
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

    Metrics are pushed whatever the outcome; a Pushgateway that does not answer is only logged.
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
    """Ends the run: logs the totals of all bundles and returns the event's extra.

    Ends the lease that the run's tasks share, even if a task is still running. Before that, empties
    the trash; after it, pushes the query's metrics.
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
    """Returns the report of the partitions without a task: all, where the logs are damaged."""
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
        storage,
        policy,
        request=request,
        dry_run=options.dry_run,
        run=run,
        holder=bundle.holder,
        workers=Workers(min(storage.parallel, _STORES_AT_A_TIME), memory_from(os.environ)),
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
    # Maintenance is complete, even if its metrics are lost. A ValueError means an address that is
    # not valid.
    try:
        publish()
    except (OSError, HTTPException, ValueError) as error:
        _log.warning("metrics are not published: %s", error)
