"""Several stores at a time on local disk, within a budget of memory."""

import json

from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import Input, copy_of
from tests.benchmarks.processes import run_module
from tests.benchmarks.tables import STORES, seconds, times

WAYS = ((1, "1GB"), (2, "1GB"), (2, "256MB"), (8, "256MB"))
_MEBIBYTE = 1024 * 1024 / 1_000_000


def run(bench: Bench, case: Case, ways: tuple[tuple[int, str], ...] = WAYS) -> None:
    """Measures the ways to maintain a case; they take turns, so that they meet the same noise."""
    given = bench.prepare(case)
    taken: dict[tuple[int, str], list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(bench.repeat):
        for workers, memory in ways:
            bench.results.say(f"{case.name}: {workers} workers, {memory}")
            taken[workers, memory].append(_once(given, workers, memory))
    alone = min(one["seconds"] for one in taken[ways[0]])
    for (workers, memory), runs in taken.items():
        least = min(one["seconds"] for one in runs)
        cpu, peak = min(one["cpu"] for one in runs), max(one["peak"] for one in runs)
        cells = seconds(least), seconds(cpu), times(alone / least), f"{peak * _MEBIBYTE:.0f}"
        bench.results.add(STORES, case.name, str(workers), memory, *cells)


def _once(given: Input, workers: int, memory: str) -> dict[str, float]:
    with copy_of(given) as root:
        told = run_module("tests.benchmarks.stores_child", str(root), str(workers), memory)
    found: dict[str, float] = json.loads(told)
    return found
