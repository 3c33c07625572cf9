"""A run of maintenance of a fleet: planned, leased, packed, carried out by executors, and ended.

The bundles of runs that Airflow's `plan` has handed over are maintained by executors as well. There
the lease of each query is that of its run, which `plan` has taken: the driver joins and renews it,
and leaves its end to Airflow's `report`.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from statemaint.maintain.bundles import Costs, bundles
from statemaint.maintain.work import TaskResults, WorkOrder, read_order, store_reports
from statemaint.model.ids import UnitId
from statemaint.records.claims import Holder
from statemaint.report.task import BundleReport, Failure, loaded, of_one_build
from statemaint.spark.fleet import Target, tried
from statemaint.spark.frames import NOTED, Work, computed, cores_of, outcomes, shares
from statemaint.spark.leases import Leases
from statemaint.spark.outcomes import Row, error_row, findings_columns, of_query, query_row
from statemaint.spark.reporting import note_runs
from statemaint.spark.units import (
    Piece,
    PlannedQuery,
    maintain_unit,
    prepare_query,
    unit_piece,
    waits,
)
from statemaint.wording import counted

_T = TypeVar("_T")
Tell = Callable[[str], object]
# Queries that are maintained at a time: enough that few cores are idle until the last has ended.
_AT_A_TIME, _AT_A_TIME_FOR_EACH_CORE = 500, 50


@dataclass(frozen=True, slots=True)
class FleetRun:
    """One run of a fleet's maintenance."""

    name: str  # its id, in the ledger of every query
    attempt: int  # grows with each attempt at the same run, whose leases it ends
    force_snapshot: bool
    wait: float  # seconds to wait for leases that other runs hold
    tell: Tell  # receives the progress, in lines


def run_fleet(
    spark: Any, fleet: Sequence[Target], run: FleetRun, costs: Mapping[str, Costs]
) -> Any:
    """Maintains a fleet, many queries at a time, and returns the outcomes as an Arrow table.

    The driver holds leases and plans of no more queries than that.
    """
    import pyarrow as pa

    most = max(_AT_A_TIME, _AT_A_TIME_FOR_EACH_CORE * cores_of(spark))
    starts = range(0, max(1, len(fleet)), most)
    done = [_run(spark, fleet[start : start + most], run, costs) for start in starts]
    return pa.concat_tables(done)


def _run(spark: Any, fleet: Sequence[Target], run: FleetRun, costs: Mapping[str, Costs]) -> Any:
    holders = {target: Holder(f"{run.name}.{target.query}", run.attempt) for target in fleet}
    with closing(Leases(holders)) as held:
        held.begin()
        open_to = [target for target in fleet if target.query not in held.refused]
        run.tell(f"planning {counted(len(open_to), 'query', 'queries')}")
        planned = _planned(spark, open_to, run, costs)
        plans = {query: plan for query, (*_, plan) in planned.messages(PlannedQuery).items()}
        found = {target: plans[target.query] for target in open_to if target.query in plans}
        work = {target: plan for target, plan in found.items() if plan.weights}
        held.take(work, wait=run.wait)
        work = {target: plan for target, plan in work.items() if target.query in held.leases}
        orders = _orders(work, holders, run, cores_of(spark))
        ends = _planned_ends(fleet, plans, planned.notes, held)
        try:
            done = maintain_orders(spark, orders, tell=run.tell)
        except BaseException:
            held.end(dict.fromkeys(orders, 1), run.name)
            for target, order in orders.items():  # its tasks were killed, as far as is known
                ends[target] = replace(ends[target], planned=order.bundles[:1])
            note_runs(run.name, ends, {})
            raise
        reports = done.messages(BundleReport)
        for target, order in orders.items():
            ended = tuple(reports[target.query])
            ends[target] = replace(ends[target], planned=order.bundles, reports=ended)
        notes = [*planned.notes, *done.notes, *planned.worst, *done.worst, *_missing(ends)]
        notes += [
            error_row(target, held.refused[target.query])
            for target in fleet
            if target.query in held.refused
        ]
        rows = _query_rows(fleet, run, notes)
        codes = {target: rows[target]["exit_code"] for target in orders}
        emptied = held.end(codes, run.name)
        notes += [
            {**of_query(target), **findings_columns(of_trash.findings)}
            for target, of_trash in emptied.items()
        ]
        note_runs(run.name, ends, emptied)
        return outcomes([planned.table, done.table], _query_rows(fleet, run, notes).values())


@dataclass(frozen=True, slots=True)
class Answers:
    """The results of executors: the rows of stores, and those of the queries themselves."""

    table: Any
    notes: list[Row]

    @classmethod
    def by_executors(cls, spark: Any, pieces: Sequence[tuple[str, float]], work: Work) -> "Answers":
        import pyarrow.compute as pc

        table = computed(spark, pieces, work, NOTED, waits)
        alone = pc.is_null(table["operator"])
        return cls(table.filter(pc.invert(alone)), table.filter(alone).to_pylist())

    def messages(self, kind: type[_T]) -> dict[str, list[_T]]:
        """Returns what the tasks of each query have told the driver."""
        found: dict[str, list[_T]] = defaultdict(list)
        for row in self.notes:
            if row["note"]:
                found[row["query"]].append(loaded(kind, json.loads(row["note"])))
        return found

    @property
    def worst(self) -> list[Row]:
        """Returns the outcomes of the stores of each query, as notes of the query."""
        grouped = self.table.group_by(["query", "outcome", "exit_code"]).aggregate([])
        rows: list[Row] = grouped.to_pylist()
        return rows


def _planned(
    spark: Any, fleet: Iterable[Target], run: FleetRun, costs: Mapping[str, Costs]
) -> Answers:
    options = {"run": run.name, "force_snapshot": run.force_snapshot}
    pieces = [
        (Piece(target, {**options, "costs": costs.get(target.query)}).to_json(), 1.0)
        for target in fleet
    ]
    return Answers.by_executors(spark, pieces, prepare_query)


def _orders(
    work: Mapping[Target, PlannedQuery], holders: Mapping[Target, Holder], run: FleetRun, cores: int
) -> dict[Target, WorkOrder]:
    """Returns the work of each query, in units of which none is a large share of all work."""
    weights = {
        target: {UnitId(*unit): weight for *unit, weight in plan.weights}
        for target, plan in work.items()
    }
    split = shares({target.query: sum(units.values()) for target, units in weights.items()}, cores)
    orders = {}
    for target, plan in work.items():
        packed = bundles(
            weights[target],
            target=plan.summary.target or 0,
            most=split[target.query],
            holder=holders[target],
            snapshots_from=plan.summary.snapshots_from,
        )
        orders[target] = WorkOrder(
            query=target.query,
            policy=target.policy,
            run=run.name,
            bundles=packed,
            force_snapshot=run.force_snapshot,
            handover=plan.handover,
            every_unit=target.every_unit,
        )
    return orders


def _planned_ends(
    fleet: Iterable[Target], plans: Mapping[str, PlannedQuery], notes: Iterable[Row], held: Leases
) -> dict[Target, TaskResults]:
    """Returns the result of each query's plan, which its refused lease makes a failure."""
    errors = {row["query"]: row["error"] for row in notes if row["error"]}
    errors |= {query: Failure.of(error).reason for query, error in held.refused.items()}
    summaries = {query: plan.summary for query, plan in plans.items()}
    return {
        target: TaskResults((), summaries.get(target.query), errors.get(target.query))
        for target in fleet
    }


def maintain_orders(spark: Any, orders: Mapping[Target, WorkOrder], *, tell: Tell) -> Answers:
    """Maintains the bundles of queries whose leases the driver holds, by executors."""
    units = [
        (target, order, bundle) for target, order in orders.items() for bundle in order.bundles
    ]
    partitions = sum(len(bundle.partitions) for *_, bundle in units)
    tell(
        f"maintaining {counted(partitions, 'partition')} of "
        f"{counted(len(orders), 'query', 'queries')} in {counted(len(units), 'unit')}"
    )
    return Answers.by_executors(spark, [unit_piece(*unit) for unit in units], maintain_unit)


def _missing(ends: Mapping[Target, TaskResults]) -> list[Row]:
    return [
        error_row(target, RuntimeError(f"{bundle.label} gave no report"))
        for target, end in ends.items()
        for bundle in end.planned
        if bundle.label not in {report.label for report in end.reports}
    ]


def _query_rows(fleet: Iterable[Target], run: FleetRun, notes: Iterable[Row]) -> dict[Target, Row]:
    by_query: dict[str, list[Row]] = defaultdict(list)
    for row in notes:
        by_query[row["query"]].append(row)
    return {target: query_row(target, run.name, by_query[target.query]) for target in fleet}


# -- what Airflow has handed over


def carry_out(
    spark: Any, handed: Sequence[tuple[str, str]], *, attempt: int, tell: Tell
) -> list[BundleReport]:
    """Maintains the handed-over bundles, and stores the reports of each query; safe to repeat.

    A bundle with a report that counts is not maintained again by a later attempt. A query whose
    storage fails, or that another build has planned, has no reports, and does not stop the others
    (S16). `handed` has for each query the address of its checkpoint for driver and executors, and
    the key of its handover.
    """
    orders = _read(handed, tell)
    reports = _maintained(spark, orders, tell)

    def store(target: Target) -> None:
        store_reports(target.open(), orders[target].key, attempt, reports[target.query])

    for target, error in tried(store, orders).items():
        tell(f"{target.query}: the outcomes are not stored: {error.code}: {error}")
    return [report for each_query in reports.values() for report in each_query]


def _read(handed: Sequence[tuple[str, str]], tell: Tell) -> dict[Target, WorkOrder]:
    orders: dict[Target, WorkOrder] = {}

    def read(place: tuple[str, str]) -> None:
        checkpoint, key = place
        with of_one_build(
            "another build of statemaint made the plan of this run; repeat the whole run"
        ):
            order = read_order(Target("", checkpoint).open(), key)
        orders[Target(order.query, checkpoint, order.policy)] = order

    errors = tried(read, handed)
    for (checkpoint, _), error in errors.items():
        tell(f"{checkpoint}: {error.code}: {error}")
    if errors and not orders:
        raise next(iter(errors.values()))
    return dict(sorted(orders.items(), key=lambda item: item[0].query))


def _maintained(
    spark: Any, orders: Mapping[Target, WorkOrder], tell: Tell
) -> dict[str, list[BundleReport]]:
    """Returns the reports of each query; errors if its lease cannot be taken."""
    given = ((target, order.bundles[0].holder) for target, order in orders.items())
    holders = {target: holder for target, holder in given if holder}
    with closing(Leases(holders)) as held:
        held.take(holders)
        refused = {
            target.query: [BundleReport.of_error(bundle.label, error) for bundle in order.bundles]
            for target, order in orders.items()
            if (error := held.refused.get(target.query))
        }
        ready = {target: orders[target] for target in orders if target.query not in refused}
        reports = refused | maintain_orders(spark, ready, tell=tell).messages(BundleReport)
        return {target.query: reports.get(target.query, []) for target in orders}
