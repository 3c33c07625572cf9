"""A run of maintenance of a fleet: planned, leased, packed, carried out by executors, and ended."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statemaint.maintain.bundles import Costs, bundles
from statemaint.maintain.work import TaskResults, WorkOrder
from statemaint.model.ids import UnitId
from statemaint.records.claims import Holder
from statemaint.report.run import Emptied, exit_code_of
from statemaint.report.task import BundleReport, Failure, loaded
from statemaint.spark.columns import NOTED, OUTCOMES, arrow_schema
from statemaint.spark.fleet import Target
from statemaint.spark.frames import MOST_TASKS_A_CORE, collected, cores_of, deal, shares, spread
from statemaint.spark.leases import Leases, leases
from statemaint.spark.outcomes import Row, error_row, findings_rows, of_query, query_row
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

_log = logging.getLogger(__name__)
Tell = Callable[[str], object]
# Queries that are maintained at a time: enough that few cores are idle until the last has ended.
_AT_A_TIME, _AT_A_TIME_FOR_EACH_CORE = 500, 50


@dataclass(frozen=True, slots=True)
class FleetRun:
    """One run of a fleet's maintenance.

    Attributes:
        name: its id, in the ledger of every query.
        attempt: grows with each attempt at the same run, whose leases it ends.
        force_snapshot: write a snapshot at the target even if the chain is short.
        wait: seconds to wait for leases that other runs hold.
        tell: receives the progress, in lines.
    """

    name: str
    attempt: int = 1
    force_snapshot: bool = False
    wait: float = 0.0
    tell: Tell = _log.info


def run_fleet(
    spark: Any,
    fleet: Sequence[Target],
    run: FleetRun,
    costs: Mapping[str, Costs] | None = None,
) -> Any:
    """Maintains a fleet, many queries at a time, and returns the outcomes as an Arrow table.

    The driver holds leases and plans of no more queries than that.
    """
    import pyarrow as pa

    most = max(_AT_A_TIME, _AT_A_TIME_FOR_EACH_CORE * cores_of(spark))
    starts = range(0, max(1, len(fleet)), most)
    done = [_run(spark, fleet[start : start + most], run, costs or {}) for start in starts]
    return pa.concat_tables(done)


def _run(spark: Any, fleet: Sequence[Target], run: FleetRun, costs: Mapping[str, Costs]) -> Any:
    holders = {target: Holder(f"{run.name}.{target.query}", run.attempt) for target in fleet}
    with leases() as held:
        held.begin(holders)
        open_to = [target for target in fleet if target.query not in held.refused]
        run.tell(f"planning {counted(len(open_to), 'query', 'queries')}")
        planned = _planned(spark, open_to, run, costs)
        plans = planned.plans
        work = {
            target: plans[target.query]
            for target in open_to
            if target.query in plans and plans[target.query].weights
        }
        held.take({target: holders[target] for target in work}, wait=run.wait)
        work = {target: plan for target, plan in work.items() if target.query in held.leases}
        orders = _orders(work, holders, run, cores_of(spark))
        ends = _planned_ends(fleet, plans, planned.notes, held)
        try:
            done = maintain_orders(spark, orders, tell=run.tell)
        except BaseException:
            held.end(dict.fromkeys(orders, 1), holders, run.name)
            for target, order in orders.items():  # its tasks were killed, as far as is known
                ends[target] = replace(ends[target], planned=order.bundles[:1])
            note_runs(run.name, ends, {})
            raise
        reports = done.reports
        for target, order in orders.items():
            found = tuple(reports.get(target.query, ()))
            ends[target] = replace(ends[target], planned=order.bundles, reports=found)
        notes = [*planned.notes, *done.notes, *planned.worst, *done.worst, *_missing(ends)]
        queries = _query_rows(fleet, run, held, notes)
        codes = {target: queries[target.query]["exit_code"] for target in orders}
        emptied = held.end(codes, holders, run.name)
        if ending := _ending_rows(emptied):
            queries = _query_rows(fleet, run, held, [*notes, *ending])
        note_runs(run.name, ends, emptied)
        return outcomes([planned.table, done.table], list(queries.values()))


@dataclass(frozen=True, slots=True)
class _Answers:
    """The results of executors: the rows of stores, and those of the queries themselves."""

    table: Any
    notes: list[Row]

    @classmethod
    def of(cls, table: Any) -> "_Answers":
        import pyarrow.compute as pc

        alone = pc.is_null(table["operator"])
        return cls(table.filter(pc.invert(alone)), table.filter(alone).to_pylist())

    @property
    def plans(self) -> dict[str, PlannedQuery]:
        notes = {row["query"]: row["note"] for row in self.notes if row["note"]}
        return {query: loaded(PlannedQuery, json.loads(note)) for query, note in notes.items()}

    @property
    def reports(self) -> dict[str, list[BundleReport]]:
        """Returns the reports on the units of each query."""
        found: dict[str, list[BundleReport]] = {}
        for row in self.notes:
            if row["note"]:
                report = loaded(BundleReport, json.loads(row["note"]))
                found.setdefault(row["query"], []).append(report)
        return found

    @property
    def worst(self) -> list[Row]:
        """Returns the outcomes of the stores of each query, as notes of the query."""
        outcomes = self.table.group_by(["query", "outcome", "exit_code"]).aggregate([])
        return [{**EMPTY, **row} for row in outcomes.to_pylist()]


def _planned(
    spark: Any, fleet: Iterable[Target], run: FleetRun, costs: Mapping[str, Costs]
) -> _Answers:
    options = {"run": run.name, "force_snapshot": run.force_snapshot}
    pieces = [
        (Piece(target, {**options, "costs": costs.get(target.query)}).to_json(), 1.0)
        for target in fleet
    ]
    return answers(spark, pieces, prepare_query)


def answers(spark: Any, pieces: Sequence[tuple[str, float]], work: Any) -> _Answers:
    """Returns the rows of pieces of work, with their weights, by executors."""
    if not pieces:
        return _Answers.of(arrow_schema(NOTED).empty_table())
    tasks = deal(pieces, cores_of(spark) * MOST_TASKS_A_CORE)
    return _Answers.of(collected(spread(spark, tasks, work, NOTED, waits), NOTED))


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
    fleet: Iterable[Target],
    plans: Mapping[str, PlannedQuery],
    notes: Iterable[Row],
    held: Leases,
) -> dict[Target, TaskResults]:
    """Returns the result of each query's plan, which its refused lease makes a failure."""
    errors = {row["query"]: row["error"] for row in notes if row["error"]}
    errors |= {query: Failure.of(error).reason for query, error in held.refused.items()}
    return {
        target: TaskResults(
            summary=plans[target.query].summary if target.query in plans else None,
            failure=errors.get(target.query),
        )
        for target in fleet
    }


def maintain_orders(spark: Any, orders: Mapping[Target, WorkOrder], *, tell: Tell) -> _Answers:
    """Maintains the bundles of queries whose leases the driver holds, by executors."""
    units = [
        (target, order, bundle) for target, order in orders.items() for bundle in order.bundles
    ]
    partitions = sum(len(bundle.partitions) for *_, bundle in units)
    tell(
        f"maintaining {counted(partitions, 'partition')} of "
        f"{counted(len(orders), 'query', 'queries')} in {counted(len(units), 'unit')}"
    )
    return answers(spark, [unit_piece(*unit) for unit in units], maintain_unit)


def _missing(ends: Mapping[Target, TaskResults]) -> list[Row]:
    """Returns a row with an error for each unit without a result."""
    rows = []
    for target, end in ends.items():
        labels = {report.label for report in end.reports}
        for bundle in end.planned:
            if bundle.label not in labels:
                error = RuntimeError(f"{bundle.label} gave no report")
                rows.append({**EMPTY, **error_row(target, error)})
    return rows


EMPTY: Row = dict.fromkeys(NOTED)


def _query_rows(
    fleet: Iterable[Target], run: FleetRun, held: Leases, notes: Iterable[Row]
) -> dict[str, Row]:
    """Returns the row of each query itself, by its name."""
    of_query: dict[str, list[Row]] = {target.query: [] for target in fleet}
    for row in notes:
        of_query[row["query"]].append(row)
    for target in fleet:
        if refused := held.refused.get(target.query):
            of_query[target.query].append({**EMPTY, **error_row(target, refused)})
    return {target.query: query_row(target, run.name, of_query[target.query]) for target in fleet}


def _ending_rows(ended: Mapping[Target, Emptied]) -> list[Row]:
    """Returns a note of each query whose trash could not be emptied."""
    return [
        {
            **EMPTY,
            **of_query(target),
            "findings": findings_rows(emptied.findings),
            "exit_code": exit_code_of(emptied.findings),
        }
        for target, emptied in ended.items()
        if emptied.finding
    ]


def outcomes(tables: Sequence[Any], rows: Sequence[Row]) -> Any:
    """Returns tables, and rows, as one Arrow table of outcomes."""
    import pyarrow as pa

    names, schema = list(OUTCOMES), arrow_schema(OUTCOMES)
    queries = pa.Table.from_pylist(list(rows), schema=schema)
    return pa.concat_tables([*(table.select(names) for table in tables), queries])
