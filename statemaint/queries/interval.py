"""The interval between the runs of a schedule."""

from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from croniter import croniter  # type: ignore[import-untyped]

# Croniter knows the others.
_CRON = {"@quarterly": "0 0 1 */3 *"}
_SINCE = datetime(2026, 1, 1, tzinfo=UTC)
# A year of weeks shows weekends, months and quarters.
_RUNS = 60


@lru_cache(maxsize=2048)
def expected_interval(schedule: str | None) -> float | None:
    """Returns the longest time between two runs of a schedule, in seconds.

    Args:
        schedule: a valid schedule of the queries file; `None` if an Asset or a user decides.

    Returns:
        `None` if no schedule decides.
    """
    if schedule in (None, "@once"):
        return None
    runs = croniter(_CRON.get(str(schedule), schedule), _SINCE)
    times = [runs.get_next(float) for _ in range(_RUNS)]
    return float(max(later - earlier for earlier, later in pairwise(times)))
