"""One version of a store, open for reading or for the changes that make the next version."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum, unique

from statemaint.codec.hdfs.records import Record
from statemaint.errors import ConfigError

State = MutableMapping[bytes, bytes]
Row = tuple[bytes, bytes]
Commit = Callable[[int, State, list[Record]], None]
KeyPrefix = Callable[[bytes], bytes]
"""Returns the first columns of a key, as a row: the prefix of prefix scans."""

_WORD = 8
# The memory that a key and its value take in addition to their bytes.
_PER_KEY = 150


@dataclass(frozen=True, slots=True)
class StateStoreMetrics:
    """The size and memory use of a store. Mirrors Spark's `StateStoreMetrics`.

    `memory_used_bytes` are the key and value bytes of all maps that the provider holds; Spark
    estimates the memory of Java objects instead.
    """

    num_keys: int
    memory_used_bytes: int
    custom_metrics: Mapping[str, int] = field(default_factory=dict)


def size_of(state: Mapping[bytes, bytes]) -> int:
    return sum(len(key) + len(value) for key, value in state.items())


class Room:
    """The memory that a version may take, while it is loaded."""

    def __init__(self, place: str, version: int, most: int, state: Mapping[bytes, bytes]) -> None:
        self._place, self._version, self._most = place, version, most
        self._state, self._left = state, most - _held(state)

    def take(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yields records, which the caller applies to the state."""
        for record in records:
            key, value = record
            self._left -= len(key) + len(value or b"") + _PER_KEY
            yield record
            if self._left >= 0:
                continue
            # The state holds the record by now; it may have replaced another.
            if (held := _held(self._state)) > self._most:
                raise ConfigError(
                    f"{self._place}: version {self._version} takes more than {self._most} bytes of "
                    "memory; read it with `statemaint.state.read_state`, which does not hold it, "
                    "or raise `max_bytes_in_memory`"
                )
            self._left = max(self._most - held, self._most // 8)


def _held(state: Mapping[bytes, bytes]) -> int:
    return size_of(state) + _PER_KEY * len(state)


class HDFSBackedReadStateStore:
    """One version, for reading. Mirrors `HDFSBackedStateStoreProvider.HDFSBackedReadStateStore`."""

    _kind = "HDFSReadStateStore"

    def __init__(
        self, place: str, version: int, state: State, *, prefix: KeyPrefix | None = None
    ) -> None:
        self.version = version
        self._place, self._state, self._prefix = place, state, prefix

    def get(self, key: bytes) -> bytes | None:
        return self._state.get(key)

    def iterator(self) -> Iterator[Row]:
        """Yields every row, in no guaranteed order."""
        yield from self._state.items()

    def prefix_scan(self, prefix_key: bytes) -> Iterator[Row]:
        """Yields the rows whose keys begin with these columns, if the store has a prefix."""
        if self._prefix is None:
            raise ConfigError("Prefix scan is not supported!")
        for key, value in self.iterator():
            if self._prefix(key) == prefix_key:
                yield key, value

    def abort(self) -> None:
        """Does nothing."""

    def __str__(self) -> str:
        return f"{self._kind}[{self._place}]"


@unique
class StoreState(StrEnum):
    """The phase of a store's update."""

    UPDATING = "UPDATING"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


class Updating:
    """The phase of a store that is open for changes."""

    def __init__(self) -> None:
        self.state = StoreState.UPDATING

    @property
    def has_committed(self) -> bool:
        return self.state is StoreState.COMMITTED

    def must_update(self, verb: str) -> None:
        if self.state is not StoreState.UPDATING:
            raise ConfigError(f"Cannot {verb} after already committed or aborted")


def must_be_rows(*rows: bytes) -> None:
    if any(len(row) % _WORD for row in rows):
        sizes = " and ".join(str(len(row)) for row in rows)
        raise ConfigError(f"rows take whole words of {_WORD} bytes, not {sizes} bytes")


class HDFSBackedStateStore(HDFSBackedReadStateStore, Updating):
    """One version and the changes that make the next. Mirrors Spark's `HDFSBackedStateStore`.

    Changes are held in memory until `commit`; a crash before it leaves no trace. After commit or
    abort, `put`, `remove` and `commit` raise `ConfigError`.
    """

    _kind = "HDFSStateStore"

    def __init__(
        self,
        place: str,
        version: int,
        state: State,
        *,
        prefix: KeyPrefix | None,
        commit: Commit,
        metrics: Callable[[State], StateStoreMetrics],
    ) -> None:
        super().__init__(place, version, state, prefix=prefix)
        Updating.__init__(self)
        self._commit, self._metrics = commit, metrics
        self._changes: list[Record] = []

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of a key; both must be of the size of an `UnsafeRow`."""
        self.must_update("put")
        must_be_rows(key, value)
        self._state[key] = value
        self._changes.append((key, value))

    def iterator(self) -> Iterator[Row]:
        """Yields every current row, in no guaranteed order; rows may change meanwhile."""
        yield from tuple(self._state.items())

    def remove(self, key: bytes) -> None:
        """Removes a key; nothing is written for a missing key."""
        self.must_update("remove")
        if self._state.pop(key, None) is not None:
            self._changes.append((key, None))

    def commit(self) -> int:
        """Writes the delta of the next version in one step and returns that version.

        If the delta could not be written (`StorageError`), the store can be committed again.
        """
        self.must_update("commit")
        self._commit(self.version + 1, self._state, self._changes)
        self.state = StoreState.COMMITTED
        return self.version + 1

    def abort(self) -> None:
        """Drops the changes; nothing is written. Committed changes stay."""
        self.state = StoreState.ABORTED
        self._changes = []

    @property
    def metrics(self) -> StateStoreMetrics:
        return self._metrics(self._state)
