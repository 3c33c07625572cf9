"""Values as people read them: dates, times, intervals and numbers."""

import math
from datetime import date, timedelta
from typing import Any

import pytest

from statemaint.codec.rows.display import shower
from statemaint.codec.rows.types import parse_struct

EPOCH = date(1970, 1, 1)


def shown(kind: str, value: Any) -> Any:
    fields = [{"name": "a", "type": kind, "nullable": True}]
    return shower(parse_struct({"type": "struct", "fields": fields}).fields[0].type)(value)


@pytest.mark.parametrize("year", [1, 4, 100, 400, 1582, 1900, 1970, 1999, 2000, 2024, 2100, 9999])
def test_each_day_of_a_year_has_its_date(year: int) -> None:
    first = date(year, 1, 1)
    for number in range(365):
        day = first + timedelta(number)
        assert shown("date", (day - EPOCH).days) == day.isoformat()


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (-719_469, "0000-02-29"),
        (-865_565, "-0400-03-01"),
        (-865_566, "-0400-02-29"),
    ],
)
def test_a_year_of_another_length_has_a_sign(days: int, expected: str) -> None:
    assert shown("date", days) == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("timestamp", 0, "1970-01-01T00:00:00.000000Z"),
        ("timestamp_ntz", -1, "1969-12-31T23:59:59.999999"),
        ("timestamp", 86_399_999_999 + 86_400_000_000, "1970-01-02T23:59:59.999999Z"),
        ("interval year to month", 0, "INTERVAL '0-0' YEAR TO MONTH"),
        ("interval year to month", 12, "INTERVAL '1-0' YEAR TO MONTH"),
        ("interval year to month", -313, "INTERVAL '-26-1' YEAR TO MONTH"),
        ("interval day to second", 0, "INTERVAL '0 00:00:00' DAY TO SECOND"),
        ("interval day to second", 1, "INTERVAL '0 00:00:00.000001' DAY TO SECOND"),
        ("interval day to second", -90_061_100_000, "INTERVAL '-1 01:01:01.1' DAY TO SECOND"),
        ("interval", (0, 0, 0), "0 seconds"),
        (
            "interval",
            (13, -2, 3_661_500_000),
            "1 years 1 months -2 days 1 hours 1 minutes 1.5 seconds",
        ),
        ("interval", (-13, 0, -61_000_001), "-1 years -1 months -1 minutes -1.000001 seconds"),
        ("interval", (11, 0, 10_000_000), "11 months 10 seconds"),
        ("double", 1.5, 1.5),
        ("double", 0.0, 0.0),
        ("double", math.inf, "Infinity"),
        ("double", -math.inf, "-Infinity"),
        ("double", math.nan, "NaN"),
        ("float", math.inf, "Infinity"),
        ("float", 0.10000000149011612, 0.1),
        ("float", 16777216.0, 16777216.0),
        ("binary", b"\0\xff", "AP8="),
        ("long", 7, 7),
        ("string", None, None),
    ],
)
def test_a_value_is_shown(kind: str, value: Any, expected: Any) -> None:
    assert shown(kind, value) == expected
