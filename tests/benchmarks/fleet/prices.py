"""What requests and processors cost, at prices that are assumptions. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

ASSUMED = "November 2026"
# S3 Standard in us-east-1, at list price; deletions are free.
PER_THOUSAND = {"PUT": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004}
# An ordinary on-demand machine of general purpose, without Spark's surcharge of a managed service.
PER_CORE_HOUR = 0.05
_FREE = 0.0


@dataclass(frozen=True, slots=True)
class Hour:
    """What maintenance of something takes in an hour.

    Attributes:
        requests: their number, by kind.
        cpu: seconds of the processor.
    """

    requests: Mapping[str, float]
    cpu: float

    def __add__(self, other: "Hour") -> "Hour":
        kinds = self.requests.keys() | other.requests.keys()
        both = {
            one: self.requests.get(one, 0) + other.requests.get(one, 0) for one in sorted(kinds)
        }
        return Hour(both, self.cpu + other.cpu)

    def times(self, number: float) -> "Hour":
        """Returns what as many of it take."""
        return Hour(
            {kind: number * count for kind, count in self.requests.items()}, number * self.cpu
        )

    @property
    def all(self) -> float:
        """Returns the number of all requests."""
        return sum(self.requests.values())

    @property
    def cores(self) -> float:
        """Returns the cores that are busy for the whole hour."""
        return self.cpu / 3600

    @property
    def money(self) -> tuple[float, float]:
        """Returns the dollars of the requests, and of the cores."""
        asked = sum(
            count / 1000 * PER_THOUSAND.get(kind, _FREE) for kind, count in self.requests.items()
        )
        return asked, self.cores * PER_CORE_HOUR


def wider(narrow: Hour, wide: Hour, *, stores: tuple[int, int], to: int) -> Hour:
    """Returns what a query of another number of stores takes, on the line through two others.

    Args:
        narrow: what one takes.
        wide: what another one takes.
        stores: the number of stores of either.
        to: the number of stores that is asked for.
    """
    share = (to - stores[0]) / (stores[1] - stores[0])
    return narrow.times(1 - share) + wide.times(share)
