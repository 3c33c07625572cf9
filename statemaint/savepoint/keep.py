"""Which savepoints are kept, and why. Pure.

The rules are those of restic's `forget`. `last` keeps the newest ones. `daily`, `weekly` and
`monthly` keep the newest one of each of the newest days, ISO weeks and months (UTC) that have any;
while a rule has counted fewer than it may, it keeps the oldest one, too. One savepoint may count
for several rules. Only whole savepoints count. The rules count for each query by itself: what was
saved of a moved or a new checkpoint is of another one. Forks, which are for trials, count by
themselves: no savepoint that a query could be restored from goes because of one.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from statemaint.errors import ConfigError
from statemaint.savepoint.catalog import Savepoint, SavepointState

ABANDONED = 2 * 86400.0
"""The seconds without a write after which an unfinished savepoint is no longer being written."""

NEWEST = "newest"
RULES = {
    "last": "it is one of the newest",
    "daily": "it is the newest of its day",
    "weekly": "it is the newest of its week",
    "monthly": "it is the newest of its month",
}
REASONS = {
    NEWEST: "it is the newest whole savepoint of its query",
    **RULES,
    SavepointState.STARTED: "a query has run from it: it is that query's checkpoint",
    SavepointState.UNFINISHED: "it may still be being written",
    SavepointState.DAMAGED: "it is not what its record says: an operator decides",
    SavepointState.UNREADABLE: "its record cannot be read: an operator decides",
}
"""Why a savepoint is kept: for a rule, or in its state, whatever the rules are."""
_PERIODS = {"daily": "%Y-%m-%d", "weekly": "%G-%V", "monthly": "%Y-%m"}

KeepRules = Mapping[str, int]
"""How many savepoints each of `RULES` keeps; none for a rule that is not given."""


def parse_rules(text: str) -> KeepRules:
    """Returns the rules of a text such as `last=7,weekly=4`."""
    counts: dict[str, int] = {}
    for rule in text.split(","):
        match = re.fullmatch(rf"({'|'.join(RULES)})=([1-9][0-9]{{0,4}})", rule.strip())
        if not match or match[1] in counts:
            raise ConfigError(
                f"not rules of what to keep: {text!r}; write them like last=7,weekly=4, each "
                f"of {', '.join(RULES)} at most once, from 1 on"
            )
        counts[match[1]] = int(match[2])
    return counts


def decide(savepoints: Sequence[Savepoint], rules: KeepRules, now: float) -> tuple[Savepoint, ...]:
    """Returns savepoints in their order, each with why it is kept; `now` by their storage."""
    queries: dict[tuple[tuple[str, str], bool], list[Savepoint]] = defaultdict(list)
    for savepoint in savepoints:
        forked = savepoint.note is not None and savepoint.note.forked
        queries[savepoint.query, forked].append(savepoint)
    kept: dict[str, list[str]] = defaultdict(list)
    for query in queries.values():
        for address, reason in _reasons(query, rules, now):
            kept[address].append(reason)
    return tuple(replace(each, kept=tuple(kept[each.address])) for each in savepoints)


def _reasons(
    savepoints: Sequence[Savepoint], rules: KeepRules, now: float
) -> Iterator[tuple[str, str]]:
    for savepoint in savepoints:
        if savepoint.state in REASONS and not _is_abandoned(savepoint, now):
            yield savepoint.address, savepoint.state.value
    whole = [
        (each.note.ended, each.note.batch, each.address)
        for each in savepoints
        if each.state is SavepointState.WHOLE and each.note and each.note.ended is not None
    ]
    whole.sort(reverse=True)
    for _, _, newest in whole[:1]:
        yield newest, NEWEST
    for rule in RULES:
        left, previous = rules.get(rule, 0), ""
        for number, (ended, _, address) in enumerate(whole):
            moment = datetime.fromtimestamp(ended, UTC)
            period = moment.strftime(_PERIODS[rule]) if rule in _PERIODS else str(number)
            if left and (period != previous or number == len(whole) - 1):
                yield address, rule
                previous, left = period, left - 1


def _is_abandoned(savepoint: Savepoint, now: float) -> bool:
    if savepoint.state is not SavepointState.UNFINISHED or savepoint.touched is None:
        return False
    return now - savepoint.touched >= ABANDONED
