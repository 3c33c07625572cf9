"""The work of executors: one piece each, by the same functions as everywhere else."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from statemaint.audit import verify
from statemaint.errors import LeaseLostError, StatemaintError
from statemaint.execute.attempts import LeaseGuardedStorage
from statemaint.maintain.bundles import PER_UNIT, Bundle, weights
from statemaint.maintain.work import WorkOrder, claim_of, maintain_part, prepare
from statemaint.memory import memory_from
from statemaint.plan.actions import Request
from statemaint.planning import plan_checkpoint, scan_with_logs
from statemaint.records.claims import Holder, newest
from statemaint.report.record import code_of
from statemaint.report.task import BundleReport, PlanSummary, dumped, loaded, of_one_build
from statemaint.report.to_json import verdict_json
from statemaint.spark.fleet import Target
from statemaint.spark.outcomes import (
    Row,
    error_row,
    findings_columns,
    inventory_rows,
    of_query,
    plan_rows,
    report_rows,
)
from statemaint.storage import Storage
from statemaint.storage.address import LOCAL, storage_of
from statemaint.workers import Workers

# Threads of one task, for a storage with slow requests; a local disk needs only one.
_REQUESTS_AT_A_TIME = 8
_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """A query, and the work to do on it, with its other inputs as `options`."""

    target: Target
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(dumped(self))

    @classmethod
    def from_json(cls, text: str) -> "Piece":
        return loaded(cls, json.loads(text))


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """The message of a query's plan to the driver."""

    summary: PlanSummary
    weights: tuple[tuple[int, int, float], ...] = ()  # operator, partition and weight, if any
    handover: str | None = None  # what the units need not read again, as text


def waits(piece: str) -> bool:
    """Returns whether a piece is of a storage far away, and is a plan or little to write."""
    given = Piece.from_json(piece)
    little = "deep" not in given.options and given.options.get("weight", 0.0) <= PER_UNIT
    return little and storage_of(given.target.checkpoint) != LOCAL


def _of_piece(rows: Callable[[Piece], Iterator[Row]]) -> Callable[[str], Iterator[Row]]:
    """Yields rows of a piece; an error is the last, as no query may stop the others (S16).

    It has the columns of every verb; a DataFrame takes its own.
    """

    @wraps(rows)
    def work(piece: str) -> Iterator[Row]:
        given = Piece.from_json(piece)
        try:
            yield from rows(given)
        except Exception as error:  # noqa: BLE001 -- nor must a fault of ours
            row = error_row(given.target, error)
            of_plan = {"action": "error", "reason": code_of(row["error"]), "detail": row["error"]}
            share, _ = given.options.get("share", (None, None))
            yield {**row, **of_plan, "healthy": False, "share": share}

    return work


@_of_piece
def take_inventory(given: Piece) -> Iterator[Row]:
    yield from inventory_rows(given.target, scan_with_logs(given.target.open()))


@_of_piece
def make_plan(given: Piece) -> Iterator[Row]:
    """Yields the rows of `plan_fleet` of a query; writes nothing (S13)."""
    target, request = given.target, Request(force_snapshot=given.options["force_snapshot"])
    plan = plan_checkpoint(target.open(), target.policy, request=request, dry=True)[1]
    yield from plan_rows(target, plan)


@_of_piece
def check(given: Piece) -> Iterator[Row]:
    storage, (share, shares) = given.target.open(), given.options["share"]
    sample = (share, shares) if shares > 1 else None
    workers = task_workers(storage)
    result = verify(storage, deep=given.options["deep"], sample=sample, workers=workers)
    yield {
        **of_query(given.target),
        "share": share,
        **verdict_json(result.verdict, result.looked),
        "healthy": result.healthy,
        "stores": len(result.checkpoint.stores),
        "versions_checked": result.versions_checked,
        **findings_columns(result.findings),
    }


@_of_piece
def prepare_query(given: Piece) -> Iterator[Row]:
    """Yields the facts of a query for `maintain_fleet`, and the rows of stores without work."""
    target, run = given.target, given.options["run"]
    request = Request(force_snapshot=given.options["force_snapshot"])
    prepared = prepare(target.open(), target.policy, request)
    yield from report_rows(target, prepared.idle, run=run, unit=None)
    planned = PlannedQuery(prepared.summary(every_unit=target.every_unit))
    if prepared.has_work:
        found = weights(prepared.plan, given.options.get("costs") or {}).items()
        weighted = tuple((unit.operator, unit.partition, weight) for unit, weight in found)
        planned = replace(planned, weights=weighted, handover=prepared.handover.to_json())
    yield {**of_query(target), "run": run, "note": json.dumps(dumped(planned))}


def unit_piece(target: Target, order: WorkOrder, bundle: Bundle) -> tuple[str, float]:
    order = replace(order, bundles=(bundle,))
    options = {"order": dumped(order), "weight": bundle.weight}
    return Piece(target, options).to_json(), bundle.weight


def maintain_unit(piece: str) -> Iterator[Row]:
    """Yields the rows of the stores of a unit, and one with the report on it.

    However often, and wherever, it runs, the unit is maintained once under the run's lease, and
    each run of it yields the same rows, unless it failed for a reason that may pass.
    """
    given = Piece.from_json(piece)
    target, order = given.target, loaded(WorkOrder, given.options["order"])
    (bundle,) = order.bundles
    try:
        place = target.open()
        rows = claim_of(place, bundle).once(
            lambda storage: _maintained(target, order, storage),
            again=lambda: check_lease_held(place, bundle.holder),
        )
        with of_one_build(
            "another build of statemaint maintained this unit before; repeat the whole run"
        ):
            for note in filter(None, (row.get("note") for row in rows)):
                loaded(BundleReport, json.loads(note))
    except Exception as error:  # noqa: BLE001 -- one unit must not stop the others (S16)
        rows = [_failed(target, bundle, error)]
    for row in rows:
        yield {**row, "run": order.run, "unit": bundle.label, "weight": bundle.weight}


def _maintained(target: Target, order: WorkOrder, storage: LeaseGuardedStorage) -> list[Row]:
    (bundle,) = order.bundles
    try:
        check_lease_held(storage, bundle.holder)
        report = maintain_part(
            storage,
            order,
            bundle,
            workers=task_workers(storage),
            repeated=storage.repeated or bool(bundle.holder and bundle.holder.attempt > 1),
        )
    except LeaseLostError:
        raise  # perhaps the unit's own lease: `once` decides
    except StatemaintError as error:
        return [_failed(target, bundle, error)]
    rows = report_rows(target, report, run=order.run, unit=bundle.label)
    return [*rows, _noted(target, order.report(bundle, report))]


def _failed(target: Target, bundle: Bundle, error: Exception) -> Row:
    return {
        **error_row(target, error),
        **_noted(target, BundleReport.of_error(bundle.label, error)),
    }


def _noted(target: Target, report: BundleReport) -> Row:
    return {**of_query(target), "note": json.dumps(dumped(report))}


def check_lease_held(storage: Storage, holder: Holder | None) -> None:
    """Checks that the driver holds the run's lease: a task joins it, and never takes one.

    A task that outlives its run, or that begins after the driver was lost, stops here.
    """
    current = newest(storage)
    if not (holder and current and current.is_of(holder) and current.deadline > storage.now()):
        number = current.number if current else 0
        raise LeaseLostError(storage.root, number, "the run's driver does not hold it")


def task_workers(storage: Storage) -> Workers:
    """Returns the threads of one Spark task, and its memory.

    That is set by STATEMAINT_MEMORY, else by `spark.executor.pyspark.memory`.
    """
    limit = os.environ.get("PYSPARK_EXECUTOR_MEMORY_MB", "")
    memory = memory_from(os.environ) or (int(limit) * _MEGABYTE if limit.isdecimal() else None)
    return Workers(min(storage.parallel, _REQUESTS_AT_A_TIME), memory)
