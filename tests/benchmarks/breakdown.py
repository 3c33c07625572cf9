"""Where the time of a fold goes: its steps, each behind a stopwatch."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from statemaint.fold.compiled.input import Scanner
from statemaint.fold.compiled.kernels import records
from statemaint.fold.compiled.output import Output
from statemaint.fold.compiled.window import Table
from tests.benchmarks import ours
from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import Input, copy_of
from tests.benchmarks.measure import timed
from tests.benchmarks.tables import BREAKDOWN

# What each step does, and the function that does nothing else.
_STEPS: dict[str, tuple[Any, str]] = {
    "read, decompress and check": (Scanner, "_more"),
    "deltas: hash the keys and enter them": (records, "decide"),
    "deltas: digest what is kept": (records, "pick_decided"),
    "base: hash, look up, digest what is kept": (records, "pick_undecided"),
    "copy what is kept": (records, "gather"),
    "compress": (Output, "_cut"),
    "grow the table": (Table, "grow"),
}
_REST = "write, sync, and all the rest"


def run(bench: Bench, case: Case) -> None:
    """Measures the steps of one case."""
    given = bench.prepare(case)
    bench.results.say(f"{case.name}: breakdown")
    samples = [_once(given) for _ in range(1 + bench.repeat)][1:]
    for step in (*_STEPS, _REST, "all"):
        milliseconds = 1000 * median(one[step] for one in samples)
        bench.results.add(BREAKDOWN, step, f"{milliseconds:.1f}")


def _once(given: Input) -> dict[str, float]:
    taken: dict[str, float] = defaultdict(float)
    with copy_of(given) as root, _watched(taken):
        whole = timed(ours.fold_and_write, root, given.case.last).wall
    steps = sum(taken.values())
    return {**dict.fromkeys(_STEPS, 0.0), **taken, _REST: whole - steps, "all": whole}


@contextmanager
def _watched(taken: dict[str, float]) -> Iterator[None]:
    plain = {step: getattr(owner, name) for step, (owner, name) in _STEPS.items()}
    for step, (owner, name) in _STEPS.items():
        setattr(owner, name, _timed(plain[step], step, taken))
    try:
        yield
    finally:
        for step, (owner, name) in _STEPS.items():
            setattr(owner, name, plain[step])


def _timed(work: Callable[..., Any], step: str, taken: dict[str, float]) -> Callable[..., Any]:
    def watched(*args: object, **kwargs: object) -> object:
        began = time.perf_counter()
        try:
            return work(*args, **kwargs)
        finally:
            taken[step] += time.perf_counter() - began

    return watched
