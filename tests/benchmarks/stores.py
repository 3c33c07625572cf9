"""Several stores at a time on local disk, within a budget of memory."""

import json
from concurrent.futures import ThreadPoolExecutor

from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import Input, copy_of
from tests.benchmarks.processes import run_module
from tests.benchmarks.tables import STORES, seconds, times

WAYS = ((1, "1GB"), (2, "1GB"), (4, "1GB"), (4, "256MB"), (8, "256MB"))
_Told = dict[str, float]
_MEBIBYTE = 1024 * 1024 / 1_000_000


def run(bench: Bench, case: Case, ways: tuple[tuple[int, str], ...] = WAYS) -> None:
    """Measures the ways to maintain a case; they take turns, so that they meet the same noise."""
    given = bench.prepare(case)
    taken: dict[tuple[int, str], list[_Told]] = {way: [] for way in ways}
    beside: list[_Told] = []
    for _ in range(bench.repeat):
        for workers, memory in ways:
            bench.results.say(f"{case.name}: {workers} workers, {memory}")
            taken[workers, memory].append(_once(given, workers, memory))
        bench.results.say(f"{case.name}: two processes of one worker")
        beside.append(_twice(given))
    alone = min(one["seconds"] for one in taken[ways[0]])
    for (workers, memory), runs in taken.items():
        bench.results.add(STORES, case.name, str(workers), memory, *_cells(runs, alone))
    bench.results.add(STORES, case.name, "2 processes", "1GB each", *_cells(beside, alone))


def _cells(runs: list[_Told], alone: float) -> tuple[str, ...]:
    least = min(one["seconds"] for one in runs)
    cpu, peak = min(one["cpu"] for one in runs), max(one["peak"] for one in runs)
    return seconds(least), seconds(cpu), times(alone / least), f"{peak * _MEBIBYTE:.0f}"


def _twice(given: Input) -> _Told:
    """Measures two processes that maintain a copy each, per copy: what the two cores can give."""
    with ThreadPoolExecutor(2) as pool:
        both = [one.result() for one in [pool.submit(_once, given, 1, "1GB") for _ in "ab"]]
    return {
        "seconds": max(one["seconds"] for one in both) / 2,
        "cpu": sum(one["cpu"] for one in both) / 2,
        "peak": sum(one["peak"] for one in both),
    }


def _once(given: Input, workers: int, memory: str) -> _Told:
    with copy_of(given) as root:
        told = run_module("tests.benchmarks.stores_child", str(root), str(workers), memory)
    found: _Told = json.loads(told)
    return found
