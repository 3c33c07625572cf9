"""How things are timed."""

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import ParamSpec

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Seconds:
    """By the clock, and of this process's CPU."""

    wall: float
    cpu: float

    def __add__(self, other: "Seconds") -> "Seconds":
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)


def timed(work: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Seconds:
    """Returns how long some work took; what earlier work left behind is collected before."""
    gc.collect()
    cpu, began = time.process_time(), time.perf_counter()
    work(*args, **kwargs)
    return Seconds(time.perf_counter() - began, time.process_time() - cpu)


def median_of(samples: Iterable[Seconds]) -> Seconds:
    """Returns the median of clock and CPU, each for itself."""
    taken = tuple(samples)
    return Seconds(median(one.wall for one in taken), median(one.cpu for one in taken))
