"""The time that Spark needs for a restart: from the query's start to the first committed batch.

    start + (per store, file, byte and record of snapshots and of changes) / slots

What a restart reads is counted from names, sizes and proofs; the costs are measured on real
restarts (`restart_costs`). Far storage adds the latency of the requests that Spark sends. Pure.
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields, replace

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.policy import Policy

RECORD_SIZE = 40.0
"""Stored bytes of a record where nothing has been read that shows them."""
SLOTS = Policy().restart_slots
"""The stores that a query's executors load at a time, where nobody says it."""
LONG_CHAIN, LONG_SECONDS = 200, 300
"""A restart that replays more deltas, or takes longer, is long: the alerts' thresholds."""
_WIDEST = 2**0.5  # a range's ends differ by no more than a factor of two
_COARSE = 10  # seconds from which tenths say nothing
_NEAR = ("", "file", "hdfs", "viewfs", "memory")
_LATENCY = 0.03
# `HDFSBackedStateStoreProvider` and `RocksDBFileManager`: a store lists its folder, writes its
# change and renames it; a file is looked up, opened and read.
_PER_STORE, _PER_FILE, _AT_START = 8, 3, 30


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

    @property
    def requests(self) -> int:
        return _PER_STORE * self.stores + _PER_FILE * self.files


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

    def of(self, work: Replay) -> float:
        """Returns the seconds of some work in one slot, without the start."""
        pairs = zip(astuple(self)[1:-1], astuple(work), strict=True)
        return float(sum(cost * quantity for cost, quantity in pairs))


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

        def takes(work: Replay) -> float:
            return costs.of(work) + latency * work.requests

        start = costs.start + latency * _AT_START
        return start, takes(self.largest), takes(self.total) / slots

    def seconds(self, costs: Costs, slots: int, latency: float = 0.0) -> Seconds:
        """Returns the range of a restart's time; `latency` is that of one request to storage."""
        start, largest, share = self.parts(costs, slots, latency)
        middle = start + max(largest, share)
        return Seconds(middle / costs.factor, middle * costs.factor)


def _weight(work: Replay) -> tuple[int, int]:
    return work.snapshot_records + work.change_records, work.snapshot_files + work.change_files


def latency_of(root: str) -> float:
    """Returns the seconds of a request to the storage of an address; none where it is near."""
    scheme, separator, _ = root.partition("://")
    return 0.0 if not separator or scheme in _NEAR else _LATENCY


def record_size(stores: Iterable[Store]) -> float | None:
    """Returns the stored bytes of a record, by the snapshots that were read back and are there."""
    size = rows = 0
    for store in stores:
        for proof in store.attestations:
            size += proof.size + sum(part.size for part in proof.parts)
            rows += proof.rows
    return size / rows if rows else None


def replay_of(store: Store, version: int | None, record: float = RECORD_SIZE) -> Replay | None:
    """Returns what a load of a version reads of a store; `None` if it does not load."""
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
    rows = max(work.snapshot_records, work.change_records // max(1, work.change_files))
    return Replay(1, 1 + (work.snapshot_files > 1), round(rows * record), rows)


def spark_of(checkpoint: Checkpoint) -> str:
    """Returns a Spark that may have written a checkpoint: operators have metadata since 4.0."""
    return "4.3.0" if checkpoint.operators else "3.5.9"
