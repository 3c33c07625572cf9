"""Which savepoints are kept: properties for any of them, and sixty simulated days."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.errors import ConfigError
from statemaint.listing import Entry
from statemaint.savepoint.catalog import Savepoint, SavepointState
from statemaint.savepoint.keep import ABANDONED, RULES, KeepRules, decide, parse_rules
from tests.support.savepoints import savepoint_note

DAY = 86400.0
# A Monday.
BEGIN = datetime(2026, 3, 2, 2, tzinfo=UTC)
NOW = BEGIN.timestamp() + 400 * DAY

WHOLE, UNFINISHED = SavepointState.WHOLE, SavepointState.UNFINISHED


def saved(
    day: float, state: SavepointState = WHOLE, *, name: str = "", batch: int = -1
) -> Savepoint:
    time = BEGIN.timestamp() + day * DAY
    note = savepoint_note(
        batch=int(day) if batch < 0 else batch, ended=None if state is UNFINISHED else time
    )
    return Savepoint(name or f"{day:g}", state, note, (Entry("metadata", 1, time),))


def reasons(
    savepoints: Sequence[Savepoint], rules: KeepRules, now: float = NOW
) -> dict[str, tuple[str, ...] | None]:
    return {one.address: one.kept for one in decide(savepoints, rules, now)}


def kept(savepoints: Sequence[Savepoint], rules: KeepRules, now: float = NOW) -> set[str]:
    return {name for name, why in reasons(savepoints, rules, now).items() if why}


@st.composite
def histories(draw: st.DrawFn) -> list[Savepoint]:
    days = draw(st.lists(st.integers(0, 1200), max_size=40))
    states = st.sampled_from([WHOLE, WHOLE, WHOLE, *SavepointState])
    return [saved(day / 3, draw(states), name=f"s{number}") for number, day in enumerate(days)]


KEEP = st.fixed_dictionaries({rule: st.integers(0, 6) for rule in RULES})


def test_a_fork_takes_no_place_of_a_savepoint() -> None:
    fork = saved(2)
    assert fork.note is not None
    fork = replace(fork, note=replace(fork.note, id="another"))
    assert kept([saved(0), saved(1), fork], {"last": 1}) == {"1", "2"}


# -- for any savepoints and rules


@given(histories(), KEEP, st.integers(0, 2**32))
def test_the_order_of_a_listing_does_not_matter(
    savepoints: list[Savepoint], rules: KeepRules, seed: int
) -> None:
    shuffled = random.Random(seed).sample(savepoints, len(savepoints))  # noqa: S311 -- from its seed
    assert reasons(shuffled, rules) == reasons(savepoints, rules)


@given(histories(), KEEP)
def test_a_newest_whole_savepoint_is_kept(savepoints: list[Savepoint], rules: KeepRules) -> None:
    whole = [each for each in savepoints if each.state is WHOLE]
    newest = max((each.touched or 0.0 for each in whole), default=None)
    names = {each.address for each in whole if each.touched == newest}
    assert not names or names & kept(savepoints, rules)


@given(histories(), KEEP)
def test_what_is_not_whole_is_kept_whatever_the_rules_are(
    savepoints: list[Savepoint], rules: KeepRules
) -> None:
    doubtful = {
        each.address
        for each in savepoints
        if each.state not in (WHOLE, UNFINISHED, SavepointState.EXPIRING)
    }
    assert doubtful <= kept(savepoints, rules)


@given(histories(), KEEP, st.sampled_from([*RULES]))
def test_more_retention_keeps_more(
    savepoints: list[Savepoint], rules: KeepRules, rule: str
) -> None:
    more = {**rules, rule: rules[rule] + 1}
    assert kept(savepoints, rules) <= kept(savepoints, more)


@given(histories(), KEEP)
def test_a_second_expiry_finds_nothing_more(savepoints: list[Savepoint], rules: KeepRules) -> None:
    left = [each for each in savepoints if each.address in kept(savepoints, rules)]
    assert kept(left, rules) == {each.address for each in left}


@given(histories(), KEEP)
def test_only_whole_savepoints_count(savepoints: list[Savepoint], rules: KeepRules) -> None:
    whole = [each for each in savepoints if each.state is WHOLE]
    names = {each.address for each in whole}
    assert kept(savepoints, rules) & names == kept(whole, rules)


# -- single cases


@pytest.mark.parametrize(
    ("state", "touched", "why"),
    [
        (UNFINISHED, NOW - ABANDONED + 1, ("unfinished",)),
        (UNFINISHED, NOW + DAY, ("unfinished",)),
        (UNFINISHED, None, ("unfinished",)),
        (UNFINISHED, NOW - ABANDONED, ()),
        (SavepointState.EXPIRING, NOW, ()),
        (SavepointState.STARTED, 0.0, ("started",)),
        (SavepointState.DAMAGED, 0.0, ("damaged",)),
        (SavepointState.UNREADABLE, None, ("unreadable",)),
    ],
)
def test_a_savepoint_that_is_not_whole(
    state: SavepointState, touched: float | None, why: tuple[str, ...]
) -> None:
    files = (Entry("metadata", 1, touched), Entry("offsets/1", 1, touched))
    other = replace(saved(3, state, name="other"), entries=files)
    found = reasons([other, saved(300)], {"last": 1})
    assert found == {"other": why, "300": ("newest", "last")}


def test_a_savepoint_without_files_may_be_being_written() -> None:
    assert kept([replace(saved(3, UNFINISHED), entries=())], {"last": 1}) == {"3"}


def test_each_rule_keeps_the_newest_of_its_period_and_the_oldest_of_all() -> None:
    savepoints = [saved(day / 2) for day in range(2 * 70)]  # noon and midnight, for ten weeks
    found = reasons(savepoints, {"daily": 2, "weekly": 2, "monthly": 9})
    assert {name: why for name, why in found.items() if why} == {
        "69.5": ("newest", "daily", "weekly", "monthly"),
        "68.5": ("daily",),
        "62.5": ("weekly",),  # a Sunday
        "59.5": ("monthly",),  # 30 April
        "29.5": ("monthly",),  # 31 March
        "0": ("monthly",),  # nine months would reach further
    }


def test_of_two_that_ended_together_the_one_of_the_later_batch_is_newer() -> None:
    savepoints = [saved(1, name=f"of {batch}", batch=batch) for batch in (8, 9, 7)]
    assert kept(savepoints, {"last": 1}) == {"of 9"}


def test_the_newest_is_the_newest_in_time_after_a_rollback() -> None:
    assert kept([saved(1, batch=90), saved(2, batch=40)], {"last": 1}) == {"2"}


def test_the_rules_count_for_each_query_by_itself() -> None:
    savepoints = [
        replace(saved(day, name=f"{source}/{day}"), note=replace(note, source=source))
        for source in ("clicks", "orders")
        for day in range(3)
        if (note := saved(day).note)
    ]
    broken = Savepoint("x", SavepointState.UNREADABLE, why="no")
    found = reasons([*savepoints, broken], {"last": 1})
    assert {name: why for name, why in found.items() if why} == {
        "clicks/2": ("newest", "last"), "orders/2": ("newest", "last"), "x": ("unreadable",),
    }  # fmt: skip


# -- sixty days


def expected(today: int) -> set[int]:
    """Returns the days whose savepoints are left on a day, for `last: 7` and `weekly: 4`."""
    last = {today - back for back in range(7)}
    sundays = [day for day in range(today) if (BEGIN + timedelta(day)).isoweekday() == 7]
    weekly = {today, *sundays[-3:]}
    oldest = {0} if today < 3 * 7 else set()  # four weeks have none to spare
    return {day for day in last | weekly | oldest if day >= 0}


def test_sixty_days_of_daily_savepoints() -> None:
    rules = {"last": 7, "weekly": 4}
    savepoints: list[Savepoint] = []
    for today in range(60):
        savepoints.append(saved(today))
        names = kept(savepoints, rules, BEGIN.timestamp() + today * DAY)
        savepoints = [each for each in savepoints if each.address in names]
        assert {int(each.address) for each in savepoints} == expected(today)
    assert [each.address for each in savepoints] == [
        "41", "48", "53", "54", "55", "56", "57", "58", "59",
    ]  # fmt: skip


# -- the rules as text


def test_rules_are_written_as_their_names_and_numbers() -> None:
    assert parse_rules("last=7, weekly=4") == {"last": 7, "weekly": 4}
    assert parse_rules("monthly=12") == {"monthly": 12}


@pytest.mark.parametrize(
    "text",
    ["", "last", "last=", "last=0", "last=-1", "last=1,last=2", "hourly=3", "last=1;daily=2",
     "last=1.5", "last=999999999", "7", "last=7,"],
)  # fmt: skip
def test_other_texts_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="last=7,weekly=4") as refused:
        parse_rules(text)
    assert "\n" not in str(refused.value)
