from typing import Any

from statemaint.airflow.texts import is_damaged, note_of_queries


def report(**more: Any) -> dict[str, Any]:
    done = {"snapshots": 2, "files": 16, "bytes": 1500}
    return {"success": True, "note": "2 snapshots written", **done, **more}


def test_the_note_of_many_queries_has_their_sums_and_names_those_that_failed() -> None:
    bad = report(success=False, note="1 written.\n\nBroken: BROKEN_CHAIN", snapshots=1)
    fault = {"query": "c", "success": False, "note": "FAULT: KeyError: 'x'"}
    assert note_of_queries({"a": report(), "b": bad, "c": fault}).split("\n\n") == [
        "3 queries, 2 failed: 3 snapshots written, 32 files deleted (3.0 kB).",
        "b: 1 written. Broken: BROKEN_CHAIN",
        "c: FAULT: KeyError: 'x'",
    ]
    many = {f"query_{number}": report(success=False) for number in range(100)}
    assert len(note_of_queries(many)) <= 1000


def test_a_failing_storage_is_no_damage_of_the_checkpoint() -> None:
    passing = [{"code": "STORAGE_FAILED"}, {"code": "SUPERSEDED"}]
    assert not is_damaged(passing)
    assert is_damaged([*passing, {"code": "BROKEN_CHAIN"}])
    assert not is_damaged([])
