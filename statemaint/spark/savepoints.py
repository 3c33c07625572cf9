"""Savepoints of a fleet: the driver has leases, pins and logs; executors write and prove stores."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from statemaint.errors import Superseded
from statemaint.maintain.bundles import PER_PARTITION, Bundle, bundles
from statemaint.model.ids import StoreId, UnitId, version_of
from statemaint.records.claims import Holder
from statemaint.records.savepoints import SAME, SavedStore, Shape
from statemaint.report.task import dumped, loaded
from statemaint.report.to_json import fields_json, id_json
from statemaint.savepoint.plan import committed_batches
from statemaint.savepoint.report import SavepointReport
from statemaint.savepoint.run import Saving, saving
from statemaint.savepoint.stores import StoreWriter
from statemaint.spark.engine import Tell, answers
from statemaint.spark.exchange import AGAIN, exchanged, packed, saved
from statemaint.spark.fleet import Target, each
from statemaint.spark.frames import cores_of, outcomes, shares
from statemaint.spark.outcomes import Row, error_row, findings_columns, of_query, query_row
from statemaint.spark.reporting import note_savepoints
from statemaint.spark.units import Piece, task_workers
from statemaint.storage import open_storage
from statemaint.wording import counted


def save_fleet(
    spark: Any, fleet: Sequence[Target], run: str, *, shape: Shape, pin: bool, tell: Tell
) -> Any:
    """Makes a savepoint of each query, and returns the outcomes as an Arrow table."""
    saves = [QuerySave(target, run, pin=pin, shape=shape) for target in fleet]
    try:
        tell(f"planning {counted(len(saves), 'query', 'queries')}")
        each(QuerySave.begin, saves)
        while at_work := [save for save in saves if save.steps]:
            sizes = {save.target.query: sum(save.weights().values()) for save in at_work}
            most = shares(sizes, cores_of(spark))
            units = [unit for save in at_work for unit in save.units(most[save.target.query])]
            queries = counted(len(at_work), "query", "queries")
            tell(f"saving the stores of {queries} in {counted(len(units), 'unit')}")
            rows = [*answers(spark, units, save_unit).notes]
            rows += [row for save in at_work for row in save.exchanged(spark)]
            each(partial(QuerySave.go_on, rows=rows), at_work)
    finally:
        each(QuerySave.close, saves)
    if pin:
        note_savepoints({save.target: save.report for save in saves if save.report})
    return outcomes([], [row for save in saves for row in save.rows()])


@dataclass(slots=True)
class QuerySave:
    """The savepoint of one query, on the driver."""

    target: Target
    run: str
    pin: bool
    shape: Shape = SAME
    dest: str = ""
    steps: Saving | None = None  # as long as executors have stores to write
    writer: StoreWriter | None = None  # what they write
    report: SavepointReport | None = None  # once it is whole
    notes: list[Row] = field(default_factory=list)  # the rows of what failed
    _holder: Holder = field(init=False)
    _bundles: tuple[Bundle, ...] = ()
    _rows_of_units: dict[str, Row] = field(default_factory=dict)
    _rounds: int = 0

    def begin(self) -> None:
        self._step(self._begun)

    def _begun(self) -> StoreWriter:
        source = self.target.open()
        batch = max(committed_batches(source), default=0)
        self.dest = str(self.target.savepoint).replace("{batch}", str(batch))
        holder = self._holder = Holder(f"{self.run}.{self.target.query}")
        dest = open_storage(self.dest)
        self.steps = saving(source, dest, batch, shape=self.shape, pin=self.pin, shared=holder)
        return next(self.steps)

    def weights(self) -> Mapping[UnitId, float]:
        found = defaultdict[UnitId, float](lambda: PER_PARTITION)
        for store, write in self.writer.left if self.writer else ():
            found[store.id.unit] += write.chain.size
        return found

    def units(self, most: int) -> Iterator[tuple[str, float]]:
        """Yields the work that is left in about so many pieces, each with its weight."""
        if self.writer is None:
            return
        planned, left = self.writer.planned, self.writer.left
        self._rounds += 1
        self._bundles = bundles(
            self.weights(), target=version_of(planned.batch), most=most, holder=self._holder
        )
        for bundle in self._bundles:
            options = {
                **self._options,
                "unit": bundle.label,
                "key": f"{self._rounds}-{bundle.key}",
                "plan": packed(planned, [pair for pair in left if pair[0].id.unit in bundle.units]),
            }
            yield Piece(self.target, options).to_json(), bundle.weight

    def exchanged(self, spark: Any) -> list[Row]:
        return exchanged(spark, self.target, self.writer, self._options) if self.writer else []

    @property
    def _options(self) -> dict[str, Any]:
        holder = dumped(self._holder)
        return {"run": self.run, "dest": self.dest, "holder": holder, "round": self._rounds}

    def go_on(self, rows: Sequence[Row]) -> None:
        """Takes the rows of all units: the savepoint is whole then, starts over, or has failed."""
        mine = {row["unit"]: row for row in rows if row["query"] == self.target.query}
        writes = self.writer.writes_left if self.writer else ()
        expected = [bundle.label for bundle in self._bundles]
        for label in (*expected, *(write.store.directory for write in writes)):
            if label not in mine:
                mine[label] = error_row(self.target, RuntimeError(f"{label} gave no report"))
        failed = [row for row in mine.values() if row.get("error")]
        if any(row.get("note") != AGAIN for row in failed):
            self.notes += failed
            self.close()
        elif failed and self.steps:
            error = Superseded(self.target.checkpoint, failed[0]["error"])
            self._step(partial(self.steps.throw, error), failed)
        elif self.steps:
            stores = [(row, store) for row in mine.values() for store in json.loads(row["note"])]
            self._rows_of_units |= {store["directory"]: row for row, store in stores}
            self._step(partial(self.steps.send, [loaded(SavedStore, store) for _, store in stores]))

    def _step(self, step: Callable[[], StoreWriter | None], thrown: Sequence[Row] = ()) -> None:
        try:
            self.writer = step()
        except StopIteration as end:
            self.steps, self.report = None, end.value
        except Exception as error:  # noqa: BLE001 -- one query must not stop the others (S16)
            self.steps = None
            again = thrown and isinstance(error, Superseded)
            self.notes += thrown if again else [error_row(self.target, error)]

    def close(self) -> None:
        """Ends its lease and its pin."""
        if steps := self.steps:
            self.steps = None
            self._step(steps.close)

    def rows(self) -> Iterator[Row]:
        """Yields a row for each store of the whole savepoint, and that of the query itself."""
        place = {"savepoint": self.dest or None}
        note = self.report.note if self.report else None
        for store in note.stores if note else ():
            unit = self._rows_of_units.get(store.directory, {})
            times = {name: unit.get(name) for name in ("unit", "started", "seconds")}
            yield {**self._row(store, written=bool(unit)), **place, **times}
        yield {**query_row(self.target, self.run, self.notes), **place}

    def _row(self, store: SavedStore, *, written: bool) -> Row:
        _, operator, partition, *name = store.directory.split("/")
        size = sum(store.files.values())
        return {
            **of_query(self.target),
            **id_json(StoreId(int(operator), int(partition), *name)),
            "run": self.run,
            "outcome": "done",
            "version": version_of(self.report.note.batch) if self.report else None,
            "chain_after": 0,
            "files": len(store.files),
            "bytes": size,
            "snapshots_written": int(written),
            "bytes_written": size if written else 0,
            "files_deleted": 0,
            "bytes_deleted": 0,
            **fields_json(store, "rows digest"),
            **findings_columns(()),
        }


def save_unit(piece: str) -> Iterator[Row]:
    """Yields a row with the stores of a unit that are written and proved, or with its error."""
    given = Piece.from_json(piece)
    yield saved(given, lambda writer: writer.write(task_workers(writer.dest)))
