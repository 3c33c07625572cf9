"""Work is dealt out evenly, and some pieces of a task are worked on at the same time."""

from collections.abc import Iterator, Mapping
from threading import Barrier, Lock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.maintain.bundles import PER_UNIT, deal
from statemaint.spark.fleet import Target
from statemaint.spark.frames import TASKS_A_CORE, _Task, shares
from statemaint.spark.units import Piece, waits
from statemaint.workers import nothing

WORK = st.lists(st.floats(0, 1e9), max_size=50).map(lambda some: list(enumerate(some)))


@pytest.mark.parametrize(
    ("address", "options", "expected"),
    [
        ("s3a://lake/q", {}, True),
        ("hadoop+lake://node/q", {}, True),
        ("/disk/q", {}, False),
        ("file:///disk/q", {}, False),
        ("s3://lake/q", {"weight": PER_UNIT}, True),
        ("s3://lake/q", {"weight": PER_UNIT + 1}, False),
        ("s3://lake/q", {"deep": False, "share": [1, 1]}, False),
        ("", {}, False),
    ],
)
def test_little_work_far_away_waits(
    address: str,
    options: Mapping[str, object],
    expected: bool,  # noqa: FBT001
) -> None:
    assert waits(Piece(Target("q", address), options).to_json()) is expected


def test_pieces_that_wait_meet_and_others_are_alone_and_rows_keep_their_order() -> None:
    meeting, lock, at_a_time = Barrier(2), Lock(), [0]

    def work(piece: str) -> Iterator[Mapping[str, object]]:
        with lock:
            at_a_time[0] += 1
        if piece.startswith("far"):
            meeting.wait(30)
        else:
            assert at_a_time[0] == 1
        with lock:
            at_a_time[0] -= 1
        yield {"piece": piece}
        yield {"piece": f"{piece} again"}

    pieces = ["far 1", "far 2", "large 1", "large 2", "far 3", "far 4"]
    task = _Task(work, {"piece": "string"}, lambda piece: piece.startswith("far"))
    assert [row[0] for row in task.tuples(pieces)] == [
        text for one in pieces for text in (one, f"{one} again")
    ]


def test_rows_of_a_piece_that_does_not_wait_are_made_as_they_are_sent() -> None:
    made = [0]

    def rows(_: str) -> Iterator[Mapping[str, object]]:
        for _row in range(10_000):
            made[0] += 1
            yield {"piece": "p"}

    next(_Task(rows, {"piece": "string"}, nothing).tuples(["p"]))
    assert made == [1]


@given(WORK, st.integers(1, 20))
def test_every_piece_is_in_exactly_one_task(work: list[tuple[int, float]], tasks: int) -> None:
    dealt = deal(work, tasks)
    assert sorted(piece for task in dealt for piece in task) == [piece for piece, _ in work]
    assert all(dealt)
    assert len(dealt) == min(tasks, len(work))


@given(WORK, st.integers(1, 20))
def test_no_task_has_more_than_an_even_share_and_one_piece(
    work: list[tuple[int, float]], tasks: int
) -> None:
    weights = dict(work)
    for task in deal(work, tasks):
        even = sum(weights.values()) / tasks
        assert sum(weights[one] for one in task) <= even + max(weights.values()) + 1e-3


def test_the_heaviest_task_comes_first_and_in_it_the_heaviest_piece() -> None:
    assert deal([("a", 1.0), ("b", 9.0), ("c", 2.0), ("d", 1.5)], 2) == [["b"], ["c", "d", "a"]]


def test_pieces_without_weight_are_dealt_evenly() -> None:
    assert [len(task) for task in deal([(one, 0.0) for one in range(9)], 3)] == [3, 3, 3]


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(0, 1e12)), st.integers(1, 64))
def test_no_unit_is_larger_than_a_tasks_even_share(weights: dict[str, float], cores: int) -> None:
    found = shares(weights, cores)
    even = max(sum(weights.values()) / (cores * TASKS_A_CORE), 10_000_000)
    assert found.keys() == weights.keys()
    assert all(weights[one] / found[one] <= even + 1 for one in weights)


def test_little_work_is_one_unit() -> None:
    assert shares({"small": 1000.0, "none": 0.0}, 8) == {"small": 1, "none": 1}


def test_a_large_query_beside_small_ones_is_split() -> None:
    assert shares({"large": 1e9, "small": 1e6}, 2) == {"large": 8, "small": 1}
