"""Compares the forecast with restarts that no fit has seen, and prints the table of the docs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

from statemaint.model.restart_costs import costs_of
from tests.restarts.fit import NAMES, Line, load_of, of
from tests.restarts.run import PROVIDERS, SPARKS

WITHIN, WIDEST, ERROR = 0.9, 2.0, 0.2
HEADER = (
    "| provider | Spark | restart | checkpoints | within the range | median error | widest |\n"
    "|---|---|---|--:|--:|--:|--:|"
)


@dataclass(frozen=True, slots=True)
class Checked:
    """How the forecast did on one provider, Spark and kind of restart."""

    provider: str
    spark: str
    warm: bool
    within: float
    error: float
    widest: float
    count: int

    @property
    def holds(self) -> bool:
        return self.within >= WITHIN and self.error < ERROR and self.widest <= WIDEST + 1e-9

    def __str__(self) -> str:
        return (
            f"| {self.provider} | {self.spark} | {'warm' if self.warm else 'cold'} | {self.count} "
            f"| {self.within:.0%} | {self.error:.0%} | {self.widest:.2f} x |"
        )


def check(lines: Sequence[Line]) -> Iterator[Checked]:
    for provider, spark, warm in product(PROVIDERS, SPARKS, (True, False)):
        if points := of(lines, provider, spark, warm=warm):
            yield _checked(points, provider, spark, warm=warm)


def _checked(points: list[Line], provider: str, spark: str, *, warm: bool) -> Checked:
    costs = costs_of(NAMES[provider], spark, warm=warm)
    within, errors, widths = 0, [], []
    for point in points:
        took = median(point["seconds"])
        forecast = load_of(point).seconds(costs, point["slots"])
        within += forecast.low <= took <= forecast.high
        errors.append(abs((forecast.low * forecast.high) ** 0.5 / took - 1))
        widths.append(forecast.high / forecast.low)
    share = within / len(points)
    return Checked(provider, spark, warm, share, median(errors), max(widths), len(points))
