"""The rows of a version, one by one: the fold of its chain, with its column families."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain as chained
from typing import TYPE_CHECKING, Protocol

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Change
from statemaint.errors import in_file
from statemaint.fold.source import Source
from statemaint.fold.table import Row, SortedTable
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta

if TYPE_CHECKING:
    from statemaint.fold.rocksdb.write import Folded

_NUMBER, _NUMBERS = 2, range(-(1 << 15), 1 << 15)


@dataclass(frozen=True, slots=True)
class State:
    """The state at a version."""

    rows: Iterator[Row]  # as they are in the store, in the order of the keys' bytes
    families: Mapping[int, str]  # the names of column families by their numbers, if there are any
    delimiter: bytes = b""  # between merged operands

    @property
    def width(self) -> int:
        """Returns the bytes of the column family's number in front of each key."""
        return _NUMBER if self.families else 0

    @property
    def fronts(self) -> dict[bytes, str | None]:
        """Returns the name of each column family by its number, as keys begin with it."""
        if not self.families:
            return {b"": None}
        return {
            number.to_bytes(_NUMBER, "little", signed=True): name
            for number, name in self.families.items()
            if number in _NUMBERS  # no key begins with another
        }


@contextmanager
def opened_state(source: Source, store: Store, chain: Chain) -> Iterator[State]:
    """Opens the state that a chain folds to; its rows can be read until the block ends.

    Memory does not grow with the state: the rows of a large HDFS-backed store are sorted in the
    temporary directory (`fold.table`), a RocksDB store needs a copy of its database there.
    """
    if store.rocks is not None:
        with _rocks_fold(source, store, chain) as fold:
            yield _rocks_state(fold)
        return
    yield State(_folded(source, chain).rows(), {})


Watch = Callable[[int, Iterator[Change]], Iterator[Change]]
"""Yields the changes of a version, complete and unchanged."""


@contextmanager
def opened_pair(
    source: Source, store: Store, older: Chain, newer: Chain, watch: Watch
) -> Iterator[tuple[State, State]]:
    """Opens two states of one store as `opened_state` does.

    If one fold of an HDFS-backed store gives both, they share the bytes of their rows, and `watch`
    sees the changes of each version between the two.
    """
    if store.rocks is None and older.begins(newer):
        before = _folded(source, older)
        after = before.fork()
        _apply(after, source, store, newer.deltas[len(older.deltas) :], watch)
        yield State(before.rows(), {}), State(after.rows(), {})
        return
    with opened_state(source, store, older) as first, opened_state(source, store, newer) as second:
        yield first, second


def logged(source: Source, store: Store, delta: Delta) -> Iterator[Change]:
    """Yields the changes of a delta or changelog, in the order in which they were made."""
    if store.rocks is None:
        for key, value in source.records(delta.entry.path):
            yield int(DELETE if value is None else PUT), key, value
        return
    from statemaint.fold.rocksdb.changes import decoded  # noqa: PLC0415 -- RocksDB is large

    with in_file(delta.entry.path):
        _, changes = decoded(source, delta.entry.path)
        yield from changes


class Watcher(Protocol):
    """The observer of a fold: of the base's keys, then of the changes, as a `Watch`."""

    def begin(self, keys: Iterable[bytes], families: Mapping[int, str]) -> None: ...

    def watch(self, version: int, changes: Iterator[Change]) -> Iterator[Change]: ...


@contextmanager
def watched_state(source: Source, store: Store, chain: Chain, watcher: Watcher) -> Iterator[State]:
    """Opens a state as `opened_state` does, and informs a watcher; each file is read once."""
    begin = Chain(chain.start, chain.base, ())
    if store.rocks is not None:
        from statemaint.fold.rocksdb.changes import apply  # noqa: PLC0415

        with _rocks_fold(source, store, begin, chain.version) as fold:
            state = _rocks_state(fold)
            watcher.begin((key for key, _ in state.rows), state.families)
            apply(source, chain.deltas, fold.pending, watch=watcher.watch)
            yield _rocks_state(fold)
        return
    rows = _folded(source, begin)
    watcher.begin((key for key, _ in rows.fork().rows()), {})
    _apply(rows, source, store, chain.deltas, watcher.watch)
    yield State(rows.rows(), {})


def state_digest(source: Source, store: Store, chain: Chain) -> StateDigest:
    """Returns the digest of the state that a chain folds to, as an engine does, but more slowly.

    Memory does not grow with the state nor with its changes.
    """
    from statemaint.fold.compiled.rows import Sums  # noqa: PLC0415 -- only large states need it

    sums = Sums(source.key)
    with opened_state(source, store, chain) as state:
        sums.add_all(state.rows)
    return sums.digest()


def _folded(source: Source, chain: Chain) -> SortedTable:
    table = SortedTable()
    if chain.base:
        table.apply(source.rows(chain.base.entry.path))
    for delta in chain.deltas:
        table.apply(source.records(delta.entry.path))
    return table


def _apply(
    table: SortedTable, source: Source, store: Store, deltas: Iterable[Delta], watch: Watch
) -> None:
    for delta in deltas:
        changes = watch(delta.version, logged(source, store, delta))
        table.apply((key, value) for _, key, value in changes)


@contextmanager
def _rocks_fold(
    source: Source, store: Store, chain: Chain, families_at: int | None = None
) -> Iterator["Folded"]:
    """Opens the database of a chain, with the column families of a version at or above it."""
    from statemaint.fold.rocksdb.write import folded  # noqa: PLC0415 -- RocksDB is large

    like = store.families_at(chain.version if families_at is None else families_at)
    with folded(source, chain, None if like == chain.base else like) as fold:
        yield fold


def _rocks_state(fold: "Folded") -> State:
    numbers = {number: name for name, number in fold.families.families.items()}
    delimiter = fold.like.delimiter if fold.like else None
    return State(chained.from_iterable(fold.database.rows()), numbers, delimiter or b"")
