"""The forecast of a checkpoint's next restart. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.restart_costs import costs_of
from statemaint.model.restart_time import (
    RECORD_SIZE,
    SLOTS,
    Costs,
    Load,
    Replay,
    Seconds,
    after_snapshot,
    latency_of,
    record_size,
    replay_of,
    replay_of_chain,
    spark_of,
)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a forecast rests on besides the files: a query, and the executors that restart it."""

    provider: Provider = Provider.HDFS_BACKED
    spark: str = "4.3.0"
    slots: int = SLOTS
    record: float = RECORD_SIZE  # stored bytes of a record
    latency: float = 0.0  # seconds of a request to the storage
    percent: int = 100  # what the query's own restarts take of what the costs say

    @classmethod
    def of(cls, checkpoint: Checkpoint, slots: int = SLOTS, percent: int = 100) -> "Forecast":
        record = record_size(checkpoint.stores) or checkpoint.record_size or RECORD_SIZE
        latency = latency_of(checkpoint.root)
        return cls(checkpoint.provider, spark_of(checkpoint), slots, record, latency, percent)

    def costs(self, *, warm: bool = False) -> Costs:
        return costs_of(self.provider, self.spark, warm=warm).times(self.percent / 100)

    def measured(self, stores: Iterable[Store]) -> "Forecast":
        """Returns the same with the size of records that the proofs of some stores have."""
        return replace(self, record=record_size(stores) or self.record)

    def load(self, stores: Iterable[Store], version: int | None) -> Load:
        """Returns what a restart at a version reads of the stores that load."""
        return Load.of(self._works(stores, version))

    def least(self, stores: Iterable[Store], version: int | None) -> Load:
        """Returns what it would read if each of them had a snapshot of that version."""
        works = self._works(stores, version)
        return Load.of(after_snapshot(work, self.record) for work in works)

    def _works(self, stores: Iterable[Store], version: int | None) -> Iterator[Replay]:
        works = (replay_of(store, version, self.record) for store in stores)
        return (work for work in works if work)

    def seconds(self, load: Load, *, warm: bool = False) -> Seconds:
        """Returns the time of a restart: in a new process, or `warm`, in one that has run it."""
        return load.seconds(self.costs(warm=warm), self.slots, self.latency)

    def takes(self, work: Replay) -> float:
        """Returns the seconds that one slot of a new process needs, without the start."""
        return self.costs().of(work) + self.latency * work.requests

    def high_parts(self, load: Load) -> tuple[float, float, float]:
        """Returns `Load.parts` of a restart in a new process, at the high end of the range."""
        costs = self.costs()
        start, largest, share = load.parts(costs, self.slots, self.latency)
        return start * costs.factor, largest * costs.factor, share * costs.factor


NO_FORECAST = Forecast()
"""Where nothing is known of the query."""


def load_seconds(store: Store, chain: Chain) -> float:
    """Returns the seconds that one slot needs to load a chain, by listed sizes alone.

    It is the same in every task of a run, whatever each has read of the size of records.
    """
    provider = Provider.ROCKSDB if store.rocks else Provider.HDFS_BACKED
    return costs_of(provider, NO_FORECAST.spark).of(replay_of_chain(store, chain))


def replay_seconds(store: Store, chain: Chain) -> float:
    """Returns the same of its changes alone: a rank of chains."""
    return load_seconds(store, replace(chain, base=None))
