"""How a query of the certificate is set up."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Habits:
    """How a query is set up.

    Attributes:
        stores: their directories.
        min_deltas: Spark's `minDeltasForSnapshot`.
        retain: Spark's `minBatchesToRetain`, for state and logs.
        in_executor: whether its executors maintain the state too.
        side_files: whether Hadoop writes `.NAME.crc` beside each file.
        checksums: whether Spark 4.1 writes `NAME.crc` beside each file.
        codec: of its state files.
        rocks: whether RocksDB keeps its state, with changelogs.
        ids: whether versions have unique ids, which RocksDB alone has.
        every: after how many versions an executor with RocksDB makes a snapshot.
        spark: the release that runs it, where what that writes of its operators is there too.
        families: whether its RocksDB stores have column families.
    """

    stores: tuple[str, ...] = ("state/0/0",)
    min_deltas: int = 2
    retain: int = 2
    in_executor: bool = False
    side_files: bool = False
    checksums: bool = False
    codec: str = "lz4"
    rocks: bool = False
    ids: bool = False
    every: int = 2
    spark: int | None = None
    families: bool = False
