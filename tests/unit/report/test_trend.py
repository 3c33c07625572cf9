"""The trend of a query: bounded, exact for the last runs, and the worst of each span before."""

import json
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.listing import LATEST
from statemaint.model.verdict import Verdict
from statemaint.report.facts import RunFacts
from statemaint.report.record import Cause, LastRun
from statemaint.report.trend import (
    MOST,
    RECENT,
    Point,
    Trend,
    thinned,
    with_run,
)

HOUR = 3600
FIGURES = Point._fields[2:-1]
FACTS = RunFacts(
    sums={"bytes": 9000, "files": 41, "replayed": 700, "replayed_files": 13, "stores": 4},
    highest={
        "chain": 12,
        "restart_start": 1.0,
        "restart_store": 0.23456,
        "seconds": 8.5,
        "verdict": 2,
    },
    counts={"findings": {"CORRUPT_FILE": 2, "UNKNOWN_FILE": 1}},
    checkpoint={"CODE_OF_ANOTHER_BUILD": 1},
)

points = st.builds(
    Point,
    st.integers(0, 10**6).map(float),
    st.sampled_from(Verdict),
    **dict.fromkeys(FIGURES, st.none() | st.integers(0, 1000)),
    span=st.just(0),
)
in_order = st.lists(points, max_size=40).map(lambda drawn: sorted(drawn, key=lambda one: one.time))
ends = st.builds(
    LastRun,
    st.text(max_size=3),
    st.floats(0, LATEST),
    facts=st.none()
    | st.builds(
        RunFacts,
        sums=st.fixed_dictionaries({"bytes": st.integers(0, 2**70), "files": st.integers(0, 9)}),
        highest=st.fixed_dictionaries(
            {
                "chain": st.integers(0, 2**70),
                "verdict": st.integers(0, 4),
                "seconds": st.floats(-9.0, 9.0),  # a clock may step back during a run
            }
        ),
    ),
)


def ended(number: int, *, chain: int = 1, verdict: Verdict = Verdict.HEALTHY) -> LastRun:
    """The end of run N, an hour after the one before."""
    facts = RunFacts(highest={"chain": chain, "verdict": verdict.rank})
    return LastRun(f"run {number}", float(number * HOUR), committed=number, facts=facts)


def trend_of(*runs: LastRun) -> Trend:
    return reduce(with_run, runs, Trend())


def stored(trend: Trend) -> str:
    return json.dumps(trend.to_json(), separators=(",", ":"))


def is_at_least(found: Point, point: Point) -> bool:
    """Returns whether a point shows everything that another one shows, or worse."""
    figures = zip(found[2:-1], point[2:-1], strict=True)
    worse = all(high is None or (low is not None and low >= high) for low, high in figures)
    return worse and found.verdict.rank >= point.verdict.rank


# -- one run


def test_a_point_has_the_figures_of_the_record() -> None:
    (point,) = trend_of(LastRun("r", 10.7, committed=3, facts=FACTS)).points
    assert point == Point(
        time=10,
        verdict=Verdict.DEGRADED,
        chain=12,
        bytes=9000,
        files=41,
        replay_bytes=700,
        replay_files=13,
        restart=1.235,
        seconds=8.5,
        damage=3,
        notices=1,
    )
    assert not point.sound


def test_counts_are_whole_whatever_the_record_has() -> None:
    facts = RunFacts(
        sums={"bytes": 7},
        highest={"chain": 25.0, "restart_start": 0.5, "restart_store": 1.0, "verdict": 0},
    )
    (point,) = with_run(Trend(), LastRun("run", 1.0, facts=facts)).points
    assert repr((point.chain, point.bytes, point.restart)) == "(25, 7, 1.5)"
    row = [1, "healthy", 25.0, *[None] * 4, 1.5, *[None] * 3, 0]
    (read,) = Trend.from_json({"v": 1, "run": "", "points": [row]}).points
    assert repr((read.chain, read.restart)) == "(25, 1.5)"


def test_a_run_that_looked_at_nothing_has_a_verdict_and_no_figure() -> None:
    (point,) = trend_of(LastRun("r", 10.0, (Cause.STORAGE,))).points
    assert point == Point(10, Verdict.UNKNOWN)
    assert trend_of(LastRun("r", 10.0)).points == (Point(10, Verdict.EMPTY),)


@pytest.mark.parametrize(
    "last",
    [
        LastRun("r", 10.0, (Cause.LEASE,)),
        LastRun("r", 10.0, work=RunFacts()),
        LastRun("r", 10.0, (Cause.DAMAGE,), work=RunFacts()),
    ],
    ids=["without the lease", "a recovery", "a recovery that failed"],
)
def test_a_run_that_says_nothing_about_the_query_has_no_point(last: LastRun) -> None:
    before = trend_of(ended(1))
    assert with_run(before, last) is before


def test_the_sums_of_a_run_with_a_silent_task_are_unknown() -> None:
    (point,) = trend_of(LastRun("r", 10.0, silent=1, facts=FACTS)).points
    assert (point.bytes, point.files, point.chain) == (None, None, 12)


def test_a_query_of_which_no_store_loads_has_no_chain() -> None:
    facts = replace(FACTS, sums={**FACTS.sums, "unloadable": 4})
    (point,) = trend_of(LastRun("r", 10.0, facts=facts)).points
    assert (point.chain, point.restart, point.bytes) == (None, None, 9000)


def test_a_report_that_is_repeated_replaces_its_point() -> None:
    trend = trend_of(ended(1), ended(2, chain=5), ended(2, chain=7))
    assert [(point.time, point.chain) for point in trend.points] == [(HOUR, 1), (2 * HOUR, 7)]


# -- many runs


def test_a_year_of_hourly_runs_takes_less_than_100_kb_and_loses_nothing_bad() -> None:
    bad = {1000: 400, 5000: 90}
    runs = (
        ended(n, chain=bad.get(n, n % 7), verdict=Verdict.BROKEN if n in bad else Verdict.HEALTHY)
        for n in range(8760)
    )
    trend = trend_of(*runs)
    assert len(stored(trend)) < 100_000
    assert [one.time for one in trend.points[-RECENT:]] == [n * HOUR for n in range(8560, 8760)]
    broken = [point for point in trend.points if point.verdict is Verdict.BROKEN]
    assert [point.chain for point in broken] == [400, 90]
    for point, run in zip(broken, bad, strict=True):
        assert point.begins <= run * HOUR <= point.time
    # Of even width: none has swallowed the others.
    assert max(point.span for point in trend.points) < 4 * 24 * HOUR


def test_the_largest_figures_fit_too() -> None:
    huge = RunFacts(
        sums=dict.fromkeys(("bytes", "files", "replayed", "replayed_files"), 2**200),
        highest={
            "chain": 2**200,
            "restart_start": 1.0,
            "restart_store": 1e300,
            "seconds": 4503599627370.123,
            "verdict": 2,
        },
        counts={"findings": {"CORRUPT_FILE": 2**200, "UNKNOWN_FILE": 2**200}},
    )
    runs = (LastRun("r" * 250 + str(n), LATEST - 1, facts=huge) for n in range(MOST))
    points = tuple(point for run in runs for point in trend_of(run).points)
    spanning = tuple(point._replace(span=LATEST) for point in points)
    trend = Trend(spanning, "r" * 250)
    assert len(stored(trend)) <= 100_000
    assert Trend.from_json(json.loads(stored(trend))) == trend


@given(in_order, st.integers(1, 6), st.integers(1, 6))
def test_thinned_points_are_few_exact_at_the_end_and_the_worst_before(
    drawn: list[Point], recent: int, older: int
) -> None:
    kept = thinned(drawn, recent=recent, most=recent + older)
    assert len(kept) == min(len(drawn), recent + older)
    assert kept[-recent:] == tuple(drawn[-recent:])
    assert all(first.time <= second.begins for first, second in pairwise(kept))
    for point in drawn:
        assert any(
            found.begins <= point.time <= found.time and is_at_least(found, point) for found in kept
        )
    for name in FIGURES:  # and nothing worse than it was
        figures = {getattr(point, name) for point in drawn}
        assert {getattr(point, name) for point in kept} <= figures | {None}
    assert {point.verdict for point in kept} <= {point.verdict for point in drawn}


@given(st.lists(ends, max_size=30))
def test_any_runs_make_a_trend_in_order_that_is_read_as_it_was_written(runs: list[LastRun]) -> None:
    trend = trend_of(*runs)
    times = [point.time for point in trend.points]
    assert times == sorted(times)
    assert Trend.from_json(json.loads(stored(trend))) == trend


def test_a_clock_that_is_behind_does_not_step_back() -> None:
    trend = trend_of(ended(5), ended(3, chain=9), ended(6))
    assert [(one.time, one.chain) for one in trend.points] == [
        (5 * HOUR, 1),
        (5 * HOUR, 9),
        (6 * HOUR, 1),
    ]


ROW: list[Any] = [1, "healthy", *[None] * 9, 0]


@pytest.mark.parametrize(
    "fields", [{"v": 2, "run": "", "points": []}, {"v": 1, "points": []}, {"v": 1, "run": ""}, []]
)
def test_a_trend_of_another_build_is_refused(fields: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Trend.from_json(fields)


@pytest.mark.parametrize(
    "rows",
    [
        [7],
        ["a text of 12"],
        [{}],
        [[]],
        [ROW[:-1]],
        [[*ROW, 0]],
        [[1, "fine", *ROW[2:]]],
        [[1, [], *ROW[2:]]],
        [[None, *ROW[1:]]],
        [[True, *ROW[1:]]],
        [[-1, *ROW[1:]]],
        [[LATEST + 1, *ROW[1:]]],
        [[float("nan"), *ROW[1:]]],
        [[*ROW[:-1], None]],
        [[*ROW[:4], "7", *ROW[5:]]],
        [[*ROW[:4], 2**54, *ROW[5:]]],
        [[2, *ROW[1:]], ROW],
        [ROW] * (MOST + 1),
    ],
)
def test_rows_that_are_no_points_in_order_are_refused(rows: list[Any]) -> None:
    assert Trend.from_json({"v": 1, "run": "", "points": [ROW]}).points
    with pytest.raises((TypeError, ValueError)):
        Trend.from_json({"v": 1, "run": "", "points": rows})
