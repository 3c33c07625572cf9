"""The settings of a query that a provider needs, by the names of Spark's settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from statemaint.codec.compression.registry import COMPRESSIONS, named
from statemaint.errors import ConfigError

_STREAMING = "spark.sql.streaming"


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
        max_versions_to_retain_in_memory: the number of maps that the provider holds.
        auto_snapshot_repair_enabled: whether to load from older files if a snapshot is unreadable.
        auto_snapshot_repair_max_change_file_replay: the largest number of versions between such a
            base and the loaded version.
        max_bytes_in_memory: about the most bytes that a version may take in memory; a larger one
            is refused. Not a setting of Spark.
    """

    compression_codec: str = "lz4"
    row_checksum_enabled: bool = False
    file_checksum_enabled: bool = False
    min_deltas_for_snapshot: int = 10
    min_versions_to_retain: int = 100
    max_versions_to_retain_in_memory: int = 2
    auto_snapshot_repair_enabled: bool = True
    auto_snapshot_repair_max_change_file_replay: int = 500
    max_bytes_in_memory: int = 1024 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.compression_codec not in COMPRESSIONS:
            codecs = ", ".join(COMPRESSIONS)
            raise ConfigError(f"codec {self.compression_codec!r} is not one of {codecs}")

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> "StateStoreConf":
        """Returns the settings in a map of Spark's keys; others keep their defaults.

        Args:
            conf: the map, such as a session's or the one pinned in the offset log
                (`logs.parse_conf`).

        Raises:
            ConfigError: when a value is not valid for its setting.
        """
        given: dict[str, Any] = {}
        for key, (name, parse) in _KEYS.items():
            if key in conf:
                given[name] = _parsed(key, conf[key], parse)
        return cls(**given)


def _parsed(key: str, value: str, parse: Callable[[str], object]) -> object:
    try:
        return parse(value)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{key} cannot be {value!r}") from error


def _codec(value: str) -> str:
    compression = named(value)
    return compression.name if compression else value  # refused with the other names


def _flag(value: str) -> bool:
    return {"true": True, "false": False}[value.strip().lower()]


_KEYS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    f"{_STREAMING}.stateStore.compression.codec": ("compression_codec", _codec),
    f"{_STREAMING}.stateStore.rowChecksum.enabled": ("row_checksum_enabled", _flag),
    f"{_STREAMING}.checkpoint.fileChecksum.enabled": ("file_checksum_enabled", _flag),
    f"{_STREAMING}.stateStore.minDeltasForSnapshot": ("min_deltas_for_snapshot", int),
    f"{_STREAMING}.minBatchesToRetain": ("min_versions_to_retain", int),
    f"{_STREAMING}.maxBatchesToRetainInMemory": ("max_versions_to_retain_in_memory", int),
    f"{_STREAMING}.stateStore.autoSnapshotRepair.enabled": ("auto_snapshot_repair_enabled", _flag),
    f"{_STREAMING}.stateStore.autoSnapshotRepair.maxChangeFileReplay": (
        "auto_snapshot_repair_max_change_file_replay",
        int,
    ),
}
