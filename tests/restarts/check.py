"""Compares the forecast with restarts that no fit has seen, and writes the table of the docs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

from statemaint.model.restart_costs import costs_of
from tests.restarts.fit import NAMES, Line, load_of, of
from tests.restarts.run import PROVIDERS, SPARKS

WITHIN, WIDEST, ERROR = 0.9, 2.0, 0.2
HEADER = (
    "| computer | provider | Spark | restart | checkpoints | within the range | median error "
    "| widest |\n|---|---|---|---|--:|--:|--:|--:|"
)
_SAME, _SLOW = "the calibrated one", "a slow one, by a past restart of each query"
_UNCORRECTED = "a slow one, uncorrected"


@dataclass(frozen=True, slots=True)
class Checked:
    """How the forecast did on one provider, Spark and kind of restart."""

    computer: str
    provider: str
    spark: str
    warm: bool
    within: float
    error: float
    widest: float
    count: int

    @property
    def holds(self) -> bool:
        """Returns whether it did as it has to; uncorrected, it does not have to."""
        kept = self.within >= WITHIN and self.error < ERROR and self.widest <= WIDEST + 1e-9
        return kept or self.computer == _UNCORRECTED

    def __str__(self) -> str:
        mode = "warm" if self.warm else "cold"
        return (
            f"| {self.computer} | {self.provider} | {self.spark} | {mode} | {self.count} "
            f"| {self.within:.0%} | {self.error:.0%} | {self.widest:.2f} x |"
        )


def check(lines: Sequence[Line]) -> Iterator[Checked]:
    for computer, slow in ((_SAME, False), (_SLOW, True), (_UNCORRECTED, True)):
        for provider, spark, warm in product(PROVIDERS, SPARKS, (True, False)):
            of_kind = of(lines, provider, spark, warm=warm)
            points = [line for line in of_kind if line["slow"] == slow]
            if points:
                yield _checked(computer, points, provider, spark, warm=warm)


def _checked(
    computer: str, points: list[Line], provider: str, spark: str, *, warm: bool
) -> Checked:
    costs = costs_of(NAMES[provider], spark, warm=warm)
    within, errors, widths = 0, [], []
    for point in points:
        took = median(point["seconds"])
        of_query = costs
        if computer == _SLOW:
            past = point["past"]
            expected = load_of(past).seconds(costs, past["slots"]).middle
            of_query = costs.times(median(past["seconds"]) / expected)
        forecast = load_of(point).seconds(of_query, point["slots"])
        within += forecast.low <= took <= forecast.high
        errors.append(abs(forecast.middle / took - 1))
        widths.append(forecast.high / forecast.low)
    share, error = within / len(points), median(errors)
    return Checked(computer, provider, spark, warm, share, error, max(widths), len(points))
