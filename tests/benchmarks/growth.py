"""How the cost of fold + write grows with the state, the deltas and the chain."""

from collections.abc import Iterable

from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import Case
from tests.benchmarks.tables import GROWTH, seconds, times


def run(bench: Bench, cases: Iterable[Case]) -> None:
    """Measures some cases that differ in one thing."""
    for case in cases:
        given = bench.prepare(case)
        fold = bench.fold(given)
        count = given.facts.records
        bench.results.add(
            GROWTH,
            case.name,
            f"{count:,}",
            seconds(fold.ours.wall),
            seconds(fold.floor.total.wall),
            *map(times, fold.ratios),
            f"{fold.ours.wall / count * 1e9:.0f}",
        )
