"""A run of maintenance of a fleet: planned, leased, packed, carried out by executors, and ended."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statemaint.maintain import Holder, new_run_id
from statemaint.maintain.bundles import Bundle, Costs, bundles
from statemaint.model.ids import UnitId
from statemaint.report import Emptied, exit_code_of
from statemaint.spark.columns import NOTED, OUTCOMES, arrow_schema
from statemaint.spark.fleet import Target
from statemaint.spark.frames import collected, cores_of, spread
from statemaint.spark.leases import Leases, leases
from statemaint.spark.outcomes import Row, error_row, findings_rows, of_query, query_row
from statemaint.spark.packing import MOST_TASKS_A_CORE, deal, shares
from statemaint.spark.records import QueryEnd, by_query, note_runs
from statemaint.spark.units import Piece, maintain_unit, prepare_query
from statemaint.wording import counted

_log = logging.getLogger(__name__)
Tell = Callable[[str], object]


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

    @classmethod
    def named(cls, name: str | None, now: float) -> "FleetRun":
        """Returns a run of a name, a new one by default."""
        return cls(name or new_run_id(now))

    def options(self, **more: Any) -> dict[str, Any]:
        """Returns the options of every piece of work of the run."""
        return {"run": self.name, "force_snapshot": self.force_snapshot, **more}


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The message of a query's plan to the driver."""

    target: Target
    version: int
    units: Mapping[UnitId, float]
    handover: str

    @property
    def weight(self) -> float:
        return sum(self.units.values())


def run_fleet(
    spark: Any,
    fleet: Sequence[Target],
    run: FleetRun,
    costs: Mapping[str, Costs] | None = None,
) -> Any:
    """Maintains a fleet, and returns the outcomes as an Arrow table.

    Args:
        spark: the session.
        fleet: the queries.
        run: the run.
        costs: how slow each partition of each query was in an earlier run.
    """
    holders = {one: Holder(f"{run.name}.{one.query}", run.attempt) for one in fleet}
    with leases() as held:
        held.begin(holders)
        open_to = [one for one in fleet if one.query not in held.refused]
        run.tell(f"planning {counted(len(open_to), 'query', 'queries')}")
        planned = _Answers.of(_planned(spark, open_to, run, costs or {}))
        prepared = _prepared(open_to, planned.notes)
        held.take({one.target: holders[one.target] for one in prepared}, wait=run.wait)
        ready = [one for one in prepared if one.target.query in held.leases]
        found = by_query(planned.notes)
        ends = {one: QueryEnd(found[one.query], held.refused.get(one.query)) for one in fleet}
        try:
            done, units = _maintained(spark, ready, holders, run)
        except BaseException:
            _end(held, ready, holders, {}, run.name)
            for one in ready:  # each of its tasks was killed, as far as the driver knows
                ends[one.target].units = 1
            note_runs(run.name, ends)
            raise
        notes = [*planned.notes, *done.notes, *planned.worst, *done.worst, *_missing(units, done)]
        queries = _query_rows(fleet, run, held, notes)
        emptied = _end(held, ready, holders, queries, run.name)
        if ending := _ending_rows(emptied):
            queries = _query_rows(fleet, run, held, [*notes, *ending])
        found, counts = by_query(done.notes), Counter(one for one, _ in units)
        for target, end in ends.items():
            end.add(counts[target], found[target.query])
            end.emptied = emptied.get(target, end.emptied)
        note_runs(run.name, ends)
        return _table([planned.table, done.table], list(queries.values()))


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
    def worst(self) -> list[Row]:
        """Returns the outcomes of the stores of each query, as notes of the query."""
        outcomes = self.table.group_by(["query", "outcome", "exit_code"]).aggregate([])
        return [{**_EMPTY, **row} for row in outcomes.to_pylist()]


def _planned(spark: Any, fleet: Sequence[Target], run: FleetRun, costs: Mapping[str, Costs]) -> Any:
    pieces = [(Piece(one, run.options(costs=costs.get(one.query))).to_json(), 1.0) for one in fleet]
    tasks = deal(pieces, cores_of(spark) * MOST_TASKS_A_CORE)
    return _collected(spark, tasks, prepare_query)


def _collected(spark: Any, tasks: Sequence[Sequence[str]], work: Any) -> Any:
    if not tasks:
        return arrow_schema(NOTED).empty_table()
    return collected(spread(spark, tasks, work, NOTED), NOTED)


def _prepared(fleet: Iterable[Target], notes: Iterable[Row]) -> list[_Prepared]:
    read = {row["query"]: json.loads(row["note"]) for row in notes if row["note"]}
    messages = {query: one for query, one in read.items() if "units" in one}
    return [
        _Prepared(
            target=one,
            version=messages[one.query]["target"],
            units={UnitId(*unit): weight for *unit, weight in messages[one.query]["units"]},
            handover=messages[one.query]["handover"],
        )
        for one in fleet
        if one.query in messages
    ]


def _maintained(
    spark: Any, ready: Sequence[_Prepared], holders: Mapping[Target, Holder], run: FleetRun
) -> tuple[_Answers, list[tuple[Target, Bundle]]]:
    cores = cores_of(spark)
    split = shares({one.target.query: one.weight for one in ready}, cores)
    units = [
        (one, bundle)
        for one in ready
        for bundle in bundles(
            one.units,
            target=one.version,
            most=split[one.target.query],
            holder=holders[one.target],
        )
    ]
    run.tell(
        f"maintaining {counted(sum(len(one.units) for one in ready), 'partition')} of "
        f"{counted(len(ready), 'query', 'queries')} in {counted(len(units), 'unit')}"
    )
    pieces = [(_piece(one, bundle, run), bundle.weight) for one, bundle in units]
    table = _collected(spark, deal(pieces, cores * MOST_TASKS_A_CORE), maintain_unit)
    return _Answers.of(table), [(one.target, bundle) for one, bundle in units]


def _piece(prepared: _Prepared, bundle: Bundle, run: FleetRun) -> str:
    options = run.options(bundle=bundle.to_json(), handover=prepared.handover)
    return Piece(prepared.target, options).to_json()


def _missing(units: Iterable[tuple[Target, Bundle]], done: _Answers) -> list[Row]:
    """Returns a row with an error for each unit without a result."""
    rows = done.table.group_by(["query", "unit"]).aggregate([]).to_pylist()
    reported = {(row["query"], row["unit"]) for row in [*rows, *done.notes]}
    return [
        {**_EMPTY, **error_row(target, RuntimeError(f"{bundle.label} gave no report"))}
        for target, bundle in units
        if (target.query, bundle.label) not in reported
    ]


_EMPTY: Row = dict.fromkeys(NOTED)


def _query_rows(
    fleet: Iterable[Target], run: FleetRun, held: Leases, notes: Iterable[Row]
) -> dict[str, Row]:
    """Returns the row of each query itself, by its name."""
    of_query: dict[str, list[Row]] = {one.query: [] for one in fleet}
    for row in notes:
        of_query[row["query"]].append(row)
    for target in fleet:
        if refused := held.refused.get(target.query):
            of_query[target.query].append({**_EMPTY, **error_row(target, refused)})
    return {one.query: query_row(one, run.name, of_query[one.query]) for one in fleet}


def _end(
    held: Leases,
    ready: Iterable[_Prepared],
    holders: Mapping[Target, Holder],
    queries: Mapping[str, Row],
    run: str,
) -> dict[Target, Emptied]:
    """Ends the run of every query, and returns what was deleted from the trash of each.

    A query without a row of its own was not sound.
    """
    codes = {
        one.target: queries.get(one.target.query, {"exit_code": 1})["exit_code"] for one in ready
    }
    return held.end(codes, holders, run)


def _ending_rows(ended: Mapping[Target, Emptied]) -> list[Row]:
    """Returns a note of each query whose trash could not be emptied."""
    return [
        {
            **_EMPTY,
            **of_query(target),
            "findings": findings_rows(emptied.findings),
            "exit_code": exit_code_of(emptied.findings),
        }
        for target, emptied in ended.items()
        if emptied.finding
    ]


def _table(tables: Sequence[Any], rows: Sequence[Row]) -> Any:
    import pyarrow as pa

    names, schema = list(OUTCOMES), arrow_schema(OUTCOMES)
    queries = pa.Table.from_pylist(list(rows), schema=schema)
    return pa.concat_tables([*(one.select(names) for one in tables), queries])


def with_options(run: FleetRun, **options: Any) -> FleetRun:
    """Returns a run with the given options."""
    return replace(run, **{name: value for name, value in options.items() if value is not None})
