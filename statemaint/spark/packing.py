"""How work is spread over Spark's tasks, so that they are even. Pure."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

_T = TypeVar("_T")
# Tasks for each core: enough that the last ones end together.
TASKS_A_CORE = 4
# What a unit costs beside its work, as bytes: it is not split below ten times that.
_LEAST = 10_000_000.0


def shares(weights: Mapping[str, float], cores: int) -> dict[str, int]:
    """Returns how many units the work of each query is split into.

    A unit is at most a task's even share of all work, so that no query's unit is what the others
    wait for; and work that is done at once is not split.

    Args:
        weights: the work of each query, in bytes.
        cores: how many tasks run at a time.
    """
    most = max(sum(weights.values()) / (cores * TASKS_A_CORE), _LEAST)
    return {query: max(1, -(-int(weight) // int(most))) for query, weight in weights.items()}


def deal(work: Sequence[tuple[_T, float]], tasks: int) -> list[list[_T]]:
    """Returns what each task does, the heaviest first: in each task, and of the tasks.

    Spark starts tasks in their order, so that the longest ones start first.

    Args:
        work: each piece with its weight.
        tasks: the number of tasks; fewer where there are fewer pieces.
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
