"""Readable values of state: JSON's own types, and text for the others.

    struct       object                       a repeated name gets a number: `id`, `id (2)`
    array        array
    map          object where keys are text, else an array of {"key": .., "value": ..}
    decimal      text: "12.50"                JSON's numbers would lose digits
    float, double  number, and "NaN", "Infinity", "-Infinity"
    binary       text in base64
    date         "2026-01-31"
    timestamp    "2026-01-31T23:59:59.000000Z" (UTC); `timestamp_ntz` the same without its Z
    intervals    Spark's own text: "INTERVAL '1-2' YEAR TO MONTH"

Dates are of the proleptic Gregorian calendar and of any year, unlike Python's own.
"""

import math
import struct
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from typing import Any, assert_never

from statemaint.codec.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

Json = Any

_SECOND = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND
_FLOAT = struct.Struct("<f")
_FEWEST_DIGITS, _MOST_DIGITS = 6, 9
_FOUR_DIGITS = 9999
_MINUS = ("", "-")
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def shower(kind: DataType) -> Callable[[Any], Json]:
    """Returns the function that makes values of a type readable; `None` stays `None`."""
    show = _shower(kind)
    return lambda value: None if value is None else show(value)


def _shower(kind: DataType) -> Callable[[Any], Json]:
    match kind:
        case StructType():
            return _struct(kind)
        case ArrayType(element):
            show = shower(element)
            return lambda value: [show(item) for item in value]
        case MapType(key, value):
            return _map(kind, shower(key), shower(value))
        case DecimalType():
            return lambda value: f"{value:f}"
        case AtomicType(name):
            return _ATOMIC.get(name, lambda value: value)
        case _:
            assert_never(kind)


def _struct(kind: StructType) -> Callable[[Any], Json]:
    names, showers = field_names(kind), [shower(field.type) for field in kind.fields]
    return lambda row: {
        name: show(item) for name, show, item in zip(names, showers, row, strict=True)
    }


def field_names(kind: StructType) -> tuple[str, ...]:
    """Returns distinct names for a struct's fields."""
    names: list[str] = []
    seen: Counter[str] = Counter()
    for field in kind.fields:
        seen[field.name] += 1
        names.append(field.name if seen[field.name] == 1 else f"{field.name} ({seen[field.name]})")
    return tuple(names)


def _map(
    kind: MapType, key: Callable[[Any], Json], value: Callable[[Any], Json]
) -> Callable[[Any], Json]:
    if kind.key == AtomicType("string"):
        return lambda pairs: {key(name): value(item) for name, item in pairs}
    return lambda pairs: [{"key": key(name), "value": value(item)} for name, item in pairs]


def _date(days: int) -> str:
    """Returns the date of a day since 1970; a year begins in March here, so leap days are last."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9  # noqa: PLR2004 -- March is month 0
    year += era * 400 + (month <= 2)  # noqa: PLR2004
    sign = "-" if year < 0 else "+" if year > _FOUR_DIGITS else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _clock(micros: int) -> tuple[int, str, int]:
    """Returns the days of a time, the rest as HH:MM:SS, and its microseconds."""
    days, rest = divmod(micros, _DAY)
    hour, rest = divmod(rest, _HOUR)
    minute, rest = divmod(rest, _MINUTE)
    return days, f"{hour:02}:{minute:02}:{rest // _SECOND:02}", rest % _SECOND


def _moment(micros: int) -> str:
    days, clock, fraction = _clock(micros)
    return f"{_date(days)}T{clock}.{fraction:06}"


def _year_month(months: int) -> str:
    years, rest = divmod(abs(months), 12)
    return f"INTERVAL '{_MINUS[months < 0]}{years}-{rest}' YEAR TO MONTH"


def _day_time(micros: int) -> str:
    days, clock, fraction = _clock(abs(micros))
    return f"INTERVAL '{_MINUS[micros < 0]}{days} {clock}{_fraction(fraction)}' DAY TO SECOND"


def _fraction(micros: int) -> str:
    return f".{micros:06}".rstrip("0").rstrip(".")


def _calendar(parts: tuple[int, int, int]) -> str:
    """Returns the same as `CalendarInterval.toString`: every part that is not 0, with its sign."""
    months, days, micros = parts
    years, months = _toward_zero(months, 12)
    hours, micros = _toward_zero(micros, _HOUR)
    minutes, micros = _toward_zero(micros, _MINUTE)
    whole = {"years": years, "months": months, "days": days, "hours": hours, "minutes": minutes}
    shown = [f"{number} {unit}" for unit, number in whole.items() if number]
    if micros:
        whole_seconds, rest = divmod(abs(micros), _SECOND)
        shown.append(f"{_MINUS[micros < 0]}{whole_seconds}{_fraction(rest)} seconds")
    return " ".join(shown) or "0 seconds"


def _toward_zero(number: int, unit: int) -> tuple[int, int]:
    whole = abs(number) // unit * (1 if number >= 0 else -1)
    return whole, number - whole * unit


def _double(number: float) -> float | str:
    return number if math.isfinite(number) else _NOT_FINITE[str(number)]


def _float(number: float) -> float | str:
    """Returns the shortest decimal number that has the same 32 bits."""
    if not math.isfinite(number):
        return _double(number)
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
        short = float(f"{number:.{digits}g}")
        if _FLOAT.pack(short) == _FLOAT.pack(number):
            return short
    return float(f"{number:.{_MOST_DIGITS}g}")


_ATOMIC: dict[str, Callable[[Any], Json]] = {
    "float": _float,
    "double": _double,
    "binary": lambda value: b64encode(value).decode(),
    "date": _date,
    "timestamp": lambda value: f"{_moment(value)}Z",
    "timestamp_ntz": _moment,
    "year-month": _year_month,
    "day-time": _day_time,
    "interval": _calendar,
}
