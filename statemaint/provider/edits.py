"""From a caller's rows to the changes of an operator's stores, and of the indexes beside them.

    aggregation, deduplication,      the stored columns of a key and of its value
    session windows, grouped state
    joins                            "left" and "right": a join key and one of its rows, which is
                                     added to those that are there; in format 4 the key ends with
                                     the event time. Counts, indexes and times follow
    transformWithState               a variable's name: a key and its value, or a list's values.
                                     Counts and expiry orders follow; a name of
                                     `$eventTimers_keyToTimestamp` or `$procTimers_...`: a timer

`None` in place of a value removes a key with all that belongs to it. Mirrors
`SymmetricHashJoinStateManager`, `ListStateImpl`, `TTLState`, `TimerStateImpl`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statemaint.codec.rows.state_row import RowLayout, Wrapping, key_reader, value_reader
from statemaint.codec.rows.state_write import Encoder, entry_encoder, key_encoder
from statemaint.codec.rows.unsafe_read import Row
from statemaint.codec.rows.unsafe_write import RowWriter, Values
from statemaint.errors import CodecError, ConfigError, UnsupportedError
from statemaint.model.checkpoint import Operator
from statemaint.state.shuffle_key import ShuffleKey, shuffle_key
from statemaint.state.versions import Layouts

Place = tuple[str, str | None]
"""The name of a store, and of a column family in it."""
Edit = tuple[Place, bytes, tuple[bytes, ...] | None]
"""Where, a key, and the entries of its new value; `None` removes the key."""

_SESSIONS, _JOIN = "sessionWindowStateStoreSaveExec", "symmetricHashJoin"
_WITH_STATE = "transformWithState"
_NORMALIZED = ("stateStoreSave", "dedupe", "dedupeWithinWatermark", _SESSIONS, _JOIN)
KINDS = (*_NORMALIZED, "flatMapGroupsWithState", "applyInPandasWithState", f"{_WITH_STATE}Exec")
_TIMERS, _BY_TIME = "Timers_keyToTimestamp", "Timers_timestampToKey"
_DUMMY = (None,)


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a store, or of one of its column families."""

    place: Place
    layout: RowLayout
    shuffle: ShuffleKey
    keys: RowWriter
    values: RowWriter
    encode_key: Encoder
    encode_entry: Encoder

    @property
    def name(self) -> str:
        store, family = self.place
        return family or store

    def key(self, columns: Values) -> bytes:
        return self.encode_key(self.keys.write(columns))

    def entry(self, columns: Values) -> bytes:
        return self.encode_entry(self.values.write(columns))

    def columns(self, key: bytes) -> Row:
        return key_reader(self.layout, Wrapping())(key)

    def row(self, entry: bytes) -> Row:
        (row,) = value_reader(self.layout, Wrapping())(b"", entry)
        return row

    def edit(self, columns: Values, *values: Values) -> Edit:
        return self.place, self.key(columns), tuple(map(self.entry, values)) or None


def tables_of(root: str, operator: Operator, layouts: Mapping[str, Layouts]) -> dict[str, Table]:
    """Returns the tables of an operator by name, from the layouts of each of its stores."""
    what = f"operator {operator.id} ({operator.name})"
    if not operator.name.startswith((*KINDS, _WITH_STATE)):
        raise UnsupportedError(root, what, ", ".join(KINDS))
    tables = {}
    for store, families in layouts.items():
        for family, layout in families.items():
            key = shuffle_key(operator, family or store, layout, 0)
            if not layout.key.fields or key is None:
                unkeyed = f"state without a key that is known, in {what},"
                raise UnsupportedError(root, unkeyed, "grouped state")
            try:
                table = _table(operator, (store, family), layout, key)
            except (ValueError, CodecError) as error:
                raise UnsupportedError(root, f"{what}, {error},", "other types") from error
            tables[table.name] = table
    return tables


def _table(operator: Operator, place: Place, layout: RowLayout, shuffle: ShuffleKey) -> Table:
    keys = RowWriter(layout.key, normalize=operator.name in _NORMALIZED)
    values = RowWriter(layout.value)
    return Table(place, layout, shuffle, keys, values, key_encoder(layout), entry_encoder(layout))


# -- the changes of a key


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that a caller gives under one name, and the changes that they make.

    Attributes:
        table: of the keys.
        values: of the values; another one only for joins that number their rows.
        adds: whether the values of a key are added to those that are there.
    """

    table: Table
    values: Table
    adds = False

    def check(self, key: bytes, entries: Iterable[bytes]) -> None:
        """Raises `ConfigError` if a key cannot have these values."""

    def edits(
        self, key: bytes, old: Sequence[Row], new: Sequence[bytes], *, removed: bool
    ) -> Iterator[Edit]:
        """Yields the changes of a key that had some rows in `table`, and gets other entries."""
        del removed
        if old or new:
            yield self.table.place, key, tuple(new) or None


class Sessions(Rows):
    """Session windows, whose values repeat their keys."""

    def check(self, key: bytes, entries: Iterable[bytes]) -> None:
        grouped = self.table.layout.key.fields[:-1]
        for row in map(self.table.row, entries):
            names = (field.name for field in self.table.layout.value.fields)
            named = dict(zip(names, row, strict=True))
            window = named.pop("session_window", None)
            if not window or not named.keys() >= {field.name for field in grouped}:
                continue  # renamed columns
            again = (*(named[field.name] for field in grouped), window[0])
            if self.table.key(again) != key:
                raise ConfigError("the value is of another key, or of another start of its window")


class Numbered(Rows):
    """A side of a join in formats 1 to 3: `table` has the number of a key's rows."""

    adds = True

    def edits(
        self, key: bytes, old: Sequence[Row], new: Sequence[bytes], *, removed: bool
    ) -> Iterator[Edit]:
        columns, count = self.table.columns(key), old[0][0] if old else 0
        kept = 0 if removed else count
        for index, entry in enumerate(new, kept):
            yield self.values.place, self.values.key((*columns, index)), (entry,)
        for index in range(kept + len(new), count):
            yield self.values.edit((*columns, index))
        if old or new:
            total = kept + len(new)
            yield self.table.edit(columns, *([(total,)] if total else []))


@dataclass(frozen=True, slots=True)
class Timed(Rows):
    """A side of a join in format 4: rows by key and event time, and an index by time."""

    index: Table
    adds = True

    def edits(
        self, key: bytes, old: Sequence[Row], new: Sequence[bytes], *, removed: bool
    ) -> Iterator[Edit]:
        kept = () if removed else map(self.table.entry, old)
        entries = (*kept, *new)
        if old or new:
            yield self.table.place, key, entries or None
            yield self.index.edit(self.table.columns(key), *([_DUMMY] if entries else []))


@dataclass(frozen=True, slots=True)
class Timers(Rows):
    """Timers by key, and their order by time."""

    index: Table

    def edits(
        self, key: bytes, old: Sequence[Row], new: Sequence[bytes], *, removed: bool
    ) -> Iterator[Edit]:
        yield from Rows.edits(self, key, old, new, removed=removed)
        if old or new:
            group, moment = self.table.columns(key)
            yield self.index.edit((moment, group), *([_DUMMY] if new else []))


@dataclass(frozen=True, slots=True)
class Variable(Rows):
    """A state variable: a value, a list, or a map.

    Attributes:
        count: the number of a list's values.
        expiry: what expires, by time; a list at its first value's time, which `least` has.
    """

    count: Table | None
    expiry: Table | None
    least: Table | None

    def check(self, key: bytes, entries: Iterable[bytes]) -> None:
        del key
        if self.expiry and any(row[-1] is None for row in map(self.table.row, entries)):
            raise ConfigError("column 'ttlExpirationMs': null, where the variable has a TTL")

    def edits(
        self, key: bytes, old: Sequence[Row], new: Sequence[bytes], *, removed: bool
    ) -> Iterator[Edit]:
        yield from Rows.edits(self, key, old, new, removed=removed)
        if not (old or new) or not (self.count or self.expiry):
            return
        columns = self.table.columns(key)
        if self.count:
            yield self.count.edit(columns, *([(len(new),)] if new else []))
        if self.expiry:
            before = min((row[-1] for row in old), default=None)
            after = min((self.table.row(entry)[-1] for entry in new), default=None)
            if before is not None:
                yield self.expiry.edit((before, columns))
            if after is not None:
                yield self.expiry.edit((after, columns), _DUMMY)
            if self.least:
                yield self.least.edit(columns, *([] if after is None else [(after,)]))


def rows_of(operator: Operator, tables: Mapping[str, Table]) -> dict[str, Rows]:
    """Returns what can be given for an operator, by name; it is empty if there is one table."""
    if operator.name == _JOIN:
        return {side: _side(side, tables) for side in ("left", "right")}
    if operator.name.startswith(_WITH_STATE):
        variables = {name: table for name, table in tables.items() if not name.startswith("$")}
        found = {name: _variable(table, tables) for name, table in variables.items()}
        timers = (name for name in tables if name.endswith(_TIMERS))
        return {**found, **{name: _timers(name, tables) for name in timers}}
    (table,) = tables.values()
    return {"": (Sessions if operator.name == _SESSIONS else Rows)(table, table)}


def _side(side: str, tables: Mapping[str, Table]) -> Rows:
    if table := tables.get(f"{side}-keyWithTsToValues"):
        return Timed(table, table, tables[f"{side}-tsWithKey"])
    return Numbered(tables[f"{side}-keyToNumValues"], tables[f"{side}-keyWithIndexToValue"])


def _variable(table: Table, tables: Mapping[str, Table]) -> Rows:
    name, expiry = table.name, tables.get(f"$ttl_{table.name}")
    count = tables.get(f"$count_{name}" if expiry else f"$rowCounter_{name}")
    return Variable(table, table, count, expiry, tables.get(f"$min_{name}"))


def _timers(name: str, tables: Mapping[str, Table]) -> Rows:
    return Timers(tables[name], tables[name], tables[name.removesuffix(_TIMERS) + _BY_TIME])


# -- all rows of a call


@dataclass(slots=True)
class _Asked:
    """The rows given for a key: their entries, after a removal of what is there or not."""

    removed: bool = False
    entries: list[bytes] = field(default_factory=list)


class Edits:
    """The changes of an operator's state that some rows ask for, by partition."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._asked: dict[int, dict[Place, dict[bytes, tuple[Rows, _Asked]]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._old: dict[tuple[int, Place, bytes], tuple[Row, ...]] = {}
        self.counts: Counter[int] = Counter()

    def add(self, rows: Rows, given: Iterable[tuple[Values, Any]], label: str = "") -> None:
        """Takes rows; raises `ConfigError` with the label and number of one that does not fit."""
        for number, (columns, value) in enumerate(given):
            try:
                key = rows.table.key(columns)
                many = rows.values.layout.many and not rows.adds
                values = [] if value is None else value if many else [value]
                entries = [*map(rows.values.entry, values)]
                rows.check(key, entries)
            except (ConfigError, TypeError) as error:
                raise ConfigError(f"{label}row {number}: {error}") from error
            partition = rows.table.shuffle.partition(key, self._partitions)
            self.counts[partition] += 1
            there = self._asked[partition][rows.table.place]
            _, asked = there.setdefault(key, (rows, _Asked()))
            if value is None or not rows.adds:
                asked.removed, asked.entries = True, []
            asked.entries += entries

    def see(
        self, partition: int, place: Place, key: bytes, old: Callable[[], tuple[Row, ...]]
    ) -> None:
        """Takes a row of the state, of which only those of given keys are read."""
        if key in self._asked[partition][place]:
            self._old[partition, place, key] = old()

    def of(self, partition: int) -> Iterator[Edit]:
        """Yields a partition's changes, once its rows are seen."""
        for place, keys in self._asked[partition].items():
            for key, (rows, asked) in keys.items():
                old = self._old.get((partition, place, key), ())
                yield from rows.edits(key, old, asked.entries, removed=asked.removed)
