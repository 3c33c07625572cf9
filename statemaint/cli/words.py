"""Sizes and times in words."""

from rich.filesize import decimal

from statemaint.wording import counted


def files_of(number: int, size: int) -> str:
    """Returns a number of files and their size."""
    return f"{counted(number, 'file')} ({decimal(size)})"


def lasting(seconds: float) -> str:
    """Returns a time span, such as `0.4 s`, `12 s`, `3 min 20 s` and `2 h 5 min`."""
    if seconds < 10:  # noqa: PLR2004 -- where a tenth matters
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"  # noqa: PLR2004
