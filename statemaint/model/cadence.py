"""How often a query commits, by the times of its commit log. Pure."""

from collections.abc import Iterable
from itertools import pairwise
from statistics import median

_HOUR, _DAY = 3600.0, 86_400.0
_TIMES = 3


def silent_after(times: Iterable[float | None]) -> float:
    """Returns the age of the newest commit, in seconds, from which the query may have stopped.

    That is three times the longest pause between commits, or a day if commits are usually closer;
    but never less than an hour, nor than one and a half times a pause that it has made twice. An
    `AvailableNow` query commits several batches, and then pauses. Equal times are those of a copy.
    """
    ordered = sorted({time for time in times if time is not None})
    pauses = sorted(later - earlier for earlier, later in pairwise(ordered))
    if not pauses:
        return _DAY
    usual, made_twice = max(_DAY, _TIMES * median(pauses)), pauses[-2] if pauses[1:] else 0.0
    return max(_HOUR, 1.5 * made_twice, min(_TIMES * pauses[-1], usual))
