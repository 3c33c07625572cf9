"""What a shape asks of Spark, and the settings by which a savepoint tells it.

Spark takes these settings from the newest entry of the offset log, whatever a session has. An entry
has all of them that the Spark that wrote it knows: one that it lacks is not changed. Unique ids
have no setting there; the entry of the commit log has them, with Spark 4.0 and later.
"""

from collections.abc import Mapping

from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.errors import ConfigError, UnsupportedError
from statemaint.model.checkpoint import MAINTAINED, Provider
from statemaint.records.savepoints import Shape
from statemaint.scan.partitions import SETTING
from statemaint.scan.query_logs import COMPRESSION, PROVIDER_CLASS, ROW_CHECKSUMS

# Sparks before 3.5.5 do not have it. The RocksDB of Spark 3.3 is too old for the files that ours
# writes, and the log does not tell that Spark from those up to 3.5.4.
_SINCE_3_5 = "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"
_CLASSES = "org.apache.spark.sql.execution.streaming.state"
_MOST = 100_000


def check_chosen(shape: Shape) -> None:
    """Checks each choice by itself; raises `ConfigError` when it is none of Spark's."""
    if shape.partitions is not None and not 1 <= shape.partitions <= _MOST:
        raise ConfigError(f"{shape.partitions} partitions are not from 1 to {_MOST:,}")
    if shape.provider not in (None, *MAINTAINED):
        raise ConfigError(f"provider {shape.provider} is not one of {' and '.join(MAINTAINED)}")
    if shape.codec not in (None, *COMPRESSIONS):
        codecs = ", ".join(COMPRESSIONS)
        raise ConfigError(f"codec {str(shape.codec)[:80]!r} is not one of {codecs}")


def check_changes(before: Shape, after: Shape, root: str, *, stateful: bool) -> None:
    """Raises `ConfigError` when a savepoint in another shape would be one in the same."""
    if not stateful:
        raise ConfigError(f"{root}: the query has no state, which is all that can have a shape")
    if after == before:
        shape = ", ".join(f"{name} {value}" for name, value in before.chosen.items())
        what = f"the checkpoint has this shape already ({shape})"
        raise ConfigError(f"{root}: {what}; choose another, or none for a savepoint as it is")


def settings_of(before: Shape, after: Shape, conf: Mapping[str, str], root: str) -> dict[str, str]:
    """Returns the settings that a savepoint pins other than its source does, by whole shapes.

    `conf` is what the newest entry of the offset log pins: the Spark that wrote it may lack one.
    """
    if after.ids == "v2" and after.provider is Provider.HDFS_BACKED:
        what = f"{Provider.HDFS_BACKED} with unique ids (v2)"
        raise UnsupportedError(root, what, "v1")
    was = _pinned(before)
    changed = {name: value for name, value in _pinned(after).items() if value != was[name]}
    needed = {name: f"another {name}" for name in changed}
    if after != before and "v2" in (before.ids, after.ids):
        needed[ROW_CHECKSUMS] = "another shape with or without unique ids (v2)"  # 4.2, see docs
    if after != before and after.provider is Provider.ROCKSDB:
        needed[_SINCE_3_5] = "another shape in RocksDB"
    for name, choice in needed.items():
        if name not in conf:
            what = f"{choice}, after a batch of a Spark that is too old for it,"
            raise UnsupportedError(root, what, f"an offset log with {name}")
    return changed


def _pinned(shape: Shape) -> Mapping[str, str]:
    return {
        SETTING: str(shape.partitions),
        PROVIDER_CLASS: f"{_CLASSES}.{shape.provider}",
        COMPRESSION: str(shape.codec),
        ROW_CHECKSUMS: str(shape.row_checksums).lower(),
    }


def same_rows(before: Shape, after: Shape) -> bool:
    return (before.provider, before.row_checksums) == (after.provider, after.row_checksums)


def same_files(before: Shape, after: Shape) -> bool:
    """Returns whether a snapshot in one shape would be as good in the other: a zip has no codec."""
    codec = before.codec == after.codec or after.provider is Provider.ROCKSDB
    return same_rows(before, after) and codec
