"""How often a query commits, by the times of its commit log. Pure."""

from collections.abc import Iterable
from itertools import pairwise
from statistics import median

_HOUR, _DAY = 3600.0, 86_400.0
_TIMES = 3


def silent_after(times: Iterable[float | None]) -> float:
    """Returns the age of the newest commit, in seconds, from which the query may have stopped.

    That is three times the longest pause between commits, or a day if commits are usually closer;
    never less than an hour. An `AvailableNow` query commits several batches, and then pauses.
    """
    ordered = sorted(time for time in times if time is not None)
    pauses = [later - earlier for earlier, later in pairwise(ordered)]
    if not pauses:
        return _DAY
    usual = max(_DAY, _TIMES * median(pauses))
    return max(_HOUR, min(_TIMES * max(pauses), usual))
