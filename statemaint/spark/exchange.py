"""What executors save: units of stores, and files of rows that Spark's own exchange has sorted.

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
from dataclasses import asdict, replace
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
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider, Store
from statemaint.plan.actions import WriteSnapshot
from statemaint.records.claims import Holder
from statemaint.records.savepoints import SavedStore, note_stores
from statemaint.report.task import loaded
from statemaint.savepoint.plan import SavepointPlan
from statemaint.savepoint.shuffle import Shuffle, check_numbering, routed
from statemaint.savepoint.stores import StoreWriter, check_rows
from statemaint.spark.fleet import Target
from statemaint.spark.frames import NOTED, batch, collected, ddl, spread
from statemaint.spark.outcomes import Row, error_row, of_query
from statemaint.spark.units import Piece, check_lease_held
from statemaint.storage import ReadOnly, open_storage

AGAIN = "again"
"""The note of work that misses an input, after which the savepoint starts over."""
_ROWS = {"place": "int", "key": "binary", "value": "binary"}
_PLACE = {"type": "struct", "fields": [{"name": "place", "type": "integer", "nullable": True}]}


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


def exchanged(
    spark: Any, target: Target, writer: StoreWriter, options: Mapping[str, Any]
) -> list[Row]:
    """Returns the outcome of each file that is left to be written row by row, by executors."""
    planned, left = writer.planned, [write.path for write in writer.writes_left]
    if not left:
        return []
    places = dict(zip(left, _places(len(left)), strict=True))
    sends, files = list[tuple[str, float]](), dict[int, tuple[str, int]]()
    for shuffle in planned.shuffles:
        to = [places.get(write.path) for write in shuffle.targets]
        for source in shuffle.sources if any(to) else ():
            piece = Piece(target, {"plan": _alike(planned, shuffle, source), "places": to})
            sends.append((piece.to_json(), source[1].size))
        first = {**options, "plan": _alike(planned, shuffle, shuffle.sources[0])}
        work = Piece(target, first).to_json()
        files |= {place: (work, at) for at, place in enumerate(to) if place}
    rows = spread(spark, sends, send, _ROWS, tasks=len(sends))
    apart = rows.repartition(len(left), "place").sortWithinPartitions("place", "key")
    received = apart.mapInArrow(partial(_received, files), ddl(NOTED))
    return list(collected(received, NOTED).to_pylist())


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
