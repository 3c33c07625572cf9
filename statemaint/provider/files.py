"""The files of one store as the provider sees them, and their bytes.

Spark's provider reads names slightly differently from `model.chain`, which serves planning: a
snapshot hides the delta of its version, and a name with two parts must begin with a number.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, TypeVar

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS, named
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity.checksum_file import ChecksummedChunks, spark
from statemaint.errors import (
    CheckpointError,
    CodecError,
    ConfigError,
    NotFoundError,
    StaleChecksumError,
)
from statemaint.execute.fence import Neighbours
from statemaint.fold import Source
from statemaint.listing import Entry
from statemaint.model.files import Delta, Snapshot, classify, disables_spark
from statemaint.records.pins import read_pins
from statemaint.storage import Storage


def _codec(value: str) -> str:
    compression = named(value)
    return compression.name if compression else value  # refused with the other names


def _ratio(value: str) -> float:
    if not 0 <= (ratio := float(value)) < inf:
        raise ValueError(value)
    return ratio


def _flag(value: str) -> bool:
    return {"true": True, "false": False}[value.strip().lower()]


def _setting(key: str, parse: Callable[[str], object], default: Any) -> Any:
    return field(default=default, metadata={f"spark.sql.streaming.{key}": parse})


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

    compression_codec: str = _setting("stateStore.compression.codec", _codec, "lz4")
    row_checksum_enabled: bool = _setting("stateStore.rowChecksum.enabled", _flag, default=False)
    file_checksum_enabled: bool = _setting("checkpoint.fileChecksum.enabled", _flag, default=False)
    min_deltas_for_snapshot: int = _setting("stateStore.minDeltasForSnapshot", int, 10)
    min_versions_to_retain: int = _setting("minBatchesToRetain", int, 100)
    ratio_extra_space_allowed_in_checkpoint: float = _setting(
        "ratioExtraSpaceAllowedInCheckpoint", _ratio, 0.3
    )
    max_versions_to_delete_per_maintenance: int = _setting(
        "stateStore.maxVersionsToDeletePerMaintenance", int, -1
    )
    max_versions_to_retain_in_memory: int = _setting("maxBatchesToRetainInMemory", int, 2)
    auto_snapshot_repair_enabled: bool = _setting(
        "stateStore.autoSnapshotRepair.enabled", _flag, default=True
    )
    auto_snapshot_repair_max_change_file_replay: int = _setting(
        "stateStore.autoSnapshotRepair.maxChangeFileReplay", int, 500
    )
    max_bytes_in_memory: int = 1024 * 1024 * 1024
    checkpoint_format_version: int = _setting("stateStore.checkpointFormatVersion", int, 1)
    changelog_checkpointing: bool = _setting(
        "stateStore.rocksdb.changelogCheckpointing.enabled", _flag, default=False
    )
    merge_operator_version: int = _setting("stateStore.rocksdb.mergeOperatorVersion", int, 2)

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
        for setting in fields(cls):
            for key, parse in setting.metadata.items():
                if key in conf:
                    given[setting.name] = _parsed(key, conf[key], parse)
        return cls(**given)


def _parsed(key: str, value: str, parse: Callable[[str], object]) -> object:
    try:
        return parse(value)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{key} cannot be {value!r}") from error


_log = logging.getLogger(__name__)
_State = TypeVar("_State")
_ROW_CHECKSUM = 4
_WORD = 8


class CannotLoadStateStoreError(CheckpointError):
    """A version of a store cannot be loaded; the text is Spark's, so that operators can find it."""

    code = "CANNOT_LOAD_STATE_STORE"

    def __str__(self) -> str:
        return self.detail


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A delta or a snapshot. Mirrors `HDFSBackedStateStoreProvider.StoreFile`."""

    version: int
    path: str
    is_snapshot: bool


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Reads and writes the files of one store."""

    storage: Storage
    directory: str
    conf: StateStoreConf
    owner: str
    neighbours: Neighbours

    def fetch(self) -> tuple[StoreFile, ...]:
        by_version: dict[int, StoreFile] = {}
        for entry in self.storage.list(self.directory):
            if entry.path != f"{self.directory}/{entry.name}":
                continue  # another store, or a schema
            match classify(entry):
                case Snapshot(version=version):
                    by_version[version] = StoreFile(version, entry.path, is_snapshot=True)
                case Delta(version=version):
                    by_version.setdefault(
                        version, StoreFile(version, entry.path, is_snapshot=False)
                    )
                case _ if disables_spark(entry):
                    stem = entry.name.partition(".")[0]
                    raise CheckpointError(entry.path, f'For input string: "{stem}"')
                case _:
                    continue
        return tuple(by_version[version] for version in sorted(by_version))

    def delta(self, version: int) -> Iterator[Record]:
        return self._read(version, "delta")

    def snapshot(self, version: int) -> Iterator[tuple[bytes, bytes]]:
        return records.snapshot_rows(self._read(version, "snapshot"))

    def _read(self, version: int, kind: str) -> Iterator[Record]:
        path, summed = f"{self.directory}/{version}.{kind}", self.conf.row_checksum_enabled
        compression = COMPRESSIONS[self.conf.compression_codec]
        source = Source(self.storage, compression, summed, bytes(16)).beside(path)
        payload = (bytes(block.payload) for block in source.blocks(path))
        try:
            decoded = records.decode(payload, row_checksums=summed, removals=kind == "delta")
            yield from map(self._bare, decoded)
        except NotFoundError as error:
            raise self._unreadable(
                kind, path, f"{self.storage.root}/{path} does not exist."
            ) from error
        except (CodecError, StaleChecksumError) as error:
            raise self._unreadable(kind, path, f"{error.detail}.") from error

    def _bare(self, record: Record) -> Record:
        key, value = record
        if value is None:
            return record
        row = value[_ROW_CHECKSUM:] if self.conf.row_checksum_enabled else value
        # Spark before 2.3 added four bytes to some values; all later versions drop them like this.
        return key, row[: len(row) // _WORD * _WORD]

    def _unreadable(self, kind: str, path: str, why: str) -> CannotLoadStateStoreError:
        place = f"{self.storage.root}/{path}"
        text = f"Error reading {kind} file {place} of {self.owner}: {why}"
        return CannotLoadStateStoreError(path, text)

    def write(self, version: int, kind: str, changes: Iterable[Record]) -> Entry:
        """Makes a file appear complete; a crash leaves the old one without checksums, or it."""
        payload = records.encode(changes, row_checksums=self.conf.row_checksum_enabled)
        path = f"{self.directory}/{version}.{kind}"
        return write_file(self.neighbours, self.conf, path, payload)

    def delete(self, files: Sequence[StoreFile]) -> None:
        for file in files:
            discard(self.storage, file.path)


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


def write_file(
    neighbours: Neighbours, conf: StateStoreConf, path: str, payload: Iterable[bytes]
) -> Entry:
    """Makes a file appear complete; a crash leaves the old one without checksums, or it."""
    storage = neighbours.storage
    forget_checksums(storage, path)  # first: Spark refuses a file with an older file's checksum
    summed = ChecksummedChunks(encode(COMPRESSIONS[conf.compression_codec], payload))
    like = neighbours.of(path)
    entry = storage.write(path, summed, overwrite=True, like=like)
    if conf.file_checksum_enabled:
        content = spark(summed.crc32c, entry.size, storage.now())
        storage.write(f"{path}.crc", [content], overwrite=True, like=like)
    neighbours.note(path)
    return entry


def pinned_versions(storage: Storage) -> Iterator[int]:
    now = storage.now()
    return (pin.version for pin in read_pins(storage) if pin.holds(now))


def discard(storage: Storage, path: str) -> None:
    forget_checksums(storage, path)
    storage.delete(path)


def forget_checksums(storage: Storage, path: str) -> None:
    folder, _, name = path.rpartition("/")
    for side in (f"{name}.crc", f".{name}.crc.crc", f".{name}.crc"):
        storage.delete(f"{folder}/{side}")
