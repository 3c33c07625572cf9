"""Compares the forecast with restarts that no fit has seen, and writes the table of the docs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import NamedTuple

from statemaint.model.restart_costs import Costs, costs_of
from tests.restarts.fit import NAMES, Line, load_of, of
from tests.restarts.run import PROVIDERS, SPARKS

WITHIN, WIDEST, ERROR = 0.9, 2.0, 0.2
HEADER = (
    "| computer | restarts | checkpoints | within the range | median error | widest |\n"
    "|---|---|--:|--:|--:|--:|"
)
_SAME, _SLOW = "the calibrated one", "a slow one, by a past restart of each query"
_UNCORRECTED, _ALL = "a slow one, uncorrected", "all"


@dataclass(frozen=True, slots=True)
class Checked:
    """How the forecast did on some points; only all points of a computer are enough to hold."""

    computer: str
    kind: str  # provider, Spark and kind of restart
    within: float
    error: float
    widest: float
    count: int

    @property
    def holds(self) -> bool:
        """Returns whether it did as it has to; uncorrected, it does not have to."""
        kept = self.within >= WITHIN and self.error < ERROR and self.widest <= WIDEST + 1e-9
        return kept or self.computer == _UNCORRECTED or self.kind != _ALL

    def __str__(self) -> str:
        return (
            f"| {self.computer} | {self.kind} | {self.count} | {self.within:.0%} "
            f"| {self.error:.0%} | {self.widest:.2f} x |"
        )


def check(lines: Sequence[Line]) -> Iterator[Checked]:
    for computer, slow in ((_SAME, False), (_SLOW, True), (_UNCORRECTED, True)):
        every: list[_Compared] = []
        for provider, spark, warm in product(PROVIDERS, SPARKS, (True, False)):
            costs = costs_of(NAMES[provider], spark, warm=warm)
            points = of(lines, provider, spark, warm=warm)
            compared = [
                _compared(line, costs, corrected=computer == _SLOW)
                for line in points
                if line["slow"] == slow
            ]
            every += compared
            if compared:
                mode = "warm" if warm else "cold"
                yield _checked(computer, f"{provider}, Spark {spark}, {mode}", compared)
        if every:
            yield _checked(computer, _ALL, every)


class _Compared(NamedTuple):
    within: bool
    error: float
    width: float


def _compared(line: Line, costs: Costs, *, corrected: bool) -> _Compared:
    if corrected:
        past = line["past"]
        expected = load_of(past).seconds(costs, past["slots"]).middle
        costs = costs.times(median(past["seconds"]) / expected)
    took, forecast = median(line["seconds"]), load_of(line).seconds(costs, line["slots"])
    error = abs(forecast.middle / took - 1)
    return _Compared(forecast.low <= took <= forecast.high, error, forecast.high / forecast.low)


def _checked(computer: str, kind: str, found: Sequence[_Compared]) -> Checked:
    within = sum(each.within for each in found) / len(found)
    error, widest = median(each.error for each in found), max(each.width for each in found)
    return Checked(computer, kind, within, error, widest, len(found))
