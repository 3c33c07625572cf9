"""What Sparks need for restarts: `make calibrate` writes `COSTS` and `MEASURED`. Pure."""

import re
from dataclasses import astuple, dataclass, fields, replace
from typing import NamedTuple

from statemaint.model.checkpoint import Provider

MEASURED = "2026-11-29, by 136 restarts"

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")
_WIDEST = 2**0.5  # a range's ends differ by no more than a factor of two
# `HDFSBackedStateStoreProvider` and `RocksDBFileManager`: a store lists its folder, writes its
# change and renames it; a file is looked up, opened and read.
_PER_STORE, _PER_FILE = 8, 3


@dataclass(frozen=True, slots=True)
class Replay:
    """What a restart reads."""

    stores: int = 0
    snapshot_files: int = 0  # with the files that a zip refers to
    snapshot_bytes: int = 0
    snapshot_records: int = 0
    change_files: int = 0
    change_bytes: int = 0
    change_records: int = 0

    def __add__(self, other: "Replay") -> "Replay":
        return Replay(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def files(self) -> int:
        return self.snapshot_files + self.change_files

    @property
    def bytes(self) -> int:
        return self.snapshot_bytes + self.change_bytes


NOTHING = Replay()
QUANTITIES = tuple(field.name for field in fields(Replay))


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one Spark for a start, and for each unit of `Replay`."""

    start: float
    stores: float
    snapshot_files: float
    snapshot_bytes: float
    snapshot_records: float
    change_files: float
    change_bytes: float
    change_records: float
    error: float  # nine of ten restarts took between 1 / (1 + error) and 1 + error times as long

    @property
    def factor(self) -> float:
        """Returns what the middle of a range is multiplied with, and divided by, for its ends."""
        return min(1 + self.error, _WIDEST)

    def times(self, factor: float) -> "Costs":
        seconds = {name: factor * getattr(self, name) for name in ("start", *QUANTITIES)}
        return replace(self, **seconds)

    def of(self, work: Replay, latency: float = 0.0) -> float:
        """Returns the seconds of some work in one slot, without the start."""
        pairs = zip(astuple(self)[1:-1], astuple(work), strict=True)
        requests = _PER_STORE * work.stores + _PER_FILE * work.files
        return float(sum(cost * quantity for cost, quantity in pairs)) + latency * requests


class Restart(NamedTuple):
    """What costs depend on; `warm` is a query's restart in a process that has run one."""

    provider: Provider
    spark: str
    warm: bool


_HDFS, _ROCKS = Provider.HDFS_BACKED, Provider.ROCKSDB
COSTS = {
    Restart(_HDFS, "3.5.9", warm=True): Costs(
        0.199, 0.0585, 0, 8.82e-10, 1.73e-06, 0.000109, 3.39e-09, 9.33e-07, 0.333
    ),
    Restart(_HDFS, "3.5.9", warm=False): Costs(
        2.76, 0.0818, 0, 1.23e-09, 2.42e-06, 0.000152, 4.73e-09, 1.3e-06, 0.333
    ),
    Restart(_HDFS, "4.3.0", warm=True): Costs(
        0.163, 0.065, 0, 2.39e-10, 2.17e-06, 0.000156, 7.4e-09, 8.11e-07, 0.362
    ),
    Restart(_HDFS, "4.3.0", warm=False): Costs(
        2.66, 0.0798, 0, 2.93e-10, 2.67e-06, 0.000191, 9.08e-09, 9.96e-07, 0.362
    ),
    Restart(_ROCKS, "3.5.9", warm=True): Costs(
        0.21, 0.0754, 0.00278, 3.69e-10, 6.96e-09, 8.13e-05, 0, 3.82e-06, 0.395
    ),
    Restart(_ROCKS, "3.5.9", warm=False): Costs(
        2.93, 0.086, 0.00317, 4.21e-10, 7.94e-09, 9.28e-05, 0, 4.36e-06, 0.395
    ),
    Restart(_ROCKS, "4.3.0", warm=True): Costs(
        0.159, 0.0933, 0, 6.37e-10, 5.08e-08, 0.000143, 2.64e-10, 4.57e-06, 0.333
    ),
    Restart(_ROCKS, "4.3.0", warm=False): Costs(
        3.18, 0.103, 0, 7.04e-10, 5.61e-08, 0.000158, 2.92e-10, 5.06e-06, 0.333
    ),
}


def costs_of(provider: Provider, spark: str, *, warm: bool = False) -> Costs:
    """Returns the costs of the nearest measured Spark; of the other provider's for an unknown."""
    of_kind = Provider.ROCKSDB if provider is Provider.ROCKSDB else Provider.HDFS_BACKED
    known = [each.spark for each in COSTS if (each.provider, each.warm) == (of_kind, warm)]
    nearest = min(known, key=lambda name: (abs(_release(name) - _release(spark)), name))
    return COSTS[Restart(of_kind, nearest, warm)]


def _release(spark: str) -> float:
    """Returns a number for a version; that of the newest release if it does not begin as one."""
    found = _VERSION.match(spark) or _VERSION.match(max(each.spark for each in COSTS))
    return int(found[1]) + int(found[2]) / 10 if found else 0.0
