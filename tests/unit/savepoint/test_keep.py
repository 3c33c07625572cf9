"""Which savepoints are kept: properties for any of them, and sixty simulated days."""

import random
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.errors import ConfigError
from statemaint.savepoint.keep import (
    ABANDONED,
    Candidate,
    KeepRules,
    Retention,
    SavepointState,
    retained,
)

DAY = 86400.0
# A Monday.
BEGIN = datetime(2026, 3, 2, 2, tzinfo=UTC)
NOW = BEGIN.timestamp() + 400 * DAY

WHOLE, UNFINISHED = SavepointState.WHOLE, SavepointState.UNFINISHED


def one(day: float, state: SavepointState = WHOLE, *, name: str = "") -> Candidate:
    time = BEGIN.timestamp() + day * DAY
    ended = None if state is UNFINISHED else time
    return Candidate(
        name=name or f"{day:g}", batch=int(day), ended=ended, state=state, touched=time
    )


def kept(savepoints: Sequence[Candidate], rules: KeepRules, now: float = NOW) -> set[str]:
    return {name for name, reasons in retained(savepoints, rules, now).items() if reasons}


@st.composite
def histories(draw: st.DrawFn) -> list[Candidate]:
    days = draw(st.lists(st.integers(0, 1200), max_size=40))
    states = st.sampled_from([WHOLE, WHOLE, WHOLE, *SavepointState])
    return [one(day / 3, draw(states), name=f"s{number}") for number, day in enumerate(days)]


RULES = st.builds(KeepRules, **{rule.name: st.integers(0, 6) for rule in fields(KeepRules)})


# -- for any savepoints and rules


@given(histories(), RULES, st.integers(0, 2**32))
def test_the_order_of_a_listing_does_not_matter(
    savepoints: list[Candidate], rules: KeepRules, seed: int
) -> None:
    shuffled = random.Random(seed).sample(savepoints, len(savepoints))  # noqa: S311 -- from its seed
    assert retained(shuffled, rules, NOW) == retained(savepoints, rules, NOW)


@given(histories(), RULES)
def test_a_newest_whole_savepoint_is_kept(savepoints: list[Candidate], rules: KeepRules) -> None:
    whole = [each for each in savepoints if each.state is WHOLE]
    newest = max((each.ended or 0.0 for each in whole), default=None)
    names = {each.name for each in whole if each.ended == newest}
    assert not names or names & kept(savepoints, rules)


@given(histories(), RULES)
def test_what_is_not_whole_is_kept_whatever_the_rules_are(
    savepoints: list[Candidate], rules: KeepRules
) -> None:
    doubtful = {
        each.name
        for each in savepoints
        if each.state not in (WHOLE, UNFINISHED, SavepointState.EXPIRING)
    }
    assert doubtful <= kept(savepoints, rules)


@given(histories(), RULES, st.sampled_from([rule.name for rule in fields(KeepRules)]))
def test_more_retention_keeps_more(
    savepoints: list[Candidate], rules: KeepRules, rule: str
) -> None:
    more = replace(rules, **{rule: getattr(rules, rule) + 1})
    assert kept(savepoints, rules) <= kept(savepoints, more)


@given(histories(), RULES)
def test_a_second_expiry_finds_nothing_more(savepoints: list[Candidate], rules: KeepRules) -> None:
    left = [each for each in savepoints if each.name in kept(savepoints, rules)]
    assert kept(left, rules) == {each.name for each in left}


@given(histories(), RULES)
def test_only_whole_savepoints_count(savepoints: list[Candidate], rules: KeepRules) -> None:
    whole = [each for each in savepoints if each.state is WHOLE]
    names = {each.name for each in whole}
    assert kept(savepoints, rules) & names == kept(whole, rules)


# -- single cases


@pytest.mark.parametrize(
    ("state", "touched", "reasons"),
    [
        (UNFINISHED, NOW - ABANDONED + 1, (Retention.BEING_WRITTEN,)),
        (UNFINISHED, NOW + DAY, (Retention.BEING_WRITTEN,)),
        (UNFINISHED, None, (Retention.BEING_WRITTEN,)),
        (UNFINISHED, NOW - ABANDONED, ()),
        (SavepointState.EXPIRING, NOW, ()),
        (SavepointState.STARTED, 0.0, (Retention.STARTED,)),
        (SavepointState.DAMAGED, 0.0, (Retention.DAMAGED,)),
        (SavepointState.UNREADABLE, None, (Retention.UNREADABLE,)),
    ],
)
def test_a_savepoint_that_is_not_whole(
    state: SavepointState, touched: float | None, reasons: tuple[Retention, ...]
) -> None:
    other = replace(one(3, state, name="other"), touched=touched)
    found = retained([other, one(300)], KeepRules(last=1), NOW)
    assert found == {"other": reasons, "300": (Retention.NEWEST, Retention.LAST)}


def test_each_rule_keeps_the_newest_of_its_period_and_the_oldest_of_all() -> None:
    savepoints = [one(day / 2) for day in range(2 * 70)]  # noon and midnight, for ten weeks
    reasons = retained(savepoints, KeepRules(daily=2, weekly=2, monthly=9), NOW)
    assert {name: why for name, why in reasons.items() if why} == {
        "69.5": (Retention.NEWEST, Retention.DAILY, Retention.WEEKLY, Retention.MONTHLY),
        "68.5": (Retention.DAILY,),
        "62.5": (Retention.WEEKLY,),  # a Sunday
        "59.5": (Retention.MONTHLY,),  # 30 April
        "29.5": (Retention.MONTHLY,),  # 31 March
        "0": (Retention.MONTHLY,),  # nine months would reach further
    }


def test_of_two_that_ended_together_the_one_of_the_later_batch_is_newer() -> None:
    savepoints = [replace(one(1, name=f"of {batch}"), batch=batch) for batch in (8, 9, 7)]
    assert kept(savepoints, KeepRules(last=1)) == {"of 9"}


def test_the_newest_is_the_newest_in_time_after_a_rollback() -> None:
    earlier, later = replace(one(1), batch=90), replace(one(2), batch=40)
    assert kept([earlier, later], KeepRules(last=1)) == {"2"}


# -- sixty days


def expected(today: int) -> set[int]:
    """Returns the days whose savepoints are left on a day, for `last: 7` and `weekly: 4`."""
    last = {today - back for back in range(7)}
    sundays = [day for day in range(today) if (BEGIN + timedelta(day)).isoweekday() == 7]
    weekly = {today, *sundays[-3:]}
    oldest = {0} if today < 3 * 7 else set()  # four weeks have none to spare
    return {day for day in last | weekly | oldest if day >= 0}


def test_sixty_days_of_daily_savepoints() -> None:
    rules = KeepRules.parse("last=7,weekly=4")
    savepoints: list[Candidate] = []
    for today in range(60):
        savepoints.append(one(today))
        names = kept(savepoints, rules, BEGIN.timestamp() + today * DAY)
        savepoints = [each for each in savepoints if each.name in names]
        assert {int(each.name) for each in savepoints} == expected(today)
    assert [each.name for each in savepoints] == [
        "41", "48", "53", "54", "55", "56", "57", "58", "59",
    ]  # fmt: skip


# -- the rules as text


@pytest.mark.parametrize("text", ["last=7", "last=7,weekly=4", "daily=1,monthly=12"])
def test_rules_are_read_as_they_are_written(text: str) -> None:
    assert str(KeepRules.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "last", "last=", "last=0", "last=-1", "last=1,last=2", "hourly=3", "last=1;daily=2",
     "last=1.5", "last=999999999", "7", "last=7,"],
)  # fmt: skip
def test_other_texts_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="last=7,weekly=4") as refused:
        KeepRules.parse(text)
    assert "\n" not in str(refused.value)
