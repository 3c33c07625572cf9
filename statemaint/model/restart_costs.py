"""What Sparks need for restarts, as measured: written by `make calibrate`, never by hand."""

from typing import NamedTuple

from statemaint.model.checkpoint import Provider
from statemaint.model.restart_time import Costs

MEASURED = "not yet: placeholders from a few restarts of Spark 4.3.0 on a busy machine"


class Restart(NamedTuple):
    """What costs depend on; `warm` is a query's restart in a process that has run one."""

    provider: Provider
    spark: str
    warm: bool


_HDFS, _ROCKS = Provider.HDFS_BACKED, Provider.ROCKSDB
COSTS = {
    Restart(_HDFS, "3.5.9", warm=True): Costs(0.7, 4e-2, 1e-3, 2e-9, 1e-6, 1e-3, 2e-9, 1.0e-6, 0.4),
    Restart(_HDFS, "3.5.9", warm=False): Costs(
        6.0, 4e-2, 1e-3, 2e-9, 1e-6, 1e-3, 2e-9, 1.0e-6, 0.4
    ),
    Restart(_HDFS, "4.3.0", warm=True): Costs(0.7, 4e-2, 1e-3, 2e-9, 1e-6, 1e-3, 2e-9, 1.0e-6, 0.4),
    Restart(_HDFS, "4.3.0", warm=False): Costs(
        6.0, 4e-2, 1e-3, 2e-9, 1e-6, 1e-3, 2e-9, 1.0e-6, 0.4
    ),
    Restart(_ROCKS, "3.5.9", warm=True): Costs(0.8, 6e-2, 2e-3, 2e-9, 0.0, 2e-3, 2e-9, 4.0e-6, 0.4),
    Restart(_ROCKS, "3.5.9", warm=False): Costs(
        6.5, 6e-2, 2e-3, 2e-9, 0.0, 2e-3, 2e-9, 4.0e-6, 0.4
    ),
    Restart(_ROCKS, "4.3.0", warm=True): Costs(0.8, 6e-2, 2e-3, 2e-9, 0.0, 2e-3, 2e-9, 4.0e-6, 0.4),
    Restart(_ROCKS, "4.3.0", warm=False): Costs(
        6.5, 6e-2, 2e-3, 2e-9, 0.0, 2e-3, 2e-9, 4.0e-6, 0.4
    ),
}


def costs_of(provider: Provider, spark: str, *, warm: bool = False) -> Costs:
    """Returns the costs of the nearest measured Spark; of the other provider's for an unknown."""
    of_kind = Provider.ROCKSDB if provider is Provider.ROCKSDB else Provider.HDFS_BACKED
    known = [each.spark for each in COSTS if (each.provider, each.warm) == (of_kind, warm)]
    nearest = min(known, key=lambda name: (abs(_release(name) - _release(spark)), name))
    return COSTS[Restart(of_kind, nearest, warm)]


def _release(spark: str) -> float:
    major, minor, *_ = (*spark.split("."), "0")
    return float(major) + float(minor) / 10
