"""Compares the rows of state at two versions.

A key is

    added      if only the newer version has it
    removed    if only the older version has it
    changed    if both have it, with other bytes in its value
    rewritten  if both have it with the same bytes, and a delta or changelog between put it

Rows are compared as they are stored, one by one in the order of their keys, so the files between
the versions (deltas, snapshots or none) do not matter. Only `rewritten` needs the whole log between
them, and is unknown without it.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import unique
from itertools import chain

from statemaint.codec.rocksdb.changelog import MERGE, PUT, Change
from statemaint.errors import ConfigError
from statemaint.fold import Source
from statemaint.fold.state import State, logged, opened_pair
from statemaint.fold.table import Row, SortedTable
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.ids import StoreId, batch_of
from statemaint.state.ahead import StoreReading, need_of, opened_ahead
from statemaint.state.rows import Part, Readable, RowDecoder, no_family, parts_at, scan_stores
from statemaint.state.versions import committed_version
from statemaint.storage import Storage
from statemaint.wording import Displayed, Explained
from statemaint.workers import Workers

_PUTTING = (PUT, MERGE)


class Puts:
    """The keys that the log between two versions puts; `known` is whether all of it exists."""

    def __init__(self, source: Source, older: Part, newer: Part) -> None:
        self._source, self._store = source, newer.store
        self._left = set(range(older.chain.version + 1, newer.chain.version + 1))
        self.known = self._left <= newer.store.versions.deltas.keys()
        self._keys = SortedTable()

    def watch(self, version: int, changes: Iterator[Change]) -> Iterator[Change]:
        self._left.discard(version)
        for change in changes:
            if self.known and change[0] in _PUTTING:
                self._keys.put(change[1], b"")
            yield change

    def complete(self) -> None:
        """Reads the versions that were not watched."""
        for version in sorted(self._left) if self.known else ():
            delta = self._store.versions.deltas[version]
            deque(self.watch(version, logged(self._source, self._store, delta)), maxlen=0)

    def in_order(self) -> Callable[[bytes], bool]:
        keys = (key for key, _ in self._keys.rows())
        at = next(keys, None)

        def has(key: bytes) -> bool:
            nonlocal at
            while at is not None and at < key:
                at = next(keys, None)
            return at == key

        return has


Pair = tuple[bytes, bytes | None, bytes | None]
"""A key, its older value and its newer one; `None` if it is missing."""


@unique
class KeyChange(Explained):
    """The change of a key."""

    ADDED = "added", "only in the newer version"
    CHANGED = "changed", "in both, with other bytes"
    REMOVED = "removed", "only in the older version"
    REWRITTEN = "rewritten", "in both, with the same bytes, and in the log between them"


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of keys of each kind; `rewritten` is `None` if the log is missing."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    rewritten: int | None = 0

    def __add__(self, other: "Counts") -> "Counts":
        unknown = self.rewritten is None or other.rewritten is None
        return Counts(
            self.added + other.added,
            self.changed + other.changed,
            self.removed + other.removed,
            None if unknown else (self.rewritten or 0) + (other.rewritten or 0),
        )


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A key that was added, changed or removed, in readable form (`rows.StateRow`)."""

    store: StoreId
    family: str | None
    fate: KeyChange
    key: dict[str, object]
    before: Mapping[str, object] | Sequence[Mapping[str, object]] | None
    after: Mapping[str, object] | Sequence[Mapping[str, object]] | None


@dataclass(frozen=True, slots=True)
class StoreDiff:
    """The number of changes to a store, or to one of its column families."""

    store: StoreId
    family: str | None
    counts: Counts


@dataclass(frozen=True, slots=True, repr=False)
class StateDiff(Displayed):
    """The changes of state between two versions; no `rows` if `compare` handed them over."""

    older: int
    newer: int
    stores: tuple[StoreDiff, ...]
    rows: tuple[ChangedRow, ...]

    def _facts(self) -> Iterator[str]:
        total, sides = self.total, (self.older, self.newer)
        yield " to ".join(f"batch {batch_of(side)}" if side else "the start" for side in sides)
        yield f"{total.added:,} added"
        yield f"{total.changed:,} changed"
        yield f"{total.removed:,} removed"

    def _rows(self) -> Iterator[dict[str, object]]:
        for row in self.rows:
            values = {"change": row.fate, "key": row.key, "before": row.before, "after": row.after}
            yield {**row.store.columns, "family": row.family, **values}

    @property
    def total(self) -> Counts:
        return sum((diff.counts for diff in self.stores), Counts())


def pairs(older: Iterator[Row], newer: Iterator[Row]) -> Iterator[Pair]:
    """Yields every key of two states with both of its values; all are in the order of the keys."""
    old, new = next(older, None), next(newer, None)
    while old and new:
        if old[0] < new[0]:
            yield *old, None
            old = next(older, None)
        elif new[0] < old[0]:
            yield new[0], None, new[1]
            new = next(newer, None)
        else:
            yield *old, new[1]
            old, new = next(older, None), next(newer, None)
    yield from ((*row, None) for row in chain((old,), older) if row)
    yield from ((row[0], None, row[1]) for row in chain((new,), newer) if row)


def fate_of(pair: Pair, put: Callable[[bytes], bool]) -> KeyChange | None:
    """Returns the change of a key, if any; `put` returns whether the log between put it."""
    key, old, new = pair
    if old is None:
        return KeyChange.ADDED
    if new is None:
        return KeyChange.REMOVED
    if old != new:
        return KeyChange.CHANGED
    return KeyChange.REWRITTEN if put(key) else None


def diff_state(
    storage: Storage | str,
    versions: tuple[int | None, int | None] = (None, None),
    operator: int = 0,
    *,
    partition: int | None = None,
    store: str | None = None,
    family: str | None = None,
) -> "DiffSelection":
    """Returns the state of an operator at two versions, to be compared; writes nothing.

    Args:
        storage: where the checkpoint lives, or its address.
        versions: the older and the newer one; by default the newest committed version, and the one
            before the newer. Version 0 is the empty state.
        operator: the stateful operator.
        partition: all of them by default.
        store: the store's name, all of them by default.
        family: as in `read_state`.

    Raises:
        ConfigError: when the older version is above the newer; and as `read_state` raises it.
        DamagedError, UnsupportedError, StorageError: as `read_state` does.
    """
    reading, checkpoint = scan_stores(storage, operator, partition=partition, store=store)
    newer = committed_version(checkpoint, versions[1])
    older = max(newer - 1, 0) if versions[0] is None else versions[0]
    if older > newer:
        text = f"version {older} is above version {newer}; the older one comes first"
        raise ConfigError(f"{reading.root}: {text}")
    committed_version(checkpoint, older)
    if checkpoint.moved(older, newer):
        text = f"the state was repartitioned between versions {older} and {newer}"
        raise ConfigError(f"{reading.root}: {text}; compare two versions on the same side")
    sides = (parts_at(reading, checkpoint, version, family) for version in (older, newer))
    parts = tuple(pair for pair in zip(*sides, strict=True) if any(part.layouts for part in pair))
    if family is not None and not parts:
        raise no_family(reading, checkpoint, newer, family)
    return DiffSelection(reading, checkpoint, older, newer, parts)


@dataclass(frozen=True, slots=True)
class DiffSelection:
    """The part of a checkpoint's state to be compared."""

    storage: Storage
    checkpoint: Checkpoint
    older: int
    newer: int
    parts: tuple[tuple[Part, Part], ...]

    def compare(
        self,
        keep: Callable[[ChangedRow], bool] = lambda _: True,
        limit: int | None = None,
        *,
        into: Callable[[ChangedRow], None] | None = None,
        workers: Workers | int | None = None,
    ) -> StateDiff:
        """Counts all keys and returns rows, store by store, in the order of their keys' bytes.

        Apart from the rows that it returns, memory does not grow with the state: what does not fit
        is sorted in the temporary directory.

        Args:
            keep: returns whether a row is requested; counts are of all rows.
            limit: the maximum number of rows to return.
            into: receives each of these rows immediately; then none is held or returned.
            workers: as in `read_state`.

        Raises:
            CheckpointError: when a file of either version, or of the log between, is damaged.
        """
        rows: list[ChangedRow] = []
        kept = _Kept(keep, limit, into or rows.append)
        stores: list[StoreDiff] = []
        readings = (self._reading(older, newer, kept) for older, newer in self.parts)
        with closing(opened_ahead(self.storage, readings, workers=workers)) as opened:
            for compared in opened:
                stores += compared
        return StateDiff(self.older, self.newer, tuple(stores), tuple(rows))

    def _reading(
        self, older: Part, newer: Part, kept: "_Kept"
    ) -> StoreReading[Iterator[StoreDiff]]:
        @contextmanager
        def opened(storage: Storage) -> Iterator[Iterator[StoreDiff]]:
            source = Source.of(storage, newer.store, self.checkpoint)
            puts = Puts(source, older, newer)
            chains = older.chain, newer.chain
            with opened_pair(source, newer.store, *chains, watch=puts.watch) as states:
                puts.complete()
                yield _compared(source, (older, newer), states, puts, kept)

        need = need_of(newer.store, older.chain) + need_of(newer.store, newer.chain, tables=2)
        return StoreReading(opened, need)


@dataclass(slots=True)
class _Kept:
    keep: Callable[[ChangedRow], bool]
    left: int | None
    into: Callable[[ChangedRow], None]
    readable: Readable = field(default_factory=Readable)

    def take(self, fate: KeyChange, sides: tuple[RowDecoder, RowDecoder], pair: Pair) -> None:
        if self.left == 0:
            return
        key, *values = pair
        decoded = [
            None if value is None else side.row(key, value)
            for side, value in zip(sides, values, strict=True)
        ]
        before, after = (self.readable.row(row) if row else None for row in decoded)
        if (newest := after or before) is None:
            return
        old, new = before.value if before else None, after.value if after else None
        row = ChangedRow(newest.store, newest.family, fate, newest.key, old, new)
        if self.keep(row):
            self.into(row)
            self.left = None if self.left is None else self.left - 1


def _compared(
    source: Source, parts: tuple[Part, Part], states: tuple[State, State], puts: Puts, kept: _Kept
) -> Iterator[StoreDiff]:
    older, newer = parts
    counts: Counter[tuple[str | None, KeyChange]] = Counter()
    sides = RowDecoder(source, older, states[0]), RowDecoder(source, newer, states[1])
    has = puts.in_order()
    for pair in pairs(states[0].rows, states[1].rows):
        if not (fate := fate_of(pair, has)):
            continue
        if family := sides[fate is not KeyChange.REMOVED].family(pair[0]):
            counts[family.name, fate] += 1
            if fate is not KeyChange.REWRITTEN:
                kept.take(fate, sides, pair)
    for name in sorted({*older.layouts, *newer.layouts}, key=lambda name: name or ""):
        added, changed, removed, rewritten = (counts[name, fate] for fate in KeyChange)
        rewrites = rewritten if puts.known else None
        yield StoreDiff(newer.store.id, name, Counts(added, changed, removed, rewrites))
