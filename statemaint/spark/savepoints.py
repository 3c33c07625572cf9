"""Savepoints of a fleet: the driver has leases, pins and logs; executors write and prove stores.

They save units of stores, and files of rows that Spark's own exchange has sorted:

    place   the file of the row: a number that Spark's hash sends to a task of its own
    key     of the row; null in the heads of a file, which come first
    value   of the row; of a head in JSON: what one store sends to the file, or why it cannot

A file has a head from each of the stores that may have rows of it, with the digest of what they
send. So no row is lost unnoticed, and a file without rows is written like the others.
"""

import json
import pickle
import zlib
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from io import BytesIO
from itertools import count, groupby
from operator import add, itemgetter
from time import monotonic
from types import MappingProxyType
from typing import Any

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rows.murmur3 import partition_of
from statemaint.errors import MissingSstError, StorageError, Superseded
from statemaint.execute.attempts import LeaseGuardedStorage, UnitClaim
from statemaint.execute.fence import superseded_if_missing
from statemaint.execute.lease import leased
from statemaint.fold import Source, engine_for
from statemaint.fold.state import opened_state
from statemaint.maintain.bundles import PER_PARTITION, Bundle, bundles
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider, Store
from statemaint.model.ids import StoreId, UnitId, version_of
from statemaint.plan.actions import WriteSnapshot
from statemaint.records.claims import Holder
from statemaint.records.savepoints import SAME, SavedStore, Shape, note_stores
from statemaint.report.task import dumped, loaded
from statemaint.report.to_json import fields_json, id_json
from statemaint.savepoint.plan import SavepointPlan, committed_batches
from statemaint.savepoint.report import SavepointReport
from statemaint.savepoint.run import Saving, saving
from statemaint.savepoint.shuffle import Shuffle, check_numbering, routed
from statemaint.savepoint.stores import StoreWriter, check_rows
from statemaint.spark.engine import Answers, Tell
from statemaint.spark.fleet import Target, each
from statemaint.spark.frames import NOTED, batch, collected, cores_of, ddl, outcomes, shares, spread
from statemaint.spark.outcomes import Row, error_row, findings_columns, of_query, query_row
from statemaint.spark.reporting import note_savepoints
from statemaint.spark.units import Piece, check_lease_held, task_workers
from statemaint.storage import ReadOnly, open_storage
from statemaint.wording import counted

AGAIN = "again"
"""The note of work that misses an input, after which the savepoint starts over."""
_ROWS = {"place": "int", "key": "binary", "value": "binary"}
_PLACE = {"type": "struct", "fields": [{"name": "place", "type": "integer", "nullable": True}]}


# -- the driver


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
            rows = [*Answers.by_executors(spark, units, save_unit).notes]
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
                "weight": bundle.weight,
                "key": f"{self._rounds}-{bundle.key}",
                "plan": packed(planned, [pair for pair in left if pair[0].id.unit in bundle.units]),
            }
            yield Piece(self.target, options).to_json(), bundle.weight

    def exchanged(self, spark: Any) -> list[Row]:
        """Returns the outcome of each file that is left to be written row by row, by executors."""
        left = [write.path for write in self.writer.writes_left] if self.writer else []
        if self.writer is None or not left:
            return []
        planned, places = self.writer.planned, dict(zip(left, _places(len(left)), strict=True))
        sends, files = list[tuple[str, float]](), dict[int, tuple[str, int]]()
        for shuffle in planned.shuffles:
            to = [places.get(write.path) for write in shuffle.targets]
            for source in shuffle.sources if any(to) else ():
                options = {"plan": _alike(planned, shuffle, source), "places": to}
                sends.append((Piece(self.target, options).to_json(), source[1].size))
            first = {**self._options, "plan": _alike(planned, shuffle, shuffle.sources[0])}
            work = Piece(self.target, first).to_json()
            files |= {place: (work, at) for at, place in enumerate(to) if place}
        rows = spread(spark, sends, send, _ROWS, tasks=len(sends))
        apart = rows.repartition(len(left), "place").sortWithinPartitions("place", "key")
        received = apart.mapInArrow(partial(_received, files), ddl(NOTED))
        return list(collected(received, NOTED).to_pylist())

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


# -- executors


def save_unit(piece: str) -> Iterator[Row]:
    """Yields a row with the stores of a unit that are written and proved, or with its error."""
    given = Piece.from_json(piece)
    yield saved(given, lambda writer: writer.write(task_workers(writer.dest)))


def packed(
    planned: SavepointPlan, stores: Iterable[tuple[Store, WriteSnapshot]], *shuffles: Shuffle
) -> str:
    """Returns what an executor needs of a plan to save some of its stores."""
    whole = tuple(stores)
    checkpoint = replace(planned.checkpoint, stores=tuple(store for store, _ in whole))
    content = BytesIO()
    pickler = pickle.Pickler(content)
    pickler.dispatch_table = {MappingProxyType: lambda view: (dict, (dict(view),))}
    pickler.dump((checkpoint, planned.batch, whole, planned.witness, planned.shape, shuffles))
    return b64encode(zlib.compress(content.getvalue())).decode()


def unpacked(piece: Piece) -> SavepointPlan:
    # Spark sends its own tasks to executors in this form.
    facts = pickle.loads(zlib.decompress(b64decode(piece.options["plan"])))  # noqa: S301
    checkpoint, batch, stores, witness, shape, shuffles = facts
    source = ReadOnly(piece.target.open())
    return SavepointPlan(source, checkpoint, batch, stores, (), (), witness, shape, shuffles)


def saved(
    piece: Piece, save: Callable[[StoreWriter], Iterable[SavedStore]], *only: WriteSnapshot
) -> Row:
    """Returns the outcome of a unit: its stores, or its error.

    However often, and wherever, it runs, one attempt at a time works on the unit, under the lease
    that the driver holds; another returns the outcome, or continues.
    """
    options, holder = piece.options, loaded(Holder, piece.options["holder"])

    def work(dest: LeaseGuardedStorage) -> list[Row]:
        check_lease_held(dest, holder)
        started, began, planned = dest.now(), monotonic(), unpacked(piece)
        shuffles = tuple(replace(shuffle, targets=only) for shuffle in planned.shuffles)
        with leased(dest, holder, keep=True) as lease:
            writer = StoreWriter(replace(planned, shuffles=shuffles), dest, lease)
            writer = writer.continued() if dest.repeated else writer
            try:
                written = [*writer.done.values(), *save(writer)]
            except (Superseded, MissingSstError) as error:
                return [_failed(piece.target, error)]
        note = json.dumps([asdict(store) for store in written])
        took = round(monotonic() - began, 3)
        return [{**of_query(piece.target), "note": note, "started": started, "seconds": took}]

    try:
        place = open_storage(options["dest"])
        claim = UnitClaim(place, holder.nonce, options["key"])
        (row,) = claim.once(work, again=lambda: check_lease_held(place, holder))
    except Exception as error:  # noqa: BLE001 -- one unit must not stop the others (S16)
        row = error_row(piece.target, error)
    return {**row, "run": options["run"], "unit": options["unit"]}


def _failed(target: Target, error: Exception) -> Row:
    again = isinstance(error, Superseded | MissingSstError)
    return {**error_row(target, error), "note": AGAIN if again else None}


# -- rows, by the exchange


def _places(number: int) -> list[int]:
    """Returns numbers of which Spark's hash sends each to a partition of its own."""
    found, numbers = dict[int, int](), count(1)
    while len(found) < number:
        candidate = next(numbers)
        found.setdefault(partition_of([candidate], _PLACE, number), candidate)
    return [*found.values()]


def _alike(planned: SavepointPlan, shuffle: Shuffle, source: tuple[Store, Chain]) -> str:
    """Returns what an executor needs of a shuffle and of one of its sources."""
    return packed(planned, (), replace(shuffle, sources=(source,) * len(shuffle.sources)))


def send(piece: str) -> Iterator[Row]:
    """Yields the rows of one store, each with the place of its file, and a head for each file."""
    given = Piece.from_json(piece)
    places = given.options["places"]
    try:
        heads = yield from _sent(unpacked(given), places)
    except Exception as error:  # noqa: BLE001 -- one store must not stop the others (S16)
        heads = [{"failed": _failed(given.target, error)}] * len(places)
    for place, head in zip(places, heads, strict=True):
        if place:
            yield {"place": place, "key": None, "value": json.dumps(head).encode()}


def _sent(planned: SavepointPlan, places: Sequence[int | None]) -> Generator[Row, None, list[Row]]:
    from statemaint.fold.compiled.rows import Sums  # noqa: PLC0415 -- numba is large

    (shuffle,) = planned.shuffles
    store, chain = shuffle.sources[0]
    source = Source.of(planned.storage, store, planned.checkpoint)
    check_rows(planned, source, engine_for(chain.size, planned.checkpoint.provider), store)
    sums = [Sums(source.key) for _ in places]
    with superseded_if_missing(), opened_state(source, store, chain) as state:
        for targets, rows in routed(shuffle, store, state):
            apart = defaultdict[int, list[tuple[bytes, bytes]]](list)
            for target, row in zip(targets, rows, strict=True):
                apart[target].append(row)
            for target, of_target in apart.items():
                sums[target].add(of_target)
                if place := places[target]:
                    yield from (
                        {"place": place, "key": key, "value": value} for key, value in of_target
                    )
        families = {str(number): name for number, name in state.families.items()}
    return [{"digest": asdict(total.digest()), "families": families} for total in sums]


def _received(files: Mapping[int, tuple[str, int]], tables: Iterable[Any]) -> Iterator[Any]:
    columns = ([table.column(name).to_pylist() for name in _ROWS] for table in tables)
    rows = (row for of_table in columns for row in zip(*of_table, strict=True))
    for place, of_place in groupby(rows, key=itemgetter(0)):
        yield batch(NOTED, [receive(*files[place], of_place)])


def receive(piece: str, at: int, rows: Iterable[tuple[int, Any, bytes]]) -> Row:
    """Returns the outcome of one file, whose rows come sorted after its heads."""
    given = Piece.from_json(piece)
    (shuffle,) = unpacked(given).shuffles
    write = shuffle.targets[at]
    parts = groupby(rows, key=lambda row: row[1] is None)
    heads = [json.loads(value) for _, key, value in next(parts)[1] if key is None]
    apart = ((key, value) for _, part in parts for _, key, value in part)

    def save(writer: StoreWriter) -> Iterator[SavedStore]:
        if not writer.writes_left:
            return
        if len(heads) != len(shuffle.sources):
            why = f"Spark has brought the rows of {len(heads)} of {len(shuffle.sources)} stores"
            raise StorageError(write.path, why)
        check_numbering(write.store.directory, [head["families"] for head in heads])
        digest = reduce(add, (StateDigest(**head["digest"]) for head in heads))
        engine = engine_for(digest.bytes, writer.planned.shape.provider or Provider.UNKNOWN)
        store = writer.put(engine, shuffle, write, apart, digest)
        note_stores(writer.dest, [store])
        yield store

    unit = write.store.directory
    key = f"{given.options['round']}-{unit.replace('/', '-')}"
    options = {**given.options, "unit": unit, "key": key}
    if failed := [head["failed"] for head in heads if "failed" in head]:
        return {**failed[0], "run": options["run"], "unit": unit}
    return saved(Piece(given.target, options), save, write)
