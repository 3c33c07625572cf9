"""From a caller's rows to the changes of an operator's stores, and of the indexes beside them.

    joins                 "left" and "right": a join key, with the event time in format 4, and one
                          of its rows. Counts, indexes and times follow. Or as they are stored:
                          "left-keyWithTsToValues": all rows of such a key, "left-keyWithIndex...":
                          rows that are there, by their index
    transformWithState    a variable's name: a key, and its value or a list's values; counts and
                          expiry orders follow. `$eventTimers_keyToTimestamp`, `$procTimers_...`:
                          timers, whose order follows
    all others            the stored columns of a key and of its value

`None` in place of a value removes a key with all that belongs to it. Mirrors
`SymmetricHashJoinStateManager`, `ListStateImpl`, `TTLState`, `TimerStateImpl`.

Spark before 4.0 does not record the kind of an operator. Its stores show a join, its columns show
session windows. All others have one store of keys and values, and differ only in whether -0.0 in a
key is stored as 0.0: aggregations do that, grouped state never, `dropDuplicates` since Spark 4.2 or
4.3 (SPARK-56280).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from statemaint.codec.rows.display import field_names
from statemaint.codec.rows.rocks_row import entry_of, key_codec
from statemaint.codec.rows.state_row import Bare, RowLayout, Wrapping, key_reader, value_reader
from statemaint.codec.rows.types import AtomicType, atoms
from statemaint.codec.rows.unsafe_read import Row
from statemaint.codec.rows.unsafe_write import RowWriter, Values
from statemaint.errors import CodecError, ConfigError, UnsupportedError
from statemaint.model.checkpoint import Operator
from statemaint.model.ids import DEFAULT_STORE
from statemaint.provider.tables import Given, pairs_of
from statemaint.scan.required import STORES_OF_A_JOIN
from statemaint.state.shuffle_key import JOIN, SESSIONS, WITH_STATE, ShuffleKey, shuffle_key
from statemaint.state.versions import Layouts, are_sessions

Place = tuple[str, str | None]
"""The name of a store, and of a column family in it."""
Edit = tuple[Place, bytes, tuple[bytes, ...] | None]
"""Where, a key, and the entries of its new value; `None` removes the key."""

_NORMALIZED = ("stateStoreSave", SESSIONS, JOIN)
_DEDUPES = ("dedupe", "dedupeWithinWatermark")
KINDS = (*_NORMALIZED, *_DEDUPES, "flatMapGroupsWithState", "applyInPandasWithState", WITH_STATE)
_UNRECORDED = ""  # the kind of an operator without metadata, if it has one store
_VARYING = (*_DEDUPES, _UNRECORDED)
_VOID, _FLOATS = AtomicType("void"), ("float", "double")
_TIMERS = "Timers_keyToTimestamp"
_STORED = "-keyWithIndexToValue", "-keyWithTsToValues"
_DUMMY = (None,)


class StateTable:
    """The rows of a store, or of one of its column families."""

    def __init__(self, place: Place, layout: RowLayout, key: ShuffleKey, operator: str) -> None:
        self.place, self.layout, self.shuffle = place, layout, key
        self.name = place[1] or place[0]
        self._keys = RowWriter(layout.key, normalize=operator in _NORMALIZED)
        varies = operator in _VARYING and any(atom.name in _FLOATS for atom in atoms(layout.key))
        self._normalized = RowWriter(layout.key, normalize=True) if varies else None
        self._values = RowWriter(layout.value)
        self._codec = None if layout.encoder == Bare() else key_codec(layout.key, layout.encoder)
        self.columns, self._rows = key_reader(layout, Wrapping()), value_reader(layout, Wrapping())

    def key(self, columns: Values) -> bytes:
        row = self._keys.write(columns)
        if self._normalized and self._normalized.write(columns) != row:
            text = "-0.0, or a NaN of its own, in a key: operators and Sparks store it differently"
            raise ConfigError(f"{text}, and nothing shows how this one does; leave the row out")
        return self._codec.encode(row) if self._codec else row

    def entry(self, columns: Values) -> bytes:
        row = self._values.write(columns)
        return entry_of(row, many=self.layout.many) if self._codec else row

    def row(self, entry: bytes) -> Row:
        return self._rows(b"", entry)[0]

    def edit(self, columns: Values, *values: Values) -> Edit:
        return self.place, self.key(columns), tuple(map(self.entry, values)) or None


def undeclared(number: int, layouts: Mapping[str, Layouts], partitions: int) -> Operator:
    """Returns an operator without metadata, as its stores and their layouts describe it."""
    layout = layouts.get(DEFAULT_STORE, {}).get(None)
    if {*layouts} == STORES_OF_A_JOIN:
        kind = JOIN
    else:
        kind = SESSIONS if layout and are_sessions(layout.key, layout.value) else _UNRECORDED
    return Operator(number, kind, tuple(layouts), partitions)


def _named(operator: Operator) -> str:
    return f"operator {operator.id} ({operator.name or ', '.join(operator.stores)})"


def _tables(root: str, operator: Operator, layouts: Mapping[str, Layouts]) -> dict[str, StateTable]:
    """Returns the tables of an operator by name, from the layouts of each of its stores."""
    what, tables, recorded = _named(operator), {}, operator.name != _UNRECORDED
    if not operator.name.startswith(KINDS) and (recorded or [*layouts] != [DEFAULT_STORE]):
        raise UnsupportedError(root, what, ", ".join(KINDS))
    for store, families in layouts.items():
        for family, layout in families.items():
            key = shuffle_key(operator if recorded else None, family or store, layout, 0)
            if key is None or all(field.type == _VOID for field in layout.key.fields):
                raise UnsupportedError(root, f"{what}: state without a key", "grouped state")
            try:
                tables[family or store] = StateTable((store, family), layout, key, operator.name)
            except (ValueError, CodecError) as error:
                raise UnsupportedError(root, f"{what}, {error},", "other types") from error
    return tables


# -- the changes of a key

Beside = Callable[[Row, Sequence[Row], Sequence[Row]], Iterable[Edit]]
"""Returns the changes of an index, from a key and all of its rows before and after."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that a caller gives under one name, and the changes that they make.

    Attributes:
        table: of the keys.
        values: of the values; another one only for joins that number their rows.
        adds: whether the values of a key are added to those that are there.
        corrects: whether a key must be there, and get another value.
        beside: the indexes.
        check: raises `ConfigError` if a key cannot have a value.
    """

    table: StateTable
    values: StateTable
    adds: bool = False
    beside: tuple[Beside, ...] = ()
    check: Callable[[StateTable, bytes, Row], None] | None = None
    corrects: bool = False

    def edits(
        self, key: bytes, old: Sequence[Row], new: Sequence[bytes], *, removed: bool
    ) -> Iterator[Edit]:
        """Yields the changes of a key that had some rows in `table`, and gets other entries."""
        if self.corrects and not (old and new):
            why = "has no row here to correct" if new else "cannot be removed by itself"
            side, key_columns = self.table.name.partition("-")[0], self.table.columns(key)
            text = f"{self.table.name}: {key_columns} {why}; {side} adds rows, and removes a key's"
            raise ConfigError(text)
        if not old and not new:
            return
        if self.values is not self.table:
            yield from self._numbered(key, old[0][0] if old else 0, new, removed=removed)
            return
        kept = old if self.adds and not removed else ()
        yield self.table.place, key, (*map(self.table.entry, kept), *new) or None
        for index in self.beside:
            rows = (*kept, *map(self.values.row, new))
            yield from index(self.table.columns(key), old, rows)

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


def _expiry(index: StateTable, least: StateTable | None) -> Beside:
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


def _check_expiry(_table: StateTable, _key: bytes, row: Row) -> None:
    if row[-1] is None:
        raise ConfigError("column 'ttlExpirationMs': null, where the variable has a TTL")


def _check_session(table: StateTable, key: bytes, row: Row) -> None:
    """Checks that a session repeats its key, unless its columns have other names."""
    names, grouped = field_names(table.layout.value), field_names(table.layout.key)[:-1]
    named = dict(zip(names, row, strict=True))
    window = named.pop("session_window", None)
    if not window or not named.keys() >= {*grouped}:
        return
    if table.key((*(named[name] for name in grouped), window[0])) != key:
        raise ConfigError("the value is of another key, or of another start of its window")


def _rows_of(operator: Operator, tables: Mapping[str, StateTable]) -> dict[str, Rows]:
    """Returns what can be given for an operator, by name; it is empty if there is one table."""
    if operator.name == JOIN:
        sides = [_side(side, tables) for side in ("left", "right")]
        stored = {side.values.name: _as_stored(side) for side in sides}
        return dict(zip(("left", "right"), sides, strict=True)) | stored
    if operator.name.startswith(WITH_STATE):
        named = (name for name in tables if given_as(operator, name))
        return {name: _variable(name, tables) for name in named}
    (table,) = tables.values()
    return {"": Rows(table, table, check=_check_session if operator.name == SESSIONS else None)}


def given_as(operator: Operator, name: str) -> str | None:
    """Returns the name to give the rows of a store or family by, as they are stored.

    It is empty where there is no choice, and `None` for rows that follow from others.
    """
    if operator.name == JOIN:
        return name if name.endswith(_STORED) else None
    if operator.name.startswith(WITH_STATE):
        return name if not name.startswith("$") or name.endswith(_TIMERS) else None
    return "" if operator.name.startswith(KINDS) else None


def _as_stored(side: Rows) -> Rows:
    """Returns the rows of a side of a join as they are stored: all of a key, or by their index."""
    if side.values is side.table:
        return replace(side, adds=False)
    return Rows(side.values, side.values, corrects=True)


def _side(side: str, tables: Mapping[str, StateTable]) -> Rows:
    if table := tables.get(f"{side}-keyWithTsToValues"):
        times = tables[f"{side}-tsWithKey"]
        index: Beside = lambda key, _, new: [times.edit(key, *[_DUMMY] * len(new))]  # noqa: E731
        return Rows(table, table, True, (index,))
    return Rows(tables[f"{side}-keyToNumValues"], tables[f"{side}-keyWithIndexToValue"], True)


def _variable(name: str, tables: Mapping[str, StateTable]) -> Rows:
    table, expiry, beside = tables[name], tables.get(f"$ttl_{name}"), list[Beside]()
    if name.endswith(_TIMERS):
        times = tables[name.replace(_TIMERS, "Timers_timestampToKey")]
        beside.append(lambda key, _, new: [times.edit(key[::-1], *[_DUMMY] * len(new))])
    if count := tables.get(f"$count_{name}" if expiry else f"$rowCounter_{name}"):
        beside.append(lambda key, _, new: [count.edit(key, *([(len(new),)] if new else []))])
    if expiry:
        beside.append(_expiry(expiry, tables.get(f"$min_{name}")))
    return Rows(table, table, False, tuple(beside), _check_expiry if expiry else None)


# -- all rows of a call


@dataclass(slots=True)
class _Asked:
    """The rows given for a key: entries, after a removal of the old ones or beside them."""

    rows: Rows
    removed: bool = False
    entries: list[bytes] = field(default_factory=list)
    old: tuple[Row, ...] = ()


class Edits:
    """The changes of an operator's state that some rows ask for, by partition."""

    def __init__(
        self, root: str, operator: Operator, layouts: Mapping[str, Layouts], partitions: int
    ) -> None:
        self._what, self._partitions = _named(operator), partitions
        tables = _tables(root, operator, layouts)
        try:
            self._rows = _rows_of(operator, tables)
        except (KeyError, ValueError) as error:
            what = f"{self._what} with {', '.join(tables)}"
            raise UnsupportedError(root, what, "the stores of Spark 4") from error
        self.tables = {table.place: table for table in tables.values()}
        self._asked: dict[int, dict[tuple[Place, bytes], _Asked]] = defaultdict(dict)
        self.counts: Counter[int] = Counter()

    def take(self, given: Given | Mapping[str, Given]) -> None:
        """Takes rows, by name if there are several; a `ConfigError` says which does not fit."""
        if "" in self._rows:
            if isinstance(given, Mapping):
                names = ", ".join(map(str, islice(given, 3)))
                raise ConfigError(f"{self._what} takes rows without a name: not {names}")
            self._add(self._rows[""], given, "")
            return
        names = ", ".join(sorted(self._rows))
        if not isinstance(given, Mapping):
            raise ConfigError(f"{self._what} takes rows by name, such as {{name: rows}}: {names}")
        for name, some in given.items():
            if name not in self._rows:
                raise ConfigError(f"{self._what} has no {name}; there are {names}")
            other = next((each for each in given if each.startswith(f"{name}-")), None)
            if other and self._rows[name].adds:
                raise ConfigError(f"{self._what} takes {name} or {other}, not both")
            self._add(self._rows[name], some, f"{name}: ")

    def _add(self, rows: Rows, given: Given, label: str) -> None:
        key_type, value_type = rows.table.layout.key, rows.values.layout.value
        many = rows.values.layout.many and not rows.adds
        for number, pair in enumerate(pairs_of(given, key_type, value_type, many=many)):
            try:
                columns, value = pair
                key = rows.table.key(columns)
                values = [] if value is None else value if many else [value]
                entries = [*map(rows.values.entry, values)]
                if check := rows.check:
                    [check(rows.table, key, rows.values.row(entry)) for entry in entries]
            except (ConfigError, TypeError, ValueError) as error:
                raise ConfigError(f"{label}row {number}: {error}") from error
            partition = rows.table.shuffle.partition(key, self._partitions)
            self.counts[partition] += 1
            asked = self._asked[partition].setdefault((rows.table.place, key), _Asked(rows))
            if value is None or not rows.adds:
                asked.removed, asked.entries = True, []
            asked.entries += entries

    def see(self, place: Place, key: bytes, old: Callable[[], tuple[Row, ...]]) -> int:
        """Takes a row of the state, and returns its partition; only given keys' rows are read."""
        partition = self.tables[place].shuffle.partition(key, self._partitions)
        if asked := self._asked[partition].get((place, key)):
            asked.old = old()
        return partition

    def of(self, partition: int) -> Iterator[Edit]:
        """Yields a partition's changes, once its rows are seen."""
        for (_, key), asked in self._asked[partition].items():
            yield from asked.rows.edits(key, asked.old, asked.entries, removed=asked.removed)
