"""The forecast of a checkpoint's next restart. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.restart_costs import costs_of
from statemaint.model.restart_time import (
    RECORD_SIZE,
    SLOTS,
    Load,
    Seconds,
    after_snapshot,
    latency_of,
    record_size,
    spark_of,
    work_of,
    works_of,
)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a forecast rests on besides the files: a query, and the executors that restart it."""

    provider: Provider = Provider.HDFS_BACKED
    spark: str = "4.3.0"
    slots: int = SLOTS
    record: float = RECORD_SIZE  # stored bytes of a record
    latency: float = 0.0  # seconds of a request to the storage

    @classmethod
    def of(cls, checkpoint: Checkpoint, slots: int = SLOTS) -> "Forecast":
        record = record_size(checkpoint.stores) or checkpoint.record_size or RECORD_SIZE
        latency = latency_of(checkpoint.root)
        return cls(checkpoint.provider, spark_of(checkpoint), slots, record, latency)

    def measured(self, stores: Iterable[Store]) -> "Forecast":
        """Returns the same with the size of records that the proofs of some stores have."""
        return replace(self, record=record_size(stores) or self.record)

    def load(self, stores: Iterable[Store], version: int | None) -> Load:
        """Returns what a restart at a version reads of the stores that load."""
        return Load.of(work for _, work in works_of(stores, version, self.record))

    def least(self, stores: Iterable[Store], version: int | None) -> Load:
        """Returns what it would read if each of them had a snapshot of that version."""
        works = (work for _, work in works_of(stores, version, self.record))
        return Load.of(after_snapshot(work, self.record) for work in works)

    def seconds(self, load: Load, *, warm: bool = False) -> Seconds:
        """Returns the time of a restart: in a new process, or `warm`, in one that has run it."""
        return load.seconds(
            costs_of(self.provider, self.spark, warm=warm), self.slots, self.latency
        )

    def high_parts(self, load: Load) -> tuple[float, float, float]:
        """Returns `Load.parts` of a restart in a new process, at the high end of the range."""
        costs = costs_of(self.provider, self.spark)
        start, largest, share = load.parts(costs, self.slots, self.latency)
        return start * costs.factor, largest * costs.factor, share * costs.factor

    def replay(self, store: Store, chain: Chain) -> float:
        """Returns the seconds that the changes of a chain take: a rank of chains.

        It is the same in every task of a run, whatever each has read of the size of records.
        """
        changes = work_of(store, Chain(chain.version, None, chain.deltas), RECORD_SIZE)
        return costs_of(self.provider, self.spark).of(changes)


NO_FORECAST = Forecast()
"""Where nothing is known of the query."""
