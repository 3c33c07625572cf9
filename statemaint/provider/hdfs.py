"""Spark's HDFS-backed provider of one store, for work on state while its query is stopped."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.rows.types import Json, must_be_writable, parse_struct
from statemaint.codec.rows.unsafe_write import prefix_of
from statemaint.errors import CheckpointError, ConfigError, StatemaintError
from statemaint.execute.fence import Neighbours
from statemaint.model.files import Delta, Snapshot, classify, disables_spark
from statemaint.model.ids import StoreId
from statemaint.provider.files import (
    Room,
    Row,
    State,
    StateStoreConf,
    StateStoreMetrics,
    StoreFiles,
    StoreState,
    Updating,
    must_be_rows,
    newest_readable,
    size_of,
)
from statemaint.storage import Storage

Commit = Callable[[int, State, list[Record]], None]
KeyPrefix = Callable[[bytes], bytes]
"""Returns the first columns of a key, as a row: the prefix of prefix scans."""

_HIT, _MISS = "loadedMapCacheHitCount", "loadedMapCacheMissCount"
_REPAIRED = "numSnapshotsAutoRepaired"
_SIZE = "stateOnCurrentVersionSizeBytes"
_FORCED = "forceSnapshotCount"
_ROW_CHECKSUM, _WORD = 4, 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A delta or a snapshot. Mirrors `HDFSBackedStateStoreProvider.StoreFile`."""

    version: int
    path: str
    is_snapshot: bool


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
        metrics: Callable[[], StateStoreMetrics],
    ) -> None:
        super().__init__(place, version, state, prefix=prefix)
        Updating.__init__(self, metrics)
        self._commit = commit
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


class HDFSBackedStateStoreProvider:
    """The versions of one store, read and written byte for byte as Spark does.

    For offline work: bootstrap, surgery, tests. The provider does not read the commit log, takes no
    lease and keeps no ledger; `cleanup` counts from the highest file name, as Spark's does. Use
    `maintain` for the checkpoints of live queries. One thread at a time. Mirrors
    `HDFSBackedStateStoreProvider` of Spark 4.3; each error text is from the Spark version with the
    shortest one.
    """

    def __init__(
        self,
        store_id: StoreId,
        storage: Storage,
        conf: StateStoreConf | None = None,
        *,
        key_schema: Json | None = None,
        num_cols_prefix_key: int = 0,
    ) -> None:
        """Binds a store of a checkpoint, with the settings of its query; nothing is read yet.

        Prefix scans are by the first `num_cols_prefix_key` columns of keys, whose schema is
        `key_schema`, Spark's JSON.

        Raises:
            ConfigError: when there is a prefix but no key schema.
            CodecError: when keys of this schema cannot be split into columns.
        """
        self.store_id, self.conf = store_id, conf or StateStoreConf()
        self._dir = f"{storage.root}/{store_id.directory}"
        self._files = StoreFiles(storage, store_id, self.conf, str(self))
        self._prefix: KeyPrefix | None = None
        if num_cols_prefix_key:
            if key_schema is None:
                raise ConfigError("a prefix needs the schema of the key")
            key = must_be_writable(parse_struct(key_schema))
            self._prefix = partial(prefix_of, kind=key, columns=num_cols_prefix_key)
        self._loaded: dict[int, State] = {}
        self._counts: Counter[str] = Counter({_HIT: 0, _MISS: 0, _REPAIRED: 0})

    def __str__(self) -> str:
        name = f"(op={self.store_id.operator},part={self.store_id.partition})"
        return f"HDFSStateStoreProvider[id = {name},dir = {self._dir}]"

    # -- versions

    def get_store(
        self, version: int, *, force_snapshot_on_commit: bool = False
    ) -> HDFSBackedStateStore:
        """Returns a version, open for the changes that make the next one; 0 is the empty state.

        With `force_snapshot_on_commit` the next version gets a snapshot beside its delta.

        Raises:
            ConfigError: when the version is below 0, or larger than `max_bytes_in_memory`.
            CannotLoadStateStoreError: when one of its files is missing or broken.
        """
        state = self._copy(version)
        return HDFSBackedStateStore(
            self._files.place,
            version,
            state,
            prefix=self._prefix,
            commit=partial(self._commit, snapshot=force_snapshot_on_commit),
            metrics=partial(self._metrics, state, forced=force_snapshot_on_commit),
        )

    def get_read_store(self, version: int) -> HDFSBackedReadStateStore:
        """Returns a version for reading; raises as `get_store` does."""
        state = self._copy(version)
        return HDFSBackedReadStateStore(self._files.place, version, state, prefix=self._prefix)

    def _copy(self, version: int) -> State:
        if version < 0:
            raise ConfigError(f"Version cannot be less than 0: {version}")
        self._counts[_REPAIRED] = 0
        return dict(self._load(version)) if version else {}

    def _commit(
        self, version: int, state: State, changes: Iterable[Record], *, snapshot: bool
    ) -> None:
        self._loaded = {known: held for known, held in self._loaded.items() if known < version}
        self._write(version, "delta", changes)
        if snapshot:
            self._write(version, "snapshot", state.items())
        else:  # one of an earlier attempt would hide the delta
            self._files.discard(f"{self.store_id.directory}/{version}.snapshot")
        # A copy: the cache must not share the map of a store that has committed.
        self._cache(version, dict(state))

    def _write(self, version: int, kind: str, changes: Iterable[Record]) -> str:
        path = f"{self.store_id.directory}/{version}.{kind}"
        payload = records.encode(changes, row_checksums=self.conf.row_checksum_enabled)
        self._files.write(path, payload, Neighbours(self._files.storage).of(path))
        return path

    # -- loading

    @property
    def loaded_maps(self) -> dict[int, State]:
        """Returns the versions held in memory, newest first. Do not change them."""
        return {version: self._loaded[version] for version in sorted(self._loaded, reverse=True)}

    def _load(self, version: int) -> State:
        if version in self._loaded:
            self._counts[_HIT] += 1
            return self._loaded[version]
        self._counts[_MISS] += 1
        snapshots = {file.version for file in self.fetch_files() if file.is_snapshot}
        versions = {*snapshots, *self._loaded, 0}
        bases = sorted((base for base in versions if base <= version), reverse=True)
        base, rows = newest_readable(self.conf, version, bases, self._base)
        self._counts[_REPAIRED] = int(base != bases[0])
        state = dict(rows)
        room = self._files.room(version, state)
        for number in range(base + 1, version + 1):
            self._apply(state, room, number, "delta")
        self._cache(version, state)
        return state

    def _base(self, version: int) -> State:
        if version == 0:
            return {}
        if version in self._loaded:
            return self._loaded[version]
        state: dict[bytes, bytes] = {}
        self._apply(state, self._files.room(version, state), version, "snapshot")
        return state

    def _apply(self, state: dict[bytes, bytes], room: Room, version: int, kind: str) -> None:
        path, summed = f"{self.store_id.directory}/{version}.{kind}", self.conf.row_checksum_enabled
        payload = self._files.payload(path)
        with self._files.readable(kind, path):
            changes = records.decode(payload, row_checksums=summed, removals=kind == "delta")
            records.apply(state, room.take(map(self._bare, changes)))

    def _bare(self, record: Record) -> Record:
        key, value = record
        if value is None:
            return record
        row = value[_ROW_CHECKSUM:] if self.conf.row_checksum_enabled else value
        # Spark before 2.3 added four bytes to some values; all later versions drop them like this.
        return key, row[: len(row) // _WORD * _WORD]

    def _cache(self, version: int, state: State) -> None:
        most = self.conf.max_versions_to_retain_in_memory
        self._loaded[version] = state
        for old in sorted(self._loaded)[: max(0, len(self._loaded) - max(most, 0))]:
            del self._loaded[old]

    # -- maintenance

    def do_maintenance(self) -> None:
        """Writes a snapshot if one is due, then deletes old files; never raises."""
        self.do_snapshot()
        self.cleanup()

    @contextmanager
    def _logged_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except StatemaintError as error:
            _log.warning("Error %s for %s: %s", doing, self, error)

    def do_snapshot(self) -> None:
        """Writes the newest version's snapshot if it is in memory and its chain is too long.

        Never raises, like Spark's method: errors are logged.
        """
        with self._logged_errors("doing snapshots"):
            files = self.fetch_files()
            if not files or (state := self._loaded.get(files[-1].version)) is None:
                return
            last = files[-1].version
            deltas = [file for file in self.files_for_version(files, last) if not file.is_snapshot]
            if len(deltas) > self.conf.min_deltas_for_snapshot:
                path = self._write(last, "snapshot", state.items())
                _log.info("Written snapshot file for version %d of %s at %s", last, self, path)

    def cleanup(self) -> None:
        """Deletes the files that no version within `min_versions_to_retain` of the newest needs.

        Unlike with Spark's method, what pinned versions need stays as well (S3). Never raises, like
        that method: errors are logged.
        """
        with self._logged_errors("cleaning up files"):
            files = self.fetch_files()
            newest = files[-1].version if files else 0
            pinned = self._files.pinned_versions()
            earliest = min([newest - self.conf.min_versions_to_retain, *pinned])
            if earliest <= 0:
                return
            first = self.files_for_version(files, earliest)[0].version
            old = [file for file in files if file.version < first]
            for file in old:
                self._files.discard(file.path)
            names = ", ".join(file.path for file in old)
            _log.info("Deleted files older than %d for %s: %s", first, self, names)

    def fetch_files(self) -> tuple[StoreFile, ...]:
        """Returns the file of each version, ascending; a snapshot hides the delta of its version.

        Names are read slightly differently than by `model.chain`, which serves planning. One with
        two parts and no number is a `CheckpointError`: it also stops Spark.
        """
        directory, by_version = self.store_id.directory, dict[int, StoreFile]()
        for entry in self._files.storage.list(directory):
            if entry.path != f"{directory}/{entry.name}":
                continue  # another store, or a schema
            match classify(entry):
                case Snapshot(version=version):
                    by_version[version] = StoreFile(version, entry.path, is_snapshot=True)
                case Delta(version=version):
                    delta = StoreFile(version, entry.path, is_snapshot=False)
                    by_version.setdefault(version, delta)
                case _ if disables_spark(entry):
                    stem = entry.name.partition(".")[0]
                    raise CheckpointError(entry.path, f'For input string: "{stem}"')
                case _:
                    continue
        return tuple(by_version[version] for version in sorted(by_version))

    def files_for_version(self, files: Sequence[StoreFile], version: int) -> tuple[StoreFile, ...]:
        """Returns the files that rebuild a version, in the order in which they apply.

        It is a `ConfigError` if the version has no file, and a `CheckpointError` if a version since
        the snapshot has no delta.
        """
        if all(file.version != version for file in files):
            raise ConfigError(f"requirement failed: no file of version {version}")
        below = [file for file in files if file.version <= version]
        start = max((at for at, file in enumerate(below) if file.is_snapshot), default=0)
        chain = below[start:]
        if chain[0].is_snapshot and len(chain) - 1 != version - chain[0].version:
            names = ", ".join(file.path for file in chain[1:])
            text = f"Unexpected list of delta files for version {version} for {self}: {names}"
            raise CheckpointError(self.store_id.directory, text)
        return tuple(chain)

    def close(self) -> None:
        self._loaded.clear()

    # -- metrics

    @property
    def supported_custom_metrics(self) -> tuple[str, ...]:
        return (_SIZE, _HIT, _MISS, _REPAIRED, _FORCED)

    @property
    def metrics(self) -> dict[str, int]:
        return {"memoryUsedBytes": sum(map(size_of, self._loaded.values())), **self._counts}

    def _metrics(self, state: State, *, forced: bool) -> StateStoreMetrics:
        custom = {**self._counts, _SIZE: size_of(state), _FORCED: int(forced)}
        return StateStoreMetrics(len(state), self.metrics["memoryUsedBytes"], custom)
