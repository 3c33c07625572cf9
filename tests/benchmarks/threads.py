"""Two partitions in two threads against one after the other."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TypeVar

from tests.benchmarks import ours
from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import copy_of
from tests.benchmarks.measure import timed
from tests.benchmarks.tables import THREADS, seconds, times

T = TypeVar("T")
# About as long a work as one of the folds.
_HASHED = bytes(256 * 1024 * 1024)


def run(bench: Bench, case: Case) -> None:
    """Measures what a second thread brings, and what it brings at best on this machine."""
    given = bench.prepare(case)
    bench.results.say(f"{case.name}: two threads")

    def fold(root: Path) -> None:
        ours.fold_and_write(root, case.last)

    def folds(workers: int) -> float:
        with copy_of(given) as one, copy_of(given) as other:
            return _both(fold, (one, other), workers)

    _compare(bench, case.name, folds)
    # Hashing needs no interpreter: where it gains nothing either, the second core was not free.
    hashes = (_HASHED, _HASHED)
    _compare(bench, "hashing alone", lambda workers: _both(hashlib.sha256, hashes, workers))


def _both(work: Callable[[T], object], on: tuple[T, T], workers: int) -> float:
    with ThreadPoolExecutor(workers) as pool:
        return timed(lambda: list(pool.map(work, on))).wall


def _compare(bench: Bench, name: str, both: Callable[[int], float]) -> None:
    """Adds a line; the two ways take turns, so that they meet the same noise."""
    taken = [(both(1), both(2)) for _ in range(1 + bench.repeat)][1:]
    slow, fast = median(one for one, _ in taken), median(two for _, two in taken)
    bench.results.add(THREADS, name, seconds(slow), seconds(fast), times(slow / fast))
