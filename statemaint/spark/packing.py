"""Spreads work evenly over Spark's tasks. Pure."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

_T = TypeVar("_T")
# Tasks for each core: enough that the last ones end together.
TASKS_A_CORE = 4
# The fixed cost of a unit, as bytes: work is not split below ten times that.
_LEAST = 10_000_000.0


def shares(weights: Mapping[str, float], cores: int) -> dict[str, int]:
    """Returns the number of units into which the work of each query is split.

    A unit is at most a task's even share of all work, so that the others do not wait for it; quick
    work is not split.

    Args:
        weights: the work of each query, in bytes.
        cores: the number of tasks that run at a time.
    """
    most = max(sum(weights.values()) / (cores * TASKS_A_CORE), _LEAST)
    return {query: max(1, -(-int(weight) // int(most))) for query, weight in weights.items()}


def deal(work: Sequence[tuple[_T, float]], tasks: int) -> list[list[_T]]:
    """Returns the work of each task, the heaviest first: within each task, and of the tasks.

    Spark starts tasks in order, so the longest ones start first.

    Args:
        work: each piece with its weight.
        tasks: the number of tasks; fewer if there are fewer pieces.
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
