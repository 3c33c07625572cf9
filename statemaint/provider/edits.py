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

from statemaint.codec.rows.display import field_names
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
_TIMERS = "Timers_keyToTimestamp"
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

Beside = Callable[[Row, Sequence[Row], Sequence[Row]], Iterator[Edit]]
"""Yields the changes of an index, from a key and all of its rows before and after."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that a caller gives under one name, and the changes that they make.

    Attributes:
        table: of the keys.
        values: of the values; another one only for joins that number their rows.
        adds: whether the values of a key are added to those that are there.
        beside: the indexes.
        check: raises `ConfigError` if a key cannot have a value.
    """

    table: Table
    values: Table
    adds: bool = False
    beside: tuple[Beside, ...] = ()
    check: Callable[[Table, bytes, Row], None] | None = None

    def edits(
        self, key: bytes, old: Sequence[Row], new: Sequence[bytes], *, removed: bool
    ) -> Iterator[Edit]:
        """Yields the changes of a key that had some rows in `table`, and gets other entries."""
        if not old and not new:
            return
        if self.values is not self.table:
            yield from self._numbered(key, old[0][0] if old else 0, new, removed=removed)
            return
        kept = old if self.adds and not removed else ()
        yield self.table.place, key, (*map(self.table.entry, kept), *new) or None
        if self.beside:
            columns, rows = self.table.columns(key), (*kept, *map(self.values.row, new))
            for index in self.beside:
                yield from index(columns, old, rows)

    def _numbered(
        self, key: bytes, count: int, new: Sequence[bytes], *, removed: bool
    ) -> Iterator[Edit]:
        """Yields the changes where `table` has the number of a key's rows, `values` the rows."""
        columns, kept = self.table.columns(key), 0 if removed else count
        total = kept + len(new)
        for index, entry in enumerate(new, kept):
            yield self.values.place, self.values.key((*columns, index)), (entry,)
        for index in range(total, count):
            yield self.values.edit((*columns, index))
        yield self.table.edit(columns, *([(total,)] if total else []))


def _counted(index: Table) -> Beside:
    return lambda key, _, new: iter([index.edit(key, *([(len(new),)] if new else []))])


def _by_time(index: Table) -> Beside:
    return lambda key, _, new: iter([index.edit(key, *[_DUMMY] * len(new))])


def _timers(index: Table) -> Beside:
    return lambda key, _, new: iter([index.edit(key[::-1], *[_DUMMY] * len(new))])


def _expiry(index: Table, least: Table | None) -> Beside:
    """Returns the changes of the order in which keys expire, a list with its first value."""

    def edits(key: Row, old: Sequence[Row], new: Sequence[Row]) -> Iterator[Edit]:
        before, after = (min((row[-1] for row in rows), default=None) for rows in (old, new))
        if before is not None:
            yield index.edit((before, key))
        if after is not None:
            yield index.edit((after, key), _DUMMY)
        if least:
            yield least.edit(key, *([] if after is None else [(after,)]))

    return edits


def _check_expiry(_table: Table, _key: bytes, row: Row) -> None:
    if row[-1] is None:
        raise ConfigError("column 'ttlExpirationMs': null, where the variable has a TTL")


def _check_session(table: Table, key: bytes, row: Row) -> None:
    """Checks that a session repeats its key, unless its columns have other names."""
    names, grouped = field_names(table.layout.value), field_names(table.layout.key)[:-1]
    named = dict(zip(names, row, strict=True))
    window = named.pop("session_window", None)
    if window and named.keys() >= {*grouped}:
        if table.key((*(named[name] for name in grouped), window[0])) != key:
            raise ConfigError("the value is of another key, or of another start of its window")


def rows_of(operator: Operator, tables: Mapping[str, Table]) -> dict[str, Rows]:
    """Returns what can be given for an operator, by name; it is empty if there is one table."""
    if operator.name == _JOIN:
        return {side: _side(side, tables) for side in ("left", "right")}
    if operator.name.startswith(_WITH_STATE):
        named = (name for name in tables if not name.startswith("$") or name.endswith(_TIMERS))
        return {name: _variable(name, tables) for name in named}
    (table,) = tables.values()
    return {"": Rows(table, table, check=_check_session if operator.name == _SESSIONS else None)}


def _side(side: str, tables: Mapping[str, Table]) -> Rows:
    if table := tables.get(f"{side}-keyWithTsToValues"):
        return Rows(table, table, True, (_by_time(tables[f"{side}-tsWithKey"]),))
    counts, values = (
        tables[f"{side}-{name}"] for name in ("keyToNumValues", "keyWithIndexToValue")
    )
    return Rows(counts, values, True)


def _variable(name: str, tables: Mapping[str, Table]) -> Rows:
    table, expiry = tables[name], tables.get(f"$ttl_{name}")
    if name.endswith(_TIMERS):
        ordered = tables[name.removesuffix(_TIMERS) + "Timers_timestampToKey"]
        return Rows(table, table, beside=(_timers(ordered),))
    beside = []
    if count := tables.get(f"$count_{name}" if expiry else f"$rowCounter_{name}"):
        beside.append(_counted(count))
    if expiry:
        beside.append(_expiry(expiry, tables.get(f"$min_{name}")))
    return Rows(table, table, beside=tuple(beside), check=_check_expiry if expiry else None)


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
                for row in map(rows.values.row, entries if rows.check else ()):
                    rows.check(rows.table, key, row)
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
