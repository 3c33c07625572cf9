from typing import Any

import pytest

from statemaint.report.run import worst_code
from statemaint.spark.frames import OUTCOMES, PLAN, VERIFIED
from statemaint.spark.outcomes import summaries


def row(columns: Any, **fields: Any) -> dict[str, Any]:
    return {**dict.fromkeys(columns), "checkpoint": "/c", "exit_code": 0, **fields}


def store(query: str, **fields: Any) -> dict[str, Any]:
    place = {"operator": 0, "partition": 0, "store": "default"}
    return row(OUTCOMES, query=query, **{**place, "outcome": "done", **fields})


@pytest.mark.parametrize(
    ("codes", "expected"),
    [((), 0), ((0, 0), 0), ((6, 4), 4), ((4, 2), 2), ((2, 3), 3), ((3, 5), 5), ((5, 1), 1)],
)
def test_a_fleet_ends_as_its_worst_query(codes: tuple[int, ...], expected: int) -> None:
    assert worst_code(codes) == worst_code(reversed(codes)) == expected


def test_a_query_has_the_sums_of_its_stores_and_their_longest_chain() -> None:
    found = summaries(
        [
            store("a", chain_after=3, files=5, files_deleted=2),
            store("a", chain_after=7, files=1, files_deleted=0, partition=1),
            row(OUTCOMES, query="a", outcome="done"),
        ]
    )
    assert [one.to_json() for one in found] == [
        {
            "query": "a",
            "checkpoint": "/c",
            "exit_code": 0,
            "stores": 2,
            "longest_chain": 7,
            "files": 6,
            "files_deleted": 2,
            "halted": 0,
            "findings": [],
            "errors": [],
        }
    ]


def test_an_error_of_all_shares_is_there_once() -> None:
    same, other = "CONFIG: no checkpoint", "STORAGE: timed out"
    rows = [row(VERIFIED, query="a", share=share, error=same) for share in (1, 2)]
    (found,) = summaries([*rows, row(VERIFIED, query="a", share=3, error=other)])
    assert found.errors == [same, other]


def test_the_worst_query_comes_first() -> None:
    found = summaries(
        [
            store("long", chain_after=90),
            store("well", chain_after=1),
            store("damaged", outcome="halted", exit_code=3, findings=[{"code": "CORRUPT_FILE"}]),
            row(OUTCOMES, query="held", outcome="held", exit_code=4, error="LEASE_HELD: x"),
        ]
    )
    assert [one.query for one in found] == ["damaged", "held", "long", "well"]
    assert found[0].halted == 1
    assert found[0].codes == {"CORRUPT_FILE"}
    assert found[1].errors == ["LEASE_HELD: x"]


def test_a_plan_is_counted_by_its_actions() -> None:
    deleted = {"operator": 0, "action": "delete", "reason": "superseded"}
    found = summaries(
        [
            row(PLAN, query="a", bytes=5, **deleted),
            row(PLAN, query="a", bytes=6, **deleted),
            row(PLAN, query="a", operator=0, action="write_snapshot", reason="chain"),
            row(PLAN, query="a", action="finding", reason="CLOCK_SKEW", exit_code=3),
            row(PLAN, query="b", action="error", detail="STORAGE: no", exit_code=5),
        ]
    )
    assert [one.query for one in found] == ["b", "a"]
    assert found[0].errors == ["STORAGE: no"]
    assert found[1].actions == {"delete": 2, "write_snapshot": 1}
    assert found[1].sums == {"bytes": 11}
    assert found[1].codes == {"CLOCK_SKEW"}
