"""Settings tried on the changes that a checkpoint still has, as if they went on for weeks. Pure.

Batches like the mean of the listed ones go on; each run of maintenance then decides as the planner
does. The state keeps its size: a snapshot costs what one costs now. Stores count as alike, so a
snapshot of all of them is written in one run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Protocol

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.model.policy import Policy
from statemaint.model.restart_costs import NOTHING, Replay
from statemaint.model.restart_time import Forecast, Load

_HOUR, _DAY = 3600.0, 86400.0
_LENGTHS = (5, 10, 30, 100, 300)
_MARGINS = (1.25, 1.5, 2, 4)
_MOST_RUNS = 10_000
# Requests of a run: the logs, the folders of the state and of the ledger, the lease and its end.
_PER_RUN, _PER_SNAPSHOT = 12, 4


class Ran(Protocol):
    """A run of maintenance, as its notes record it."""

    @property
    def started(self) -> float: ...

    @property
    def snapshots_written(self) -> int: ...

    @property
    def bytes_written(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PastBatches:
    """What a query's batches write, and what a restart reads right after a snapshot."""

    changes: tuple[Load, ...]  # of each listed batch, the oldest first
    base: Load
    interval: float  # seconds between two batches
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Trial:
    """What a policy would have done."""

    policy: Policy
    snapshots: int  # of stores
    written: int  # bytes
    requests: int
    restart: float  # the most seconds that a restart was forecast to take before or after a run

    @property
    def setting(self) -> str:
        limit = self.policy.restart_within
        if limit is None:
            return f"min_deltas_for_snapshot {self.policy.min_deltas_for_snapshot}"
        return f"restart_within {limit:g}s"


@dataclass(frozen=True, slots=True)
class PastRuns:
    """What the recorded runs of maintenance have written, and how often there was one."""

    runs: int
    seconds: float  # from the first of them to the last
    snapshots: int
    written: int  # bytes
    every: float | None  # seconds from one to the next, in the middle

    @classmethod
    def of(cls, runs: Iterable[Ran], ends: Sequence[float]) -> "PastRuns":
        """Returns the sums of runs that changed something; `ends` are of the last runs, in order.

        A run that changed nothing has no note.
        """
        found = [*runs]
        starts = [run.started for run in found]
        gaps = [later - end for end, later in pairwise(ends) if later > end]
        return cls(
            runs=len(found),
            seconds=max(starts) - min(starts) if starts else 0.0,
            snapshots=sum(run.snapshots_written for run in found),
            written=sum(run.bytes_written for run in found),
            every=median(gaps) if gaps else None,
        )


def history_of(checkpoint: Checkpoint, forecast: Forecast) -> PastBatches | None:
    """Returns the history that a listing shows; `None` where there is no change to repeat."""
    version = checkpoint.target
    needed = checkpoint.needed(version) if version else ()
    stores = [it for it in needed if isinstance(it.versions.chain(version or 0), Chain)]
    batches: dict[int, list[Replay]] = {}
    for store in stores:
        for number, delta in store.versions.deltas.items():
            size = delta.entry.size
            records = round(size / forecast.record)
            work = Replay(change_files=1, change_bytes=size, change_records=records)
            batches.setdefault(number, []).append(work)
    if not batches:
        return None
    times = [time for _, time in sorted(checkpoint.commit_times.items()) if time is not None]
    gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    changes = tuple(Load.of(batches[number]) for number in sorted(batches))
    base = forecast.least(stores, version)
    return PastBatches(changes, base, median(gaps) if gaps else _HOUR, forecast)


def back_test(history: PastBatches, policy: Policy, *, every: float, days: float) -> Trial:
    """Returns what runs `every` so many seconds would have done in some days of such batches.

    After the first runs, which are tried, the others are taken to do the same.
    """
    batches = max(1, round(days * _DAY / history.interval))
    per_run = max(1, round(every / history.interval))
    forecast, stores = history.forecast, history.base.total
    load, length, slowest = history.base, 0, 0.0
    rounds = requests = 0
    change = _changes_of(history, per_run)
    runs = ceil(batches / per_run)
    tried = min(_MOST_RUNS, runs)
    for _ in range(tried):
        load = Load(load.total + change.total, load.largest + change.largest)
        length += per_run
        slowest = max(slowest, forecast.seconds(load).high)
        requests += _PER_RUN
        if _due(history, forecast, policy, load, length):
            rounds += 1
            requests += stores.stores * (_PER_SNAPSHOT + length)
            load, length = history.base, 0
    rounds, requests = (round(runs / tried * number) for number in (rounds, requests))
    written = rounds * stores.snapshot_bytes
    return Trial(policy, rounds * stores.stores, written, requests, slowest)


def _changes_of(history: PastBatches, batches: int) -> Load:
    """Returns the changes of so many batches like the mean of the history: however many."""
    share = batches / len(history.changes)

    def scaled(works: Iterable[Replay]) -> Replay:
        return Replay(*(round(share * quantity) for quantity in astuple(sum(works, NOTHING))))

    total = scaled(change.total for change in history.changes)
    return Load(total, scaled(change.largest for change in history.changes))


def _due(history: PastBatches, forecast: Forecast, policy: Policy, load: Load, length: int) -> bool:
    limit = policy.restart_within
    if limit is not None and forecast.seconds(history.base).high <= limit:
        return forecast.seconds(load).high > limit
    one = forecast.provider is not Provider.ROCKSDB
    return length >= policy.min_deltas_for_snapshot + one


def candidates(history: PastBatches, policy: Policy) -> Iterator[Policy]:
    """Yields the policy itself, other lengths of a chain, and limits that a snapshot can keep."""
    yield policy
    for length in _LENGTHS:
        yield replace(policy, restart_within=None, min_deltas_for_snapshot=length)
    least = history.forecast.seconds(history.base).high
    for margin in _MARGINS:
        yield replace(policy, restart_within=float(ceil(least * margin)))


def recommended(trials: Sequence[Trial], limit: float | None) -> Trial | None:
    """Returns the trial that writes least of those that keep a limit of a restart.

    Without a limit, that of the policy itself, the first trial, counts: what it promises now.
    """
    most = trials[0].restart if limit is None else limit
    keeping: Iterable[Trial] = (trial for trial in trials if trial.restart <= most)
    return min(keeping, key=lambda trial: (trial.written, trial.restart), default=None)
