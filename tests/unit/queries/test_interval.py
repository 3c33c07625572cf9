"""The longest time between two runs of a schedule."""

import pytest

from statemaint.queries.checks import PRESET_SCHEDULES, expected_interval

HOUR, DAY = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        (None, None),
        ("@once", None),
        ("@hourly", HOUR),
        ("@daily", DAY),
        ("@weekly", 7 * DAY),
        ("@quarterly", 92 * DAY),
        ("*/15 * * * *", HOUR / 4),
        ("0 9 * * 1-5", 3 * DAY),
        ("0 8,20 * * *", 12 * HOUR),
    ],
)
def test_the_interval_of_a_schedule_is_the_longest_of_a_year(
    schedule: str | None, seconds: float | None
) -> None:
    assert expected_interval(schedule) == seconds


@pytest.mark.parametrize("schedule", [one for one in PRESET_SCHEDULES if one != "@once"])
def test_every_preset_has_one(schedule: str) -> None:
    assert (expected_interval(schedule) or 0) >= HOUR
