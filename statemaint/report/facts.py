"""The facts of a run that its metrics show: small, and summed over tasks and partitions. Pure.

Each task hands on its facts, and the run's report sums them. They take as much space for four
partitions as for four thousand, unless every partition is requested: totals, counts by a closed set
of labels, distributions over fixed bounds, and the few worst partitions.

Spark loads the partitions of a query in parallel: of the time of a restart each task has a share of
all stores, and the largest one.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeVar

from statemaint.model.checkpoint import Store
from statemaint.model.findings import Finding
from statemaint.model.ids import UnitId
from statemaint.model.restart_costs import Replay
from statemaint.model.restart_time import Forecast, replay_of
from statemaint.model.verdict import Verdict
from statemaint.plan.actions import Plan
from statemaint.report.outcome import StoreOutcome, StoreReport, summarize
from statemaint.report.run import Emptied, Report

_T = TypeVar("_T")

WORST = 5
"""The number of partitions that are named: the worst ones."""
CHAIN_BOUNDS = (0, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
"""Bounds of the distribution of chain lengths, in deltas."""
SIZE_BOUNDS = tuple(float(4**power * 1024) for power in range(10))
"""Bounds of the distribution of store sizes, from 1 KiB to 256 MiB."""
TASK_BOUNDS = (1, 5, 15, 60, 300, 900, 3600, 14400)
"""Bounds of the distribution of task durations, in seconds."""


class Unit(NamedTuple):
    """One partition with all its stores."""

    operator: int
    partition: int
    chain: int | None  # the most deltas that a restart replays in a store; `None` if one fails
    files: int
    bytes: int
    replay_files: int  # that a restart reads
    replay_bytes: int
    reclaimable: int  # the bytes that a later run deletes
    damage: int  # the number of findings that are damage
    notices: int  # that of the others
    seconds: float = 0.0  # the forecast time in which one slot loads it
    halted: int = 0  # the number of its halted stores

    @property
    def id(self) -> UnitId:
        return UnitId(self.operator, self.partition)


# The order of a partition's figures in a stored record.
_RECORDED = (
    *("operator", "partition", "seconds", "chain", "bytes", "files", "replay_bytes"),
    *("reclaimable", "halted"),
)


class Spread(NamedTuple):
    """A distribution: the number of values in each interval, including beyond the last bound."""

    counts: tuple[int, ...]
    total: float

    @classmethod
    def of(cls, values: Sequence[float], bounds: Sequence[float]) -> "Spread":
        """Returns a distribution, in which a value equal to a bound counts below it."""
        counts = Counter(bisect_left(bounds, value) for value in values)
        return cls(tuple(counts[place] for place in range(len(bounds) + 1)), float(sum(values)))

    def __add__(self, other: "Spread") -> "Spread":  # type: ignore[override]
        counts = map(add, self.counts, other.counts)
        return Spread(tuple(counts), self.total + other.total)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of some partitions after a run, by name.

    `snapshot` is when the newest snapshot of the store without a recent one was stored; 0 if a
    store has none, `None` without stores.
    """

    sums: Mapping[str, int] = field(default_factory=dict)  # counts and sizes that add up
    highest: Mapping[str, float] = field(default_factory=dict)  # of which the highest counts
    # `outcomes`, `findings`, `deleted`, `requests` and `withheld`, by label; they add up.
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # The findings of the checkpoint as a whole, by code: several tasks find the same.
    checkpoint: Mapping[str, int] = field(default_factory=dict)
    # Over the bounds of this module: `chains`, `sizes`, `tasks`.
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    snapshot: float | None = None
    worst: tuple[Unit, ...] = ()  # those whose restart takes longest, the slowest first
    halted: tuple[tuple[int, int, str], ...] = ()  # the first: operator, partition and name
    units: tuple[Unit, ...] = ()  # every partition, if requested

    def __add__(self, other: "RunFacts") -> "RunFacts":
        """Returns the facts of both, which have no partition in common."""
        times = [time for time in (self.snapshot, other.snapshot) if time is not None]
        return RunFacts(
            sums=merged(add, self.sums, other.sums),
            highest=merged(max, self.highest, other.highest),
            checkpoint=merged(max, self.checkpoint, other.checkpoint),
            counts={
                name: merged(add, self.counts.get(name, {}), other.counts.get(name, {}))
                for name in sorted({*self.counts, *other.counts})
            },
            spreads=merged(add, self.spreads, other.spreads),
            snapshot=min(times, default=None),
            worst=_worst((*self.worst, *other.worst)),
            halted=tuple(sorted((*self.halted, *other.halted))[:WORST]),
            units=tuple(sorted((*self.units, *other.units))),
        )

    @property
    def verdict(self) -> Verdict | None:
        """The worst verdict of its parts; `None` for the facts of an earlier build."""
        rank = self.highest.get("verdict")
        return None if rank is None else Verdict.ranked(rank)

    @property
    def restart(self) -> float | None:
        """The most seconds that a restart is forecast to take, in a new process.

        `None` if nothing was looked at, or by an earlier build.
        """
        return self._forecast("restart")

    @property
    def restart_least(self) -> float | None:
        """The same if every store had a snapshot of the target."""
        return self._forecast("restart_least")

    def _forecast(self, name: str) -> float | None:
        if "restart_start" not in self.highest:
            return None
        share = self.sums.get(f"{name}_share_ms", 0) / 1000
        store = self.highest.get(f"{name}_store", 0.0)
        return round(self.highest["restart_start"] + max(store, share), 3)

    @property
    def findings(self) -> dict[str, int]:
        """The number of findings by code, those of the checkpoint and of its stores."""
        return merged(add, self.checkpoint, self.counts.get("findings", {}))

    def to_json(self) -> dict[str, Any]:
        rows = {
            name: [[getattr(unit, figure) for figure in _RECORDED] for unit in units]
            for name, units in (("worst", self.worst), ("units", self.units))
        }
        return {**asdict(self), **rows}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "RunFacts":
        """Returns what `to_json` encoded; a `TypeError` or `ValueError` if another build did."""
        missing = {"replay_files": 0, "damage": 0, "notices": 0}
        units = {
            name: tuple(
                Unit(**dict(zip(_RECORDED, row, strict=True)), **missing) for row in fields[name]
            )
            for name in ("worst", "units")
        }
        spreads = {name: Spread(tuple(n), total) for name, (n, total) in fields["spreads"].items()}
        halted = tuple(map(tuple, fields["halted"]))
        return cls(**{**fields, **units, "spreads": spreads, "halted": halted})


def total(facts: Iterable[RunFacts]) -> RunFacts:
    return reduce(RunFacts.__add__, facts, RunFacts())


def facts_of(report: Report, *, every_unit: bool = False, task: bool = True) -> RunFacts:
    """Returns the facts of a run or of one of its tasks.

    `every_unit` keeps every partition, and not only the worst. `task` is whether a task did the
    work; `plan` only reads the partitions without work.
    """
    units = units_of(report.stores, report.forecast)
    replays = [replay_of(store.after, store.target) for store in report.stores]
    loads = [replay.change_files for replay in replays if replay]
    stored = [_snapshot(store) for store in report.needed]
    stopped = [store.after.id for store in report.stores if store.state is StoreOutcome.HALTED]
    halted = [(store.operator, store.partition, store.store) for store in stopped]
    spreads = {
        "chains": Spread.of(loads, CHAIN_BOUNDS),
        "sizes": Spread.of([store.after.size for store in report.stores], SIZE_BOUNDS),
        "tasks": Spread.of([report.seconds] if task else [], TASK_BOUNDS),
    }
    facts = RunFacts(
        sums=_sums(report, units, replays),
        highest={
            "chain": max(loads, default=0),
            "seconds": report.seconds,
            "memory": report.peak_memory,
            "verdict": report.verdict.rank,
        },
        counts=_counts(report),
        checkpoint=_by_code((*report.plan.findings, *report.emptied.findings)),
        spreads=spreads,
        snapshot=min(stored, default=None),
        worst=_worst(units),
        halted=tuple(sorted(halted)[:WORST]),
        units=tuple(units) if every_unit else (),
    )
    return facts + restart_facts(report.plan, report.after)


def restart_facts(plan: Plan, stores: Sequence[Store]) -> RunFacts:
    """Returns the forecast of a restart that reads some stores of a plan.

    It adds up: of all tasks the shares of the slots do, and the largest store counts.
    """
    forecast = plan.forecast.measured(stores)
    start, store, share = forecast.high_parts(forecast.load(stores, plan.target))
    _, store_least, share_least = forecast.high_parts(forecast.least(stores, plan.target))
    return RunFacts(
        sums={
            "restart_share_ms": round(share * 1000),
            "restart_least_share_ms": round(share_least * 1000),
        },
        highest={
            "restart_start": start,
            "restart_store": store,
            "restart_least_store": store_least,
            "restart_limit": plan.policy.restart_within or 0.0,
        },
    )


def _sums(report: Report, units: list[Unit], replays: list[Replay | None]) -> dict[str, int]:
    proofs = [store.attestation for store in report.stores]
    return {
        "partitions": len(units),
        "stores": len(report.stores),
        "unloadable": sum(replay is None for replay in replays),
        "unproved": sum(proof is None for proof in proofs),
        "rows": sum(proof.rows for proof in proofs if proof),
        "state": sum(proof.bytes for proof in proofs if proof),
        "files": sum(unit.files for unit in units),
        "bytes": sum(unit.bytes for unit in units),
        "reclaimable": sum(unit.reclaimable for unit in units),
        "replayed_files": sum(replay.files for replay in replays if replay),
        "replayed": sum(unit.replay_bytes for unit in units),
        "snapshots": report.snapshots_written,
        "written": report.bytes_written,
        "deleted": report.bytes_deleted,
        **_emptied(report.emptied),
    }


def facts_of_emptied(emptied: Emptied) -> RunFacts:
    """Returns the facts of the end of a run of several tasks, which empties the trash."""
    return RunFacts(sums=_emptied(emptied), checkpoint=_by_code(emptied.findings))


def _by_code(findings: Iterable[Finding]) -> dict[str, int]:
    return dict(Counter(finding.code.value for finding in findings))


def _emptied(emptied: Emptied) -> dict[str, int]:
    return {"trash_files": emptied.files, "trash_bytes": emptied.bytes}


def _counts(report: Report) -> dict[str, dict[str, int]]:
    return {
        "outcomes": dict(Counter(store.state.value for store in report.stores)),
        "findings": _by_code(finding for store in report.stores for finding in store.findings),
        "deleted": dict(report.files_deleted),
        "requests": dict(report.requests),
        "withheld": dict(Counter(waiting.wait.reason.value for waiting in report.withheld)),
    }


def planned_units(plan: Plan) -> list[Unit]:
    """Returns the partitions of a plan, as they were before it."""
    reports = (summarize(it, (), plan.target_of(it.store.id)) for it in plan.stores)
    return units_of(reports, plan.forecast)


def units_of(stores: Iterable[StoreReport], forecast: Forecast) -> list[Unit]:
    partitions: dict[UnitId, list[StoreReport]] = defaultdict(list)
    for store in stores:
        partitions[store.after.id.unit].append(store)
    return [_unit(unit, of_unit, forecast) for unit, of_unit in sorted(partitions.items())]


def _unit(unit: UnitId, stores: Sequence[StoreReport], forecast: Forecast) -> Unit:
    replays = [replay_of(store.after, store.target, forecast.record) for store in stores]
    loads = [replay for replay in replays if replay]
    findings = [finding.damage for store in stores for finding in store.findings]
    return Unit(
        operator=unit.operator,
        partition=unit.partition,
        chain=max(replay.change_files for replay in loads) if len(loads) == len(replays) else None,
        files=sum(len(store.after.files) for store in stores),
        bytes=sum(store.after.size for store in stores),
        replay_files=sum(replay.files for replay in loads),
        replay_bytes=sum(replay.bytes for replay in loads),
        reclaimable=sum(store.reclaimable for store in stores),
        damage=sum(findings),
        notices=len(findings) - sum(findings),
        seconds=round(sum(map(forecast.takes, loads)), 3),
        halted=sum(store.state is StoreOutcome.HALTED for store in stores),
    )


def _snapshot(store: Store) -> float:
    snapshots = store.versions.snapshots
    return snapshots[max(snapshots)].entry.modified or 0.0 if snapshots else 0.0


def _worst(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """Returns the worst partitions: one that does not load is worse than any other."""
    ranked = sorted(units, key=lambda unit: (unit.chain is not None, -unit.seconds, unit[:2]))
    return tuple(ranked[:WORST])


def merged(join: Callable[[_T, _T], _T], *parts: Mapping[str, _T]) -> dict[str, _T]:
    """Returns what the parts have under each name, joined if several have it."""
    names = sorted({name for part in parts for name in part})
    return {name: reduce(join, [part[name] for part in parts if name in part]) for name in names}
