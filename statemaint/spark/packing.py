"""Spreads work evenly over Spark's tasks. Pure."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

_T = TypeVar("_T")
# The units of a query are at most a core's even share of all work, divided by this.
TASKS_A_CORE = 4
# Tasks for each core: enough that the last ones end together. Spark spends about 50 ms of a core on
# each task with Python in it, whatever the task does.
MOST_TASKS_A_CORE = 4
# The cost of a unit in addition to its work, as bytes: it is not split below ten times that.
_LEAST = 10_000_000.0


def shares(weights: Mapping[str, float], cores: int) -> dict[str, int]:
    """Returns the number of units into which the work of each query is split.

    A unit is at most a task's even share of all work, so that the others wait for no query's unit;
    and small work is not split.
    """
    most = max(sum(weights.values()) / (cores * TASKS_A_CORE), _LEAST)
    return {query: max(1, -(-int(weight) // int(most))) for query, weight in weights.items()}


def deal(work: Sequence[tuple[_T, float]], tasks: int) -> list[list[_T]]:
    """Returns the work of each task, the heaviest first: in each task, and of the tasks.

    Spark starts tasks in their order, so the longest ones start first.
    """
    dealt: list[list[_T]] = [[] for _ in range(min(tasks, len(work)))]
    heap = [(0.0, 0, number) for number in range(len(dealt))]
    heapify(heap)
    for piece, weight in sorted(work, key=lambda one: -one[1]):
        total, pieces, number = heappop(heap)
        dealt[number].append(piece)
        heappush(heap, (total + weight, pieces + 1, number))
    order = sorted(heap, key=lambda one: (-one[0], one[2]))
    return [dealt[number] for _, _, number in order]
