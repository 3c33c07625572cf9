"""Every number that makes maintenance safe or cheap, in one place, each with its reason."""

import re
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

from statemaint.errors import ConfigError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Value = float | str | timedelta | None
"""A setting's value as a script gives it: times are seconds, `7d` or a `timedelta`."""


def seconds(text: str) -> float:
    """Returns the seconds of a duration such as `90s`, `15m`, `1h`, `7d`; refuses other texts."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if not match:
        raise ConfigError(f"not a duration: {text!r}; write it like 90s, 15m, 1h or 7d")
    return float(match[1]) * _UNITS[match[2]]


def in_seconds(value: float | str | timedelta) -> float:
    if isinstance(value, str):
        return seconds(value)
    return value.total_seconds() if isinstance(value, timedelta) else value


def duration(value: float) -> str:
    """Returns seconds in the largest unit that gives a whole number: the inverse of `seconds`."""
    for unit in ("d", "h", "m"):
        if value and value % _UNITS[unit] == 0:
            return f"{int(value) // _UNITS[unit]}{unit}"
    return f"{int(value)}s" if value == int(value) else f"{value}s"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the policy, as flags, queries files, forms and documents show it."""

    name: str
    kind: type  # `int` for a number, `float` for a time in seconds, `bool` for a switch
    default: Any  # its value in the preset `safe`; `None` is without limit
    least: int
    meaning: str

    def shown(self, value: Any) -> str:
        if value is None:
            return "unlimited"
        if self.kind is bool:
            return "on" if value else "off"
        return duration(value) if self.kind is float else str(value)


def _setting(default: Any, meaning: str, least: int = 0, kind: type | None = None) -> Any:
    kind = kind or type(default)
    return field(default=default, metadata={"kind": kind, "least": least, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of when to snapshot and what to keep; all times are in seconds."""

    # Spark's two providers differ by one.
    min_deltas_for_snapshot: int = _setting(
        10,
        "Write a snapshot when a chain has more deltas than this, or as many changelogs of RocksDB "
        "(spark.sql.streaming.stateStore.minDeltasForSnapshot).",
        least=1,
    )
    # Whatever its value, every batch that is still in the commit log stays loadable (S3).
    min_batches_to_retain: int = _setting(
        100,
        "Number of versions below the newest that stay loadable "
        "(spark.sql.streaming.minBatchesToRetain).",
        least=1,
    )
    # A reader that listed before the snapshot appeared can finish (S4).
    grace: float = _setting(3600.0, "Minimum age of a snapshot before files below it are deleted.")
    # Far longer than any batch, which writes to its temp file as long as it runs (S5).
    orphan_age: float = _setting(
        86400.0, "Minimum age of a temp file or an orphaned checksum before it is deleted."
    )
    # A neglected checkpoint shrinks now and not a hundred batches later.
    rebase: bool = _setting(True, "Also write a snapshot at the floor when its chain is long.")
    # Both bound the harm of one wrong run (S12).
    max_deletes_per_run: int = _setting(
        50_000, "Maximum number of deletions; the next run continues."
    )
    max_seconds_per_run: float | None = _setting(
        None, "Start no store after this time; unlimited by default.", kind=float
    )
    # `undo` restores what the trash has (S17).
    trash_for: float = _setting(
        0.0, "Keep deleted files this long, for `statemaint undo`; 0s keeps none."
    )
    # S6
    verify: bool = _setting(
        True, "Read snapshots back and compare; without it nothing is ever deleted."
    )
    # With it, the length of a chain no longer matters.
    restart_within: float | None = _setting(
        None,
        "Write snapshots when a restart of the query is forecast to take longer than this, however "
        "long the chains are, and not before; off by default.",
        kind=float,
    )
    restart_slots: int = _setting(
        4, "Number of stores that the query's executors load at a time, for the forecast.", least=1
    )
    restart_percent: int = _setting(
        100,
        "Time that the query's restarts take, in percent of what is forecast without this; "
        "`statemaint doctor --event-log` measures it.",
        least=1,
    )

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = getattr(self, setting.name)
            if value is not None and not value >= setting.least:
                raise ConfigError(f"{setting.name} must be at least {setting.least}, not {value}")

    def override(self, **changes: Value) -> "Policy":
        """Returns the policy with every given field that is not `None` replaced."""
        kinds = {setting.name: setting.kind for setting in SETTINGS}
        if unknown := sorted(set(changes) - set(kinds)):
            raise ConfigError(f"no such policy setting: {', '.join(unknown)}")
        given: dict[str, Any] = {name: new for name, new in changes.items() if new is not None}
        for name, new in given.items():
            if kinds[name] is float:
                given[name] = in_seconds(new)
            elif not isinstance(new, int):
                raise ConfigError(f"{name} must be a whole number, not {new!r}")
        return replace(self, **given)


SETTINGS = tuple(Setting(it.name, default=it.default, **it.metadata) for it in fields(Policy))
"""Every setting, in the order of documents."""

PRESETS = {
    # Spark's own thresholds and timing: no grace, no snapshot that Spark would not have written.
    "spark": Policy(grace=0.0, rebase=False),
    "safe": Policy(),
    # The smallest checkpoint that still survives a rewind of the last few batches.
    "lean": Policy(min_batches_to_retain=10, grace=900.0),
}
