"""The work of a run of several tasks: planned once, handed to tasks of Airflow or Spark, reported.

Airflow's `plan` hands its bundles to Spark's tasks in `records.runs`, under the nonce of the run's
lease: beside the checkpoint, the one place that Airflow's worker, Spark's driver and its executors
all reach.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from statemaint.errors import NotFoundError
from statemaint.execute.attempts import UnitClaim
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.run import OnOutcome, maintain
from statemaint.memory import memory_from
from statemaint.model.ids import run_folder
from statemaint.model.policy import Policy
from statemaint.plan.actions import Plan, Request
from statemaint.plan.withheld import by_reason
from statemaint.planning import plan_checkpoint
from statemaint.records.runs import outcomes_path, read_document, work_path, write_document
from statemaint.records.segments import Line, ledger_of, read_ledger
from statemaint.report.facts import facts_of
from statemaint.report.outcome import (
    Deleted,
    EarlierDeeds,
    Halted,
    SnapshotWritten,
    StoreReport,
    summarize,
)
from statemaint.report.record import LastRun, run_ended
from statemaint.report.run import Report
from statemaint.report.task import BundleReport, PlanSummary, dumped, lag, loaded
from statemaint.scan.handover import Handover, Recorder
from statemaint.storage import Storage
from statemaint.workers import Workers, nothing

# For one task: the other tasks of a run make requests as well.
_STORES_AT_A_TIME = 4
# The reason of a plan that failed without one: it was killed, or timed out.
_UNPLANNED = "the plan gave no result"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The input from which the tasks of a run are made."""

    plan: Plan  # of the whole checkpoint; its target version counts for all tasks
    idle: Report  # on the partitions without a task: all, if the logs are damaged
    handover: Handover  # what the tasks need not read again

    @property
    def has_work(self) -> bool:
        return not self.plan.halted and self.plan.target is not None and bool(self.plan.units)

    def summary(self, *, every_unit: bool) -> PlanSummary:
        plan, idle = self.plan, self.idle
        facts = facts_of(idle, every_unit=every_unit, task=False)
        return PlanSummary.of(
            plan,
            idle.findings,
            lag=lag(idle.needed, plan.target),
            facts=facts if plan.target is not None else None,
            withheld=by_reason(idle.withheld),
        )


def prepare(storage: Storage, policy: Policy, request: Request | None = None) -> Prepared:
    """Plans a checkpoint for tasks that maintain it; takes no lease and writes nothing."""
    recorder = Recorder(storage)
    checkpoint, plan = plan_checkpoint(recorder, policy, request=request or Request())
    mapped = set() if plan.halted else set(plan.units)
    idle = tuple(store for store in plan.stores if store.store.id.unit not in mapped)
    stores = tuple(
        summarize(it, (Halted(it.store.id),) if plan.halted else (), plan.target_of(it.store.id))
        for it in idle
    )
    report = Report("", replace(plan, stores=idle), stores, started=storage.now(), seconds=0.0)
    return Prepared(plan, report, recorder.handover(checkpoint))


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """The work of a run on a query, as its tasks need to know it."""

    query: str
    policy: Policy
    run: str  # its name in the ledger
    bundles: tuple[Bundle, ...]
    force_snapshot: bool = False
    handover: str | None = None  # what the plan has read, as text
    every_unit: bool = False  # whether there are metrics of each partition as well

    @property
    def key(self) -> str:
        return key_of(self.bundles[0])

    def report(self, bundle: Bundle, report: Report) -> BundleReport:
        return BundleReport.of(report, bundle.label, bundle.target, every_unit=self.every_unit)


def maintain_part(
    storage: Storage,
    order: WorkOrder,
    bundle: Bundle,
    *,
    workers: Workers | None = None,
    on_outcome: OnOutcome = nothing,
    repeated: bool = False,
) -> Report:
    """Maintains some partitions at the target that the run's plan fixed; safe to repeat.

    If it is repeated, what lost attempts did counts as well. Few stores are worked on at a time by
    default, in the memory that the environment sets.
    """
    request = Request(
        target=bundle.target,
        force_snapshot=order.force_snapshot,
        operators=frozenset({bundle.operator}),
        partitions=frozenset(bundle.partitions),
        snapshots_from=bundle.snapshots_from,
    )
    few = min(storage.parallel, _STORES_AT_A_TIME)
    report = maintain(
        storage,
        order.policy,
        request=request,
        run=order.run,
        holder=bundle.holder,
        workers=workers or Workers(few, memory_from(os.environ)),
        handover=Handover.from_json(order.handover) if order.handover else None,
        on_outcome=on_outcome,
    )
    return _with_earlier(storage, report) if repeated else report


def _with_earlier(storage: Storage, report: Report) -> Report:
    """Returns the report of a repeated task with what its lost attempts did, by the ledger.

    A deletion is recorded before it is done, so one whose file is still there was not done.
    """
    lines: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for unit in sorted({store.before.id.unit for store in report.stores}):
        for line in read_ledger(storage, ledger_of(unit)):
            if line.run == run_folder(report.run):
                lines[tuple(map(line.fields.get, ("operator", "partition", "store")))].append(line)
    stores = (
        replace(store, earlier=_earlier(store, lines[astuple(store.before.id)]))
        for store in report.stores
    )
    return replace(report, stores=tuple(stores))


def _earlier(store: StoreReport, lines: Sequence[Line]) -> EarlierDeeds:
    done = (outcome for outcome in store.outcomes if isinstance(outcome, SnapshotWritten | Deleted))
    known = {outcome.action.path for outcome in done}
    left = {file.entry.path for file in store.after.files}
    found = {(line.fields.get("action"), line.path): line.fields for line in lines}
    others = {key: fields for key, fields in found.items() if key[1] not in known}
    written = [fields for (action, _), fields in others.items() if action == "write_snapshot"]
    deleted = [
        fields for (what, path), fields in others.items() if what == "delete" and path not in left
    ]
    return EarlierDeeds(
        snapshots=len(written),
        written=sum(fields["bytes"] for fields in written),
        deleted=Counter(fields["reason"] for fields in deleted),
        freed=sum(fields["bytes"] for fields in deleted),
    )


@dataclass(frozen=True, slots=True)
class TaskResults:
    """The results that the tasks of a run have handed on for a query; a killed task has none."""

    planned: tuple[Bundle, ...] = ()
    summary: PlanSummary | None = None  # the facts of the plan, unless it has failed without any
    failure: str | None = None  # why the plan has failed
    reports: tuple[BundleReport, ...] = ()
    refused: bool = False  # for its own arguments

    @property
    def plan(self) -> PlanSummary:
        return self.summary or PlanSummary()

    @property
    def reason(self) -> str | None:
        return self.failure or (None if self.summary else _UNPLANNED)

    @property
    def inspected(self) -> list[BundleReport]:
        return [report for report in self.reports if report.inspected]

    @property
    def silent(self) -> list[str]:
        labels = {report.label for report in self.inspected}
        return [bundle.label for bundle in self.planned if bundle.label not in labels]

    def ended(self, run: str, now: float) -> LastRun:
        tasks = len(self.planned)
        return run_ended(run, tasks, self.reports, self.plan, ended=now, failure=self.reason)


def key_of(bundle: Bundle) -> str:
    """Returns the key of a run's work: that of its lease, so each attempt at its plan has one."""
    if bundle.holder is None:
        raise ValueError(f"{bundle.label} has no lease, so no other process can join it")
    return bundle.holder.nonce


def claim_of(storage: Storage, bundle: Bundle) -> UnitClaim:
    """Returns the claim of a bundle, whose outcome is rows, one with the report as its note.

    A failure that may pass is not stored, so that the next attempt works on the bundle again.
    """

    def settled(rows: Iterable[Mapping[str, Any]]) -> bool:
        return not any(note["failure"] and note["failure"]["retry"] for note in _notes(rows))

    return UnitClaim(storage, key_of(bundle), bundle.key, counts=settled)


def _notes(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    return (json.loads(row["note"]) for row in rows if row.get("note"))


def hand_over(storage: Storage, order: WorkOrder) -> None:
    write_document(storage, work_path(order.key), dumped(order))


def read_order(storage: Storage, key: str) -> WorkOrder:
    return loaded(WorkOrder, read_document(storage, work_path(key)))


def store_reports(
    storage: Storage, key: str, attempt: int, reports: Iterable[BundleReport]
) -> None:
    write_document(storage, outcomes_path(key, attempt), [*map(dumped, reports)])


def read_reports(storage: Storage, order: WorkOrder, attempt: int) -> list[BundleReport]:
    """Returns the reports on the bundles: of an attempt that died, those its tasks have stored."""
    try:
        rows = read_document(storage, outcomes_path(order.key, attempt))
    except NotFoundError:
        stored = (claim_of(storage, bundle).outcome() or [] for bundle in order.bundles)
        rows = [note for outcome in stored for note in _notes(outcome)]
    return [loaded(BundleReport, row) for row in rows]
