"""Which savepoints of one query are kept, and why. Pure.

The rules are those of restic's `forget`. `last` keeps the newest ones. `daily`, `weekly` and
`monthly` keep the newest one of each of the newest days, ISO weeks and months (UTC) that have any;
while a rule has counted fewer than it may, it keeps the oldest one, too. One savepoint may count
for several rules. Only whole savepoints count.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from statemaint.errors import ConfigError
from statemaint.wording import Explained

ABANDONED = 2 * 86400.0
"""The seconds without a write after which an unfinished savepoint is no longer being written."""


class SavepointState(Explained):
    """What a savepoint is good for."""

    WHOLE = "whole", "a query can start from it"
    STARTED = "started", "a query has run from it"
    UNFINISHED = "unfinished", "it is being written, or its writing was interrupted"
    EXPIRING = "expiring", "its deletion was interrupted"
    DAMAGED = "damaged", "files that its record names are missing or have another size"
    UNREADABLE = "unreadable", "its record cannot be read"


class Retention(Explained):
    """Why a savepoint is kept."""

    NEWEST = "newest", "it is the newest whole savepoint of its query"
    LAST = "last", "it is one of the newest"
    DAILY = "daily", "it is the newest of its day"
    WEEKLY = "weekly", "it is the newest of its week"
    MONTHLY = "monthly", "it is the newest of its month"
    STARTED = "started", "a query has run from it: it is that query's checkpoint"
    BEING_WRITTEN = "being_written", "it may still be being written"
    DAMAGED = "damaged", "it is not what its record says: an operator decides"
    UNREADABLE = "unreadable", "its record cannot be read: an operator decides"


_PERIODS = {
    Retention.DAILY: "%Y-%m-%d",
    Retention.WEEKLY: "%G-%V",
    Retention.MONTHLY: "%Y-%m",
}
_ALWAYS = {
    SavepointState.STARTED: Retention.STARTED,
    SavepointState.DAMAGED: Retention.DAMAGED,
    SavepointState.UNREADABLE: Retention.UNREADABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """How many savepoints each rule keeps; 0 for a rule that is not given."""

    last: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0

    @classmethod
    def parse(cls, text: str) -> "KeepRules":
        """Returns the rules of a text such as `last=7,weekly=4`.

        Raises:
            ConfigError: when it is not such a text.
        """
        counts: dict[str, int] = {}
        for rule in text.split(","):
            match = re.fullmatch(r"(last|daily|weekly|monthly)=([1-9][0-9]{0,4})", rule.strip())
            if not match or match[1] in counts:
                raise ConfigError(
                    f"not rules of what to keep: {text!r}; write them like last=7,weekly=4, each "
                    "of last, daily, weekly and monthly at most once, from 1 on"
                )
            counts[match[1]] = int(match[2])
        return cls(**counts)

    def __str__(self) -> str:
        return ",".join(f"{rule}={count}" for rule, count in asdict(self).items() if count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A savepoint, as far as the rules see it; times are by the clock of its storage.

    Attributes:
        name: its name among those of its query.
        batch: the batch after which a query started from it continues.
        ended: when it became whole; `None` if it never did.
        state: what it is good for.
        touched: when any of its files was written last; `None` if that is not known.
    """

    name: str
    batch: int
    ended: float | None
    state: SavepointState
    touched: float | None


def retained(
    savepoints: Sequence[Candidate], rules: KeepRules, now: float
) -> Mapping[str, tuple[Retention, ...]]:
    """Returns why each savepoint of a query is kept, by name; without a reason it expires.

    The newest whole one is kept whatever the rules are, and so is one that may be being written,
    one from which a query has run, and one that is not what its record says.

    Args:
        savepoints: those of one query, in any order, each of its own name.
        rules: what to keep.
        now: the time by the clock of their storage.
    """
    reasons: dict[str, list[Retention]] = defaultdict(list)
    for name, reason in (*_regardless(savepoints, now), *_by_rules(savepoints, rules)):
        reasons[name].append(reason)
    return {one.name: tuple(reasons[one.name]) for one in savepoints}


def _regardless(savepoints: Sequence[Candidate], now: float) -> Iterator[tuple[str, Retention]]:
    for savepoint in savepoints:
        if savepoint.state in _ALWAYS:
            yield savepoint.name, _ALWAYS[savepoint.state]
        elif _may_be_written(savepoint, now):
            yield savepoint.name, Retention.BEING_WRITTEN
    for newest, _ in _newest_first(savepoints)[:1]:
        yield newest.name, Retention.NEWEST


def _may_be_written(savepoint: Candidate, now: float) -> bool:
    if savepoint.state is not SavepointState.UNFINISHED:
        return False
    return savepoint.touched is None or now - savepoint.touched < ABANDONED


def _by_rules(savepoints: Sequence[Candidate], rules: KeepRules) -> Iterator[tuple[str, Retention]]:
    whole = _newest_first(savepoints)
    for rule, count in asdict(rules).items():
        reason, left, previous = Retention(rule), count, ""
        for number, (savepoint, ended) in enumerate(whole):
            moment = datetime.fromtimestamp(ended, UTC)
            period = moment.strftime(_PERIODS[reason]) if reason in _PERIODS else str(number)
            if left and (period != previous or number == len(whole) - 1):
                yield savepoint.name, reason
                previous, left = period, left - 1


def _newest_first(savepoints: Sequence[Candidate]) -> list[tuple[Candidate, float]]:
    """Returns the whole savepoints, each with the time when it became whole."""
    whole = [
        (savepoint, savepoint.ended)
        for savepoint in savepoints
        if savepoint.state is SavepointState.WHOLE and savepoint.ended is not None
    ]
    return sorted(whole, key=lambda each: (each[1], each[0].batch, each[0].name), reverse=True)
