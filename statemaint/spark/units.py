"""The work of executors: one piece each, by the same functions as everywhere else."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from statemaint.audit import verify
from statemaint.errors import LeaseLostError, StatemaintError
from statemaint.execute import Guarded, UnitClaim
from statemaint.maintain.bundles import Bundle, Costs, weights
from statemaint.maintain.parts import Prepared, maintain_part, prepare
from statemaint.memory import memory_from
from statemaint.plan import Request
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.records import Holder, newest
from statemaint.report import exit_code_of
from statemaint.report.part import summary
from statemaint.scan import Handover
from statemaint.spark.fleet import Target
from statemaint.spark.outcomes import (
    Row,
    error_row,
    findings_rows,
    inventory_rows,
    of_query,
    plan_rows,
    report_rows,
)
from statemaint.storage import Storage
from statemaint.workers import Workers

# Threads of one task, for a storage with slow requests; a local disk needs only one.
_REQUESTS_AT_A_TIME = 8
_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """A query, and the work to do on it.

    Attributes:
        target: the query.
        options: the other inputs of the work.
    """

    target: Target
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the piece in the form that is sent to an executor."""
        return json.dumps({"target": self.target.to_json(), "options": self.options})

    @classmethod
    def from_json(cls, text: str) -> "Piece":
        """Returns the piece that `to_json` encoded."""
        fields = json.loads(text)
        return cls(Target.from_json(fields["target"]), fields["options"])


def take_inventory(piece: str) -> Iterator[Row]:
    """Yields the rows of `inventory` of a query."""
    target = Piece.from_json(piece).target

    def rows() -> Iterator[Row]:
        yield from inventory_rows(target, scan_checkpoint(target.open()))

    yield from _whatever_happens(target, rows)


def make_plan(piece: str) -> Iterator[Row]:
    """Yields the rows of `plan_fleet` of a query; writes nothing (S13)."""
    given = Piece.from_json(piece)
    target, request = given.target, Request(force_snapshot=given.options["force_snapshot"])

    def rows() -> Iterator[Row]:
        plan = plan_checkpoint(target.open(), target.policy, request=request, dry=True)[1]
        yield from plan_rows(target, plan)

    for row in _whatever_happens(target, rows):
        error = row.get("error")
        code = error.partition(":")[0] if error else None
        yield {**row, "action": "error", "reason": code, "detail": error} if error else row


def check(piece: str) -> Iterator[Row]:
    """Yields the row of `verify_fleet` of a share of a query."""
    given = Piece.from_json(piece)
    target, (share, shares) = given.target, given.options["share"]

    def rows() -> Iterator[Row]:
        storage, sample = target.open(), (share, shares) if shares > 1 else None
        result = verify(
            storage, deep=given.options["deep"], sample=sample, workers=task_workers(storage)
        )
        yield {
            **of_query(target),
            "healthy": result.healthy,
            "stores": len(result.checkpoint.stores),
            "versions_checked": result.versions_checked,
            "findings": findings_rows(result.findings),
            "exit_code": exit_code_of(tuple(result.findings)),
        }

    for row in _whatever_happens(target, rows):
        yield {"healthy": False, **row, "share": share}


def prepare_query(piece: str) -> Iterator[Row]:
    """Yields the facts of a query for `maintain_fleet`, and the rows of stores without work."""
    given = Piece.from_json(piece)
    target, run = given.target, given.options["run"]

    def rows() -> Iterator[Row]:
        request = Request(force_snapshot=given.options["force_snapshot"])
        prepared = prepare(target.open(), target.policy, request)
        yield from report_rows(target, prepared.idle, run=run, unit=None)
        note = _note(prepared, given.options.get("costs") or {}, every_unit=target.every_unit)
        yield {**of_query(target), "note": note}

    for row in _whatever_happens(target, rows):
        yield {**row, "run": run}


def _note(prepared: Prepared, costs: Costs, *, every_unit: bool) -> str:
    """Returns what the record needs of the plan, and its work if there is any."""
    note: dict[str, Any] = {"decided": prepared.decided(every_unit=every_unit)}
    if prepared.has_work:
        weighted = weights(prepared.plan, costs)
        note["target"] = prepared.plan.target
        note["units"] = [[one.operator, one.partition, weight] for one, weight in weighted.items()]
        note["handover"] = prepared.handover.to_json()
    return json.dumps(note)


def maintain_unit(piece: str) -> Iterator[Row]:
    """Yields the outcome of a unit: some partitions of a query, under the run's lease.

    However often, and wherever, it runs, the unit is maintained once, and each run of it yields
    the same rows.
    """
    given = Piece.from_json(piece)
    target, run = given.target, given.options["run"]
    bundle = Bundle.from_json(given.options["bundle"])

    def rows() -> Iterator[Row]:
        # Another attempt at the run may have other partitions in a unit of the same name.
        attempt, place = bundle.holder.nonce if bundle.holder else run, target.open()
        claim = UnitClaim(place, attempt, bundle.key)
        yield from claim.once(
            lambda storage: _maintained(given, bundle, storage),
            again=lambda: must_go_on(place, bundle),
        )

    for row in _whatever_happens(target, rows):
        yield {**row, "run": run, "unit": bundle.label, "weight": bundle.weight}


def _whatever_happens(target: Target, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """Yields rows; an error becomes the last one, as one query must not stop the others (S16)."""
    try:
        yield from rows()
    except Exception as error:  # noqa: BLE001 -- nor must a fault of ours
        yield error_row(target, error)


def _maintained(given: Piece, bundle: Bundle, storage: Guarded) -> list[Row]:
    target, run, handover = given.target, given.options["run"], given.options["handover"]
    try:
        must_go_on(storage, bundle)
        report = maintain_part(
            storage,
            target.policy,
            bundle,
            run=run,
            force_snapshot=given.options["force_snapshot"],
            handover=Handover.from_json(handover) if handover else None,
            workers=task_workers(storage),
            repeated=storage.repeated or bool(bundle.holder and bundle.holder.attempt > 1),
        )
    except LeaseLostError:
        raise
    except StatemaintError as error:
        return [error_row(target, error)]
    part = summary(report, bundle.label, bundle.target, every_unit=target.every_unit)
    note = json.dumps({name: part[name] for name in ("failed", "findings", "lag", "facts")})
    rows = report_rows(target, report, run=run, unit=bundle.label)
    return [*rows, {**of_query(target), "note": note}]


def must_go_on(storage: Storage, bundle: Bundle) -> None:
    """Checks that the run of a bundle continues, as `must_be_the_runs` does.

    Raises:
        LeaseLostError: when it does not.
        StorageError: when the storage fails.
    """
    if bundle.holder:
        must_be_the_runs(storage, bundle.holder)


def must_be_the_runs(storage: Storage, holder: Holder) -> None:
    """Checks that the driver holds the lease: a task joins it, and never takes one.

    A task that outlives its run, or that begins after the driver was lost, stops here.

    Raises:
        LeaseLostError: when it does not.
        StorageError: when the storage fails.
    """
    current = newest(storage)
    if current is None or not current.is_of(holder) or current.deadline <= storage.now():
        number = current.number if current else 0
        raise LeaseLostError(storage.root, number, "the run's driver does not hold it")


def task_workers(storage: Storage) -> Workers:
    """Returns the threads and the memory of one Spark task."""
    return Workers(min(storage.parallel, _REQUESTS_AT_A_TIME), _memory(os.environ))


def _memory(environment: Mapping[str, str]) -> int | None:
    """Returns the memory set by STATEMAINT_MEMORY, else by `spark.executor.pyspark.memory`."""
    limit = environment.get("PYSPARK_EXECUTOR_MEMORY_MB", "")
    return memory_from(environment) or (int(limit) * _MEGABYTE if limit.isdecimal() else None)
