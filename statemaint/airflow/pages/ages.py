"""Times and ages in words. Pure."""

from datetime import datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def ago(then: datetime | None, now: datetime) -> str:
    """Returns the age of a time: `just now`, `5 min ago`, `3 h ago`, `2 days ago`."""
    if then is None:
        return "never"
    seconds = (now - then).total_seconds()
    return "just now" if seconds < _MINUTE else f"{span(seconds)} ago"


def ahead(then: datetime, now: datetime) -> str:
    """Returns the time until a time: `due`, `in 5 min`."""
    seconds = (then - now).total_seconds()
    return "due" if seconds <= 0 else f"in {span(seconds)}"


def span(seconds: float) -> str:
    """Returns a duration, rounded down: `12 s`, `5 min`, `3 h`, `1 day`, `2 days`."""
    whole = max(int(seconds), 0)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        return f"{whole // _HOUR} h"
    days = whole // _DAY
    return f"{days} day{'s' * (days > 1)}"


def stamp(then: datetime | None) -> str:
    """Returns a time in UTC; empty without one."""
    return f"{then:%Y-%m-%d %H:%M} UTC" if then else ""
