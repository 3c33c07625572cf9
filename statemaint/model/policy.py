"""Every number that makes maintenance safe or cheap, in one place, each with its reason."""

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from statemaint.errors import ConfigError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """Returns the seconds of a duration such as `90s`, `15m`, `1h`, `7d`.

    Raises:
        ConfigError: when the text is not such a duration.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if not match:
        raise ConfigError(f"not a duration: {text!r}; write it like 90s, 15m, 1h or 7d")
    return float(match[1]) * _UNITS[match[2]]


def duration(value: float) -> str:
    """Returns seconds in the largest unit that gives a whole number: the inverse of `seconds`."""
    for unit in ("d", "h", "m"):
        if value and value % _UNITS[unit] == 0:
            return f"{int(value) // _UNITS[unit]}{unit}"
    return f"{int(value)}s" if value == int(value) else f"{value}s"


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of when to snapshot and what to keep.

    Attributes:
        min_deltas_for_snapshot: a snapshot is written once a chain has MORE deltas than this; for
            RocksDB once it has as many changelogs. Spark's two providers differ by one. Mirrors
            `spark.sql.streaming.stateStore.minDeltasForSnapshot`.
        min_batches_to_retain: how many versions below the target stay loadable, so that the query
            can be rewound. Mirrors `spark.sql.streaming.minBatchesToRetain`. Every batch still in
            the commit log stays loadable whatever this value is (S3).
        grace: seconds a snapshot must have existed before anything below it is deleted, so that a
            reader that listed before it appeared can finish (S4).
        orphan_age: seconds after which a temp file or a lone side file counts as abandoned; far
            longer than any batch, because a batch writes to its temp file as long as it runs (S5).
        rebase: also write a snapshot AT the floor when the chain below it is long, so that a
            neglected checkpoint shrinks now and not a hundred batches later.
        max_deletes_per_run: bounds the harm of one wrong run (S12).
        max_seconds_per_run: no store is begun after this long; `None` means no limit (S12).
        trash_for: seconds that deleted files are kept in the run's trash, from which `undo`
            restores them; 0 deletes them immediately (S17).
        verify: read snapshots back and compare; without it nothing is ever deleted (S6).
    """

    min_deltas_for_snapshot: int = 10
    min_batches_to_retain: int = 100
    grace: float = 3600.0
    orphan_age: float = 86400.0
    rebase: bool = True
    max_deletes_per_run: int = 50_000
    max_seconds_per_run: float | None = None
    trash_for: float = 0.0
    verify: bool = True

    def __post_init__(self) -> None:
        self._at_least("min_deltas_for_snapshot", 1)
        self._at_least("min_batches_to_retain", 1)
        for name in (
            "grace",
            "orphan_age",
            "trash_for",
            "max_deletes_per_run",
            "max_seconds_per_run",
        ):
            self._at_least(name, 0)

    def _at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value is not None and not value >= least:
            raise ConfigError(f"{name} must be at least {least}, not {value}")

    def override(self, **changes: Any) -> "Policy":
        """Returns the policy with every given field that is not `None` replaced."""
        names = {field.name for field in fields(self)}
        if unknown := sorted(set(changes) - names):
            raise ConfigError(f"no such policy setting: {', '.join(unknown)}")
        return replace(self, **{name: new for name, new in changes.items() if new is not None})


PRESETS = {
    # Spark's own thresholds and timing: no grace, no snapshot that Spark would not have written.
    "spark": Policy(grace=0.0, rebase=False),
    "safe": Policy(),
    # The smallest checkpoint that still survives a rewind of the last few batches.
    "lean": Policy(min_batches_to_retain=10, grace=900.0),
}
