"""A store's settings, and what both providers share: its bytes, its memory, its phases."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import StrEnum, unique
from math import inf
from typing import Any, TypeVar

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS, named
from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity.checksum_file import ChecksummedChunks, spark
from statemaint.errors import (
    CheckpointError,
    CodecError,
    ConfigError,
    MissingSstError,
    NotFoundError,
    StaleChecksumError,
)
from statemaint.fold import Source
from statemaint.listing import Entry
from statemaint.model.ids import StoreId
from statemaint.records.pins import read_pins
from statemaint.storage import Storage

State = MutableMapping[bytes, bytes]
Row = tuple[bytes, bytes]


def _codec(value: str) -> str:
    compression = named(value)
    return compression.name if compression else value  # refused with the other names


def _ratio(value: str) -> float:
    if not 0 <= (ratio := float(value)) < inf:
        raise ValueError(value)
    return ratio


def _flag(value: str) -> bool:
    return {"true": True, "false": False}[value.strip().lower()]


_PARSERS: dict[type, Any] = {str: _codec, bool: _flag, int: int, float: _ratio}


def _setting(key: str, default: Any) -> Any:
    return field(default=default, metadata={"key": f"spark.sql.streaming.{key}"})


@dataclass(frozen=True, slots=True)
class StateStoreConf:
    """The settings of one store. Mirrors Spark's `StateStoreConf`.

    Attributes:
        compression_codec: the codec of every file, by Spark's short name.
        row_checksum_enabled: whether every record carries a checksum.
        file_checksum_enabled: whether to write Spark's checksum file beside every delta and
            snapshot. Off by default, as for this provider in Spark 4.2 and later; 4.1 writes them.
        min_deltas_for_snapshot: a snapshot is due when a chain has more deltas than this.
        min_versions_to_retain: the number of versions below the newest that stay recoverable.
        ratio_extra_space_allowed_in_checkpoint: RocksDB only: the number of older versions that may
            gather before maintenance deletes them, as a share of `min_versions_to_retain`.
        max_versions_to_delete_per_maintenance: RocksDB only: the most versions that one maintenance
            deletes; -1 for all.
        max_versions_to_retain_in_memory: the number of maps that the provider holds.
        auto_snapshot_repair_enabled: whether to load from older files if a snapshot is unreadable.
        auto_snapshot_repair_max_change_file_replay: the largest number of versions between such a
            base and the loaded version.
        max_bytes_in_memory: about the most bytes that a version may take in memory; a larger one
            is refused. Not a setting of Spark.
        checkpoint_format_version: RocksDB only: 2 gives each attempt at a version a unique id.
        changelog_checkpointing: RocksDB only: whether a commit writes a changelog, and snapshots
            are left to maintenance. Spark's own default is off.
        merge_operator_version: RocksDB only: what is between the values of a key; 1 is a comma, as
            in Spark before 4.2, and 2 nothing.
    """

    compression_codec: str = _setting("stateStore.compression.codec", "lz4")
    row_checksum_enabled: bool = _setting("stateStore.rowChecksum.enabled", False)
    file_checksum_enabled: bool = _setting("checkpoint.fileChecksum.enabled", False)
    min_deltas_for_snapshot: int = _setting("stateStore.minDeltasForSnapshot", 10)
    min_versions_to_retain: int = _setting("minBatchesToRetain", 100)
    ratio_extra_space_allowed_in_checkpoint: float = _setting(
        "ratioExtraSpaceAllowedInCheckpoint", 0.3
    )
    max_versions_to_delete_per_maintenance: int = _setting(
        "stateStore.maxVersionsToDeletePerMaintenance", -1
    )
    max_versions_to_retain_in_memory: int = _setting("maxBatchesToRetainInMemory", 2)
    auto_snapshot_repair_enabled: bool = _setting("stateStore.autoSnapshotRepair.enabled", True)
    auto_snapshot_repair_max_change_file_replay: int = _setting(
        "stateStore.autoSnapshotRepair.maxChangeFileReplay", 500
    )
    max_bytes_in_memory: int = 1024 * 1024 * 1024
    checkpoint_format_version: int = _setting("stateStore.checkpointFormatVersion", 1)
    changelog_checkpointing: bool = _setting(
        "stateStore.rocksdb.changelogCheckpointing.enabled", False
    )
    merge_operator_version: int = _setting("stateStore.rocksdb.mergeOperatorVersion", 2)

    def __post_init__(self) -> None:
        if self.compression_codec not in COMPRESSIONS:
            codecs = ", ".join(COMPRESSIONS)
            raise ConfigError(f"codec {self.compression_codec!r} is not one of {codecs}")
        for name in ("checkpoint_format_version", "merge_operator_version"):
            if (number := getattr(self, name)) not in (1, 2):
                raise ConfigError(f"{name} must be 1 or 2, not {number}")

    @property
    def min_versions_to_delete(self) -> int:
        extra = self.ratio_extra_space_allowed_in_checkpoint * self.min_versions_to_retain
        return int(extra + 0.5)  # as Java rounds

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> "StateStoreConf":
        """Returns the settings in a map of Spark's keys; others keep their defaults.

        The map may be a session's, or the one pinned in the offset log (`logs.parse_conf`).

        Raises:
            ConfigError: when a value is not valid for its setting.
        """
        given: dict[str, Any] = {}
        keys = {setting.metadata["key"]: setting for setting in fields(cls) if setting.metadata}
        for key, setting in keys.items():
            if key in conf:
                try:
                    given[setting.name] = _PARSERS[type(setting.default)](conf[key])
                except (KeyError, ValueError) as error:
                    raise ConfigError(f"{key} cannot be {conf[key]!r}") from error
        return cls(**given)


_log = logging.getLogger(__name__)
_State = TypeVar("_State")
_WORD = 8
# The memory that a key and its value take in addition to their bytes.
_PER_KEY = 150
_MISSING = (
    "Error reading streaming state file of {} does not exist. If the stream job is restarted with "
    "a new or updated state operation, please create a new checkpoint location or clear the "
    "existing checkpoint location."
)


class CannotLoadStateStoreError(CheckpointError):
    """A version of a store cannot be loaded; the text is Spark's, so that operators can find it."""

    code = "CANNOT_LOAD_STATE_STORE"

    def __str__(self) -> str:
        return self.detail


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


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The files of one store, as bytes; error texts name their `owner`."""

    storage: Storage
    store: StoreId
    conf: StateStoreConf
    owner: str

    @property
    def place(self) -> str:
        directory = f"{self.storage.root}/{self.store.directory}"
        return f"id=(op={self.store.operator},part={self.store.partition}),dir={directory}"

    def room(self, version: int, state: Mapping[bytes, bytes]) -> Room:
        return Room(self.owner, version, self.conf.max_bytes_in_memory, state)

    def source(self, path: str) -> Source:
        codec, checksums = COMPRESSIONS[self.conf.compression_codec], self.conf.row_checksum_enabled
        return Source(self.storage, codec, checksums, bytes(16)).beside(path)

    def payload(self, path: str) -> Iterator[bytes]:
        return (bytes(block.payload) for block in self.source(path).blocks(path))

    @contextmanager
    def readable(self, kind: str, path: str) -> Iterator[None]:
        place = f"{self.storage.root}/{path}"
        text = f"Error reading {kind} file {place} of {self.owner}: "
        try:
            yield
        except NotFoundError as error:
            missing = f"{text}{place} does not exist."
            text = _MISSING.format(place) if kind == "changelog" else missing
            raise CannotLoadStateStoreError(path, text) from error
        except (CodecError, MissingSstError, StaleChecksumError) as error:
            raise CannotLoadStateStoreError(path, f"{text}{error.detail}.") from error

    def write(self, path: str, payload: Iterable[bytes], like: str | None) -> Entry:
        """Makes a file appear complete; a crash leaves the old one without checksums, or it."""
        entry, crc32c = replace_file(self.storage, path, self.conf.compression_codec, payload, like)
        if self.conf.file_checksum_enabled:
            content = spark(crc32c, entry.size, self.storage.now())
            self.storage.write(f"{path}.crc", [content], overwrite=True, like=like)
        return entry

    def discard(self, path: str) -> None:
        _forget_checksums(self.storage, path)
        self.storage.delete(path)

    def pinned_versions(self) -> Iterator[int]:
        now = self.storage.now()
        return (pin.version for pin in read_pins(self.storage) if pin.holds(now))


def replace_file(
    storage: Storage, path: str, codec: str, payload: Iterable[bytes], like: str | None
) -> tuple[Entry, int]:
    """Writes a compressed file in one step; returns its entry and its CRC-32C."""
    _forget_checksums(storage, path)  # first: Spark refuses a file with an older file's checksum
    summed = ChecksummedChunks(encode(COMPRESSIONS[codec], payload))
    return storage.write(path, summed, overwrite=True, like=like), summed.crc32c


def _forget_checksums(storage: Storage, path: str) -> None:
    folder, _, name = path.rpartition("/")
    for side in (f"{name}.crc", f".{name}.crc.crc", f".{name}.crc"):
        storage.delete(f"{folder}/{side}")


def newest_readable(
    conf: StateStoreConf, version: int, bases: Sequence[int], load: Callable[[int], _State]
) -> tuple[int, _State]:
    """Returns the newest base of a version that loads, and its state. Mirrors `SnapshotLoader`.

    Below a broken base older ones are tried, if the settings allow it, as long as the number of
    deltas to replay stays within its limit.
    """
    try:
        return bases[0], load(bases[0])
    except CannotLoadStateStoreError as error:
        for base in bases[1:] if conf.auto_snapshot_repair_enabled else ():
            if version - base > conf.auto_snapshot_repair_max_change_file_replay:
                break
            try:
                state = load(base)
            except CannotLoadStateStoreError:
                continue
            _log.warning("%s; loaded version %d from %d instead", error, version, base)
            return base, state
        raise


@dataclass(frozen=True, slots=True)
class StateStoreMetrics:
    """The size and memory use of a store. Mirrors Spark's `StateStoreMetrics`.

    `memory_used_bytes` are the key and value bytes of all maps that the provider holds; Spark
    estimates the memory of Java objects instead.
    """

    num_keys: int
    memory_used_bytes: int
    custom_metrics: Mapping[str, int] = field(default_factory=dict)


@unique
class StoreState(StrEnum):
    """The phase of a store's update."""

    UPDATING = "UPDATING"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


class Updating:
    """The phase of a store that is open for changes, and its metrics."""

    def __init__(self, metrics: Callable[[], StateStoreMetrics]) -> None:
        self.state, self._metrics = StoreState.UPDATING, metrics

    @property
    def metrics(self) -> StateStoreMetrics:
        return self._metrics()

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
