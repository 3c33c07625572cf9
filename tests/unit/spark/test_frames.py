"""Pieces of a task: which of them are worked on at the same time."""

from collections.abc import Iterator, Mapping
from threading import Barrier, Lock

import pytest

from statemaint.spark.fleet import Target
from statemaint.spark.frames import LEAST, _Task
from statemaint.spark.units import Piece, waits


def order(*weights: float) -> dict[str, object]:
    return {"order": {"bundles": [{"weight": one} for one in weights]}}


@pytest.mark.parametrize(
    ("address", "options", "expected"),
    [
        ("s3a://lake/q", {}, True),
        ("hadoop+lake://node/q", {}, True),
        ("/disk/q", {}, False),
        ("file:///disk/q", {}, False),
        ("s3://lake/q", order(LEAST), True),
        ("s3://lake/q", order(LEAST + 1), False),
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
