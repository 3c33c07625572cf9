"""The partitions that each task of a run maintains: a mapped task of Airflow, a unit of Spark."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil
from typing import TypeVar

from statemaint.execute.stores import bytes_read
from statemaint.model.ids import UnitId
from statemaint.plan.actions import Delete, Plan
from statemaint.records.claims import Holder

# The cost of a partition in addition to the bytes read, and the cost of a deletion, as bytes.
PER_PARTITION = 100_000.0
_PER_DELETION = 2_000.0
# A separate task spends about a second of CPU time on loading the compiled loops: less work than
# this is not worth it. Without an earlier run, the work is estimated from a local disk.
_SECONDS_PER_TASK = 5.0
_PER_SECOND = 200_000_000.0
# Units on executors: at least ten times the cost of a unit in addition to its work, and a bounded
# number, as their outcomes come back together.
PER_UNIT = 10_000_000.0
_MOST_UNITS = 1024
# A few in any case: the first run may be on a remote storage, where most of the work is waiting.
_FEWEST, MOST_TASKS = 4, 16
_T = TypeVar("_T")

Costs = Mapping[str, float]
"""Seconds per weight of each partition in an earlier run, by the partition's name."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Partitions of one operator that one task maintains, at the version that `plan` fixed."""

    operator: int
    partitions: tuple[int, ...]
    target: int
    holder: Holder | None = None
    weight: float = 0.0
    # The plan's, if the policy limits a restart: a task does not see what the others have.
    snapshots_from: float | None = None

    @property
    def label(self) -> str:
        """Returns the display name: `op 0 / part 3`, `op 0 / parts 0-7`."""
        first, last = self.partitions[0], self.partitions[-1]
        if first == last:
            return str(UnitId(self.operator, first))
        gaps = len(self.partitions) != last - first + 1
        count = f" ({len(self.partitions)} of them)" if gaps else ""
        return f"op {self.operator} / parts {first}-{last}{count}"

    @property
    def key(self) -> str:
        """Returns a short name that is unique in its run."""
        return f"{self.operator}-{self.partitions[0]}"

    @property
    def units(self) -> tuple[UnitId, ...]:
        return tuple(UnitId(self.operator, partition) for partition in self.partitions)


def weights(plan: Plan, costs: Costs) -> dict[UnitId, float]:
    """Returns the estimated work of each partition that has any.

    This is the bytes to read, scaled by the slowness of the partition in the last run that had it.
    A partition that is not in that run counts as slow as the others.
    """
    found = dict.fromkeys(plan.units, PER_PARTITION)
    for store in plan.stores:
        if (unit := store.store.id.unit) in found:
            deletions = sum(isinstance(action, Delete) for action in store.actions)
            found[unit] += bytes_read(store) + _PER_DELETION * deletions
    usual = sum(costs.values()) / len(costs) if costs else 0.0
    if not usual:
        return found
    return {unit: weight * costs.get(str(unit), usual) / usual for unit, weight in found.items()}


def task_count(units: Mapping[UnitId, float], costs: Costs, chosen: int | None = None) -> int:
    """Returns the number of tasks for the partitions; if it is larger, each has its own.

    `chosen` is the number that the operator has set; by default as many as the work is worth.
    """
    if chosen is not None or len(units) <= MOST_TASKS:
        return chosen or MOST_TASKS
    per_second = len(costs) / sum(costs.values()) if sum(costs.values()) else _PER_SECOND
    seconds = sum(units.values()) / per_second
    return min(MOST_TASKS, max(_FEWEST, ceil(seconds / _SECONDS_PER_TASK)))


def unit_count(units: Mapping[UnitId, float]) -> int:
    """Returns the number of units that partitions are worth if tasks are cheap, as on executors."""
    return min(_MOST_UNITS, max(1, ceil(sum(units.values()) / PER_UNIT)))


def costs_of(planned: Iterable[Bundle], seconds: Mapping[str, float]) -> dict[str, float]:
    """Returns the seconds per weight of each partition of a run.

    `seconds` has how long each took, by its label; bundles without a report are left out.
    """
    return {
        str(unit): seconds[bundle.label] / bundle.weight
        for bundle in planned
        if bundle.weight and bundle.label in seconds
        for unit in bundle.units
    }


def bundles(
    units: Mapping[UnitId, float],
    *,
    target: int,
    most: int,
    holder: Holder | None = None,
    snapshots_from: float | None = None,
) -> tuple[Bundle, ...]:
    """Returns bundles of about equal weight, with every partition in exactly one.

    Each partition has its own bundle if there are no more than `most`. A bundle never mixes
    operators, so with more than `most` operators there are more than `most` bundles.
    """
    operators: dict[int, dict[int, float]] = defaultdict(dict)
    for unit, weight in sorted(units.items()):
        operators[unit.operator][unit.partition] = weight
    shares = _shares(operators, max(most, len(operators)))
    return tuple(
        Bundle(operator, part, target, holder, sum(work[number] for number in part), snapshots_from)
        for operator, work in operators.items()
        for part in sorted(tuple(sorted(some)) for some in deal(work.items(), shares[operator]))
    )


def _shares(operators: Mapping[int, Mapping[int, float]], most: int) -> dict[int, int]:
    """Returns the number of bundles of each operator: the heaviest bundles are split first."""
    shares = dict.fromkeys(operators, 1)
    heap = [(-sum(found.values()), operator) for operator, found in operators.items()]
    heapify(heap)
    left = most - len(shares)
    while left > 0 and heap:
        _, operator = heappop(heap)
        if shares[operator] == len(operators[operator]):
            continue
        shares[operator] += 1
        left -= 1
        heappush(heap, (-sum(operators[operator].values()) / shares[operator], operator))
    return shares


def deal(work: Iterable[tuple[_T, float]], tasks: int) -> list[list[_T]]:
    """Returns the work of each task, the heaviest first: in each task, and of the tasks.

    Spark starts tasks in their order, so the longest ones start first.
    """
    ordered = sorted(work, key=lambda pair: -pair[1])
    dealt: list[list[_T]] = [[] for _ in range(min(tasks, len(ordered)))]
    heap = [(0.0, 0, number) for number in range(len(dealt))]
    for piece, weight in ordered:
        total, pieces, number = heappop(heap)
        dealt[number].append(piece)
        heappush(heap, (total + weight, pieces + 1, number))
    order = sorted(heap, key=lambda task: (-task[0], task[2]))
    return [dealt[number] for _, _, number in order]
