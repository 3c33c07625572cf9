"""The time that Spark needs for a restart: from the query's start to the first committed batch.

    start + (per store, file, byte and record of snapshots and of changes) / slots

What a restart reads is counted from names, sizes and proofs; the costs are measured on real
restarts (`restart_costs`). Far storage adds the latency of the requests that Spark sends. Pure.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.policy import Policy
from statemaint.model.restart_costs import NOTHING, Costs, Replay, costs_of

RECORD_SIZE = 40.0
"""Stored bytes of a record where nothing has been read that shows them."""
SLOTS = Policy().restart_slots
"""The stores that a query's executors load at a time, where nobody says it."""
LONG_CHAIN, LONG_SECONDS = 200, 300
"""A restart that replays more deltas, or takes longer, is long: the alerts' thresholds."""
_COARSE = 10  # seconds from which tenths say nothing
_NEAR = ("", "file", "hdfs", "viewfs", "memory")
_LATENCY, _REQUESTS_AT_START = 0.03, 30


@dataclass(frozen=True, slots=True)
class Seconds:
    """A range of seconds, at most a factor of two wide."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return float((self.low * self.high) ** 0.5)

    def __str__(self) -> str:
        digits = 1 if self.high < _COARSE else 0
        low, high = (f"{end:,.{digits}f}" for end in (self.low, self.high))
        return f"{low} to {high} s" if low != high else f"{high} s"


@dataclass(frozen=True, slots=True)
class Load:
    """What all stores read, and what of it waits longest: slots share stores, never one store."""

    total: Replay = NOTHING
    largest: Replay = NOTHING

    @classmethod
    def of(cls, works: Iterable[Replay]) -> "Load":
        found = [*works]
        return cls(sum(found, NOTHING), max(found, key=_weight, default=NOTHING))

    def __add__(self, other: "Load") -> "Load":
        return Load(self.total + other.total, max(self.largest, other.largest, key=_weight))

    def parts(self, costs: Costs, slots: int, latency: float = 0.0) -> tuple[float, float, float]:
        """Returns the start, the largest store, and each slot's share of all stores, in seconds."""
        start = costs.start + latency * _REQUESTS_AT_START
        return start, costs.of(self.largest, latency), costs.of(self.total, latency) / slots

    def seconds(self, costs: Costs, slots: int, latency: float = 0.0) -> Seconds:
        """Returns the range of a restart's time; `latency` is that of one request to storage."""
        start, largest, share = self.parts(costs, slots, latency)
        middle = start + max(largest, share)
        return Seconds(middle / costs.factor, middle * costs.factor)


def _weight(work: Replay) -> tuple[int, int]:
    return work.snapshot_records + work.change_records, work.snapshot_files + work.change_files


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
        return self.costs().of(work, self.latency)

    def high_parts(self, load: Load) -> tuple[float, float, float]:
        """Returns `Load.parts` of a restart in a new process, at the high end of the range."""
        costs = self.costs()
        start, largest, share = load.parts(costs, self.slots, self.latency)
        return start * costs.factor, largest * costs.factor, share * costs.factor


NO_FORECAST = Forecast()
"""Where nothing is known of the query."""


# -- what a restart reads


def latency_of(root: str) -> float:
    """Returns the seconds of a request to the storage of an address; none where it is near."""
    scheme, separator, _ = root.partition("://")
    return 0.0 if not separator or scheme in _NEAR else _LATENCY


def record_size(stores: Iterable[Store]) -> float | None:
    """Returns the stored bytes of a record, by the snapshots that were read back and are there."""
    proofs = [proof for store in stores for proof in store.attestations]
    size = sum(proof.size + sum(part.size for part in proof.parts) for proof in proofs)
    rows = sum(proof.rows for proof in proofs)
    return size / rows if rows else None


def replay_of(store: Store, version: int | None, record: float = RECORD_SIZE) -> Replay | None:
    """Returns what a load of a version reads of a store; `None` if it does not load."""
    if version == 0:
        return NOTHING
    chain = store.versions.chain(version) if version else None
    return replay_of_chain(store, chain, record) if isinstance(chain, Chain) else None


def replay_of_chain(store: Store, chain: Chain, record: float = RECORD_SIZE) -> Replay:
    changes, base = sum(delta.entry.size for delta in chain.deltas), chain.base
    files = size = rows = 0
    if base:
        parts = store.rocks.parts.get(base.entry.path, {}) if store.rocks else {}
        files, size = 1 + len(parts), base.entry.size + sum(parts.values())
        proved = (proof.rows for proof in store.attestations if proof.path == base.entry.path)
        rows = next(proved, round(size / record))
    return Replay(1, files, size, rows, len(chain.deltas), changes, round(changes / record))


def after_snapshot(work: Replay, record: float) -> Replay:
    """Returns the work that a store leaves once its newest version has a snapshot.

    A snapshot has a row of every record at most: updates of a row are counted as one.
    """
    if not work.change_files:
        return work
    rows = max(work.snapshot_records, work.change_records // work.change_files)
    return Replay(1, 1 + (work.snapshot_files > 1), round(rows * record), rows)


def spark_of(checkpoint: Checkpoint) -> str:
    """Returns a Spark that may have written a checkpoint: operators have metadata since 4.0."""
    return "4.3.0" if checkpoint.operators else "3.5.9"


def load_seconds(store: Store, chain: Chain) -> float:
    """Returns the seconds that one slot needs to load a chain, by listed sizes alone.

    It is the same in every task of a run, whatever each has read of the size of records.
    """
    provider = Provider.ROCKSDB if store.rocks else Provider.HDFS_BACKED
    return costs_of(provider, NO_FORECAST.spark).of(replay_of_chain(store, chain))


def replay_seconds(store: Store, chain: Chain) -> float:
    """Returns the same of its changes alone: a rank of chains."""
    return load_seconds(store, replace(chain, base=None))
