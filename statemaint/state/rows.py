"""The rows of any version, decoded with the schema that the query wrote."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from statemaint.codec.rows.display import shower
from statemaint.codec.rows.state_row import RowLayout, Wrapping, key_reader, value_reader
from statemaint.codec.rows.unsafe_read import Row
from statemaint.errors import CodecError, ConfigError
from statemaint.fold import Source
from statemaint.fold.state import State, opened_state
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.ids import StoreId
from statemaint.planning import scan_checkpoint
from statemaint.state.ahead import StoreReading, need_of, opened_ahead
from statemaint.state.versions import Layouts, chain_of, committed_version, layouts_of, stores_at
from statemaint.storage import ReadOnly, Storage, open_storage
from statemaint.workers import Workers

# Families that Spark keeps for itself in addition to the state variables: counters, expiry orders.
_OF_SPARK = "$"
_TIMERS = ("$eventTimers_keyToTimestamp", "$procTimers_keyToTimestamp")


@dataclass(frozen=True, slots=True)
class StateRow:
    """A row of state in readable form: columns by name, values as in JSON (`codec.rows.display`).

    `family` is `None` if the store has no column families, and `value` a list if a value has any
    number of entries.
    """

    store: StoreId
    family: str | None
    key: dict[str, Any]
    value: dict[str, Any] | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class DecodedRow:
    """A row of state as Python values, in the order of its layout's columns."""

    store: StoreId
    family: str | None
    layout: RowLayout
    key: Row
    entries: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A store at a version, and the requested part of it."""

    store: Store
    chain: Chain
    layouts: Layouts


@dataclass(frozen=True, slots=True)
class StateSelection:
    """The requested part of a checkpoint's state."""

    storage: Storage
    checkpoint: Checkpoint
    version: int
    parts: tuple[Part, ...]

    @property
    def kinds(self) -> dict[tuple[str, str], RowLayout]:
        """Returns the layout of each kind of row, by the names of its store and family, if any."""
        return {
            (part.store.id.store, family or ""): layout
            for part in self.parts
            for family, layout in part.layouts.items()
        }

    @property
    def families_of_spark(self) -> tuple[str, ...]:
        layouts = known_layouts(self.storage, self.checkpoint, self.version)
        every = {name for part in self.parts for name in layouts(part.store)}
        return tuple(sorted(name for name in every if name and not of_the_query(name)))

    def decoded(
        self, *, workers: Workers | int | None = None, slowly: bool = False
    ) -> Generator[DecodedRow]:
        """Yields the rows as Python values; `slowly` begins with one store at a time."""
        readings = map(self._reading, self.parts)
        with closing(
            opened_ahead(self.storage, readings, workers=workers, slowly=slowly)
        ) as opened:
            for rows in opened:
                yield from rows

    def rows(self, workers: Workers | int | None = None) -> Generator[StateRow]:
        readable = Readable()
        with closing(self.decoded(workers=workers)) as decoded:
            yield from map(readable.row, decoded)

    def _reading(self, part: Part) -> StoreReading[Iterator[DecodedRow]]:
        @contextmanager
        def opened(storage: Storage) -> Iterator[Iterator[DecodedRow]]:
            source = Source.of(storage, part.store, self.checkpoint)
            with opened_state(source, part.store, part.chain) as state:
                decoder = RowDecoder(source, part, state)
                numbered = enumerate(state.rows, 1)
                rows = (decoder.row(key, value, number) for number, (key, value) in numbered)
                yield filter(None, rows)

        return StoreReading(opened, need_of(part.store, part.chain))


def read_state(  # noqa: PLR0913 -- each is a choice of its own
    storage: Storage | str,
    operator: int = 0,
    *,
    partition: int | None = None,
    store: str | None = None,
    family: str | None = None,
    version: int | None = None,
    workers: Workers | int | None = None,
) -> Iterator[StateRow]:
    """Yields the rows of an operator's state at a version; writes nothing.

    Rows come store by store, within a store in the byte order of their keys. Column families are
    those of the query's state variables, with its timers, and those of joins. The families that
    Spark keeps for itself (`$ttl_NAME`, `$count_NAME`, ...) are read only if named.

    The default is the newest committed version of all partitions and stores. `workers` is the
    number of stores whose files are read ahead, in bounded memory; by default what suits the
    storage. The rows are the same with any number.

    Mirrors Spark's `statestore` data source, except for the column names: they are those that the
    state is stored with.

    Raises:
        ConfigError: when nothing is committed, or nothing matches the request.
        UnsupportedError: when rows are not encoded as UnsafeRow.
        DamagedError: when the checkpoint's own logs or schemas cannot be read, or a version that
            should still load does not.
        CheckpointError: when a file of the version is damaged; also while rows are read.
    """
    selection = select_state(
        storage, operator, partition=partition, store=store, family=family, version=version
    )
    return selection.rows(workers=workers)


def select_state(
    storage: Storage | str,
    operator: int = 0,
    *,
    partition: int | None = None,
    store: str | None = None,
    family: str | None = None,
    version: int | None = None,
) -> StateSelection:
    """Returns the requested part of a checkpoint's state; raises as `read_state` does."""
    reading, checkpoint = scan_stores(storage, operator, partition=partition, store=store)
    at = committed_version(checkpoint, version)
    kept = tuple(part for part in parts_at(reading, checkpoint, at, family) if part.layouts)
    if family is not None and not kept:
        raise no_family(reading, checkpoint, at, family)
    return StateSelection(reading, checkpoint, at, kept)


def scan_stores(
    storage: Storage | str,
    operator: int | None,
    *,
    partition: int | None = None,
    store: str | None = None,
) -> tuple[Storage, Checkpoint]:
    """Returns a read-only storage, and a scan of some stores; at least one of them must exist."""
    reading = ReadOnly(open_storage(storage) if isinstance(storage, str) else storage)

    def requested(store_id: StoreId) -> bool:
        return (
            operator in (None, store_id.operator)
            and partition in (None, store_id.partition)
            and store in (None, store_id.store)
        )

    checkpoint = scan_checkpoint(reading, requested)
    committed_version(checkpoint)
    if not checkpoint.stores:
        request = {"operator": operator, "partition": partition, "store": store}
        what = ", ".join(
            f"{name} {'(any)' if value is None else value}" for name, value in request.items()
        )
        raise ConfigError(f"{reading.root}: no {what}; `statemaint scan` lists what is there")
    return reading, checkpoint


def parts_at(
    reading: Storage, checkpoint: Checkpoint, version: int, family: str | None
) -> tuple[Part, ...]:
    """Returns every store at a version; one without any requested column family has no layouts."""
    stores = stores_at(checkpoint, version)
    chains = [(store, chain_of(checkpoint, store, version)) for store in stores]
    layouts = known_layouts(reading, checkpoint, version)
    return tuple(Part(store, chain, _chosen(layouts(store), family)) for store, chain in chains)


def no_family(reading: Storage, checkpoint: Checkpoint, version: int, family: str) -> ConfigError:
    layouts = known_layouts(reading, checkpoint, version)
    families = sorted({name for store in checkpoint.stores for name in layouts(store) if name})
    there = f"there are {', '.join(families)}" if families else "there are none"
    operator = checkpoint.stores[0].id.operator
    return ConfigError(f"{reading.root}: no column family {family} in operator {operator}; {there}")


def known_layouts(
    storage: Storage, checkpoint: Checkpoint, version: int
) -> Callable[[Store], Layouts]:
    cached: dict[tuple[int, str], Layouts] = {}

    def layouts(store: Store) -> Layouts:
        name = store.id.operator, store.id.store
        if name not in cached:
            cached[name] = layouts_of(storage, checkpoint, store, version)
        return cached[name]

    return layouts


def _chosen(layouts: Layouts, family: str | None) -> Layouts:
    if family is not None:
        return {family: layouts[family]} if family in layouts else {}
    return {name: layout for name, layout in layouts.items() if of_the_query(name)}


def of_the_query(family: str | None) -> bool:
    """Returns whether a column family is the query's, not one that Spark keeps for itself."""
    return family is None or not family.startswith(_OF_SPARK) or family in _TIMERS


@dataclass(frozen=True, slots=True)
class Family:
    """A column family, or a whole store without any."""

    name: str | None
    row: Callable[[bytes, bytes], DecodedRow]


class RowDecoder:
    """Decodes the rows of a part; errors name the part."""

    def __init__(self, source: Source, part: Part, state: State) -> None:
        self._part, self._width = part, state.width
        wrapping = Wrapping(state.width, source.row_checksums, state.delimiter)
        requested = {name: _family(part, name, wrapping) for name in part.layouts}
        if not state.families:
            requested.setdefault(None, Family(None, _refuse_row))
        self._families = {front: requested.get(name) for front, name in state.fronts.items()}

    def family(self, key: bytes) -> Family | None:
        """Returns the family of a key, `None` if it is not requested."""
        try:
            return self._family_of(key)
        except CodecError as error:
            raise self._located(error, "a row") from error

    def row(self, key: bytes, value: bytes, number: int | None = None) -> DecodedRow | None:
        """Returns a row, `None` if its family is not requested; errors name its number, if any."""
        try:
            family = self._family_of(key)
            return family.row(key, value) if family else None
        except CodecError as error:
            which = "a row" if number is None else f"row {number}"
            raise self._located(error, which) from error

    def _family_of(self, key: bytes) -> Family | None:
        front = key[: self._width]
        try:
            return self._families[front]
        except KeyError:
            number = int.from_bytes(front, "little", signed=True) if front[1:] else None
            raise CodecError(f"column family {number} is unknown", offset=0) from None

    def _located(self, error: CodecError, which: str) -> CodecError:
        chain = self._part.chain
        text = f"{which} of version {chain.version} in {self._part.store.id}: {error.detail}"
        return CodecError(text, offset=error.offset, path=chain.paths[-1])


def _refuse_row(_key: bytes, _value: bytes) -> DecodedRow:
    raise CodecError(
        "the numbers of the column families are unknown: no snapshot has them", offset=0
    )


def _family(part: Part, name: str | None, wrapping: Wrapping) -> Family:
    layout, store = part.layouts[name], part.store.id
    of_key, of_value = key_reader(layout, wrapping), value_reader(layout, wrapping)

    def row(key: bytes, value: bytes) -> DecodedRow:
        return DecodedRow(store, name, layout, of_key(key), of_value(key, value))

    return Family(name, row)


class Readable:
    """Makes decoded rows readable; each layout is analyzed once."""

    def __init__(self) -> None:
        # By identity, as hashing a layout takes longer than reading a row. The layout is held with
        # its functions, so that no other layout gets its identity.
        self._cached: dict[int, tuple[RowLayout, Callable[[Row], Any], Callable[[Row], Any]]] = {}

    def row(self, row: DecodedRow) -> StateRow:
        layout = row.layout
        if id(layout) not in self._cached:
            self._cached[id(layout)] = layout, shower(layout.key), shower(layout.value)
        _, show_key, show_value = self._cached[id(layout)]
        entries = [show_value(entry) for entry in row.entries]
        shown = entries if layout.many else entries[0]
        return StateRow(row.store, row.family, show_key(row.key), shown)
