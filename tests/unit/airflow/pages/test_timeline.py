import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.pages.timeline import StoreTimeline, timelines
from statemaint.model.policy import Policy
from statemaint.plan.actions import Plan
from statemaint.plan.planner import plan
from statemaint.plan.reasons import AttestReason, DeleteReason, KeepReason, SnapshotReason
from tests.support.checkpoints import NOW, checkpoint, store, versions


def plan_of(notation: str, *, first: int, policy: Policy | None = None) -> Plan:
    found = checkpoint(store(notation), batches=range(first, 25))
    return plan(found, policy or Policy(min_batches_to_retain=2), NOW)


def rows(found: StoreTimeline) -> list[tuple[str, str, int, str]]:
    return [
        (one.versions, one.first.kind, len(one.files), one.first.fate) for one in found.stretches
    ]


def test_files_in_a_row_with_one_fate_are_one_stretch() -> None:
    (found,) = timelines(plan_of(versions("d", 1, 25) + " 20s", first=22))
    assert rows(found) == [
        ("1 to 19", "delta", 19, "Deleted"),
        ("20", "delta", 1, "Kept"),
        ("20", "snapshot", 1, "Kept"),
        ("21 to 25", "delta", 5, "Kept"),
    ]
    assert found.stretches[0].bytes == 1900
    assert found.stretches[0].first.why == DeleteReason.BELOW_BASE.meaning
    assert found.stretches[2].first.why == KeepReason.BASE.meaning
    assert found.proofs == (
        f"20.snapshot is verified because {AttestReason.BASE_OF_DELETION.meaning}",
    )


def test_a_snapshot_that_a_run_would_write_is_shown() -> None:
    (found,) = timelines(plan_of(versions("d", 1, 25), first=22))
    written = [one.first for one in found.stretches if one.first.fate == "New"]
    assert [one.version for one in written] == [23, 25]
    assert written[-1].bytes is None
    assert written[-1].why == SnapshotReason.CHAIN_TOO_LONG.meaning


def test_every_file_of_the_store_is_shown_once() -> None:
    notation = versions("d", 1, 25) + " 20s 4c 26t@10 x:foo.bar"
    (found,) = timelines(plan_of(notation, first=22))
    names = [file.name for one in found.stretches for file in one.files if file.fate != "New"]
    assert len(names) == len(set(names)) == 25 + 4
    assert found.left_out == 0


def test_what_is_beside_the_state_comes_after_it() -> None:
    (found,) = timelines(plan_of(versions("d", 1, 25) + " 20s 4c 5c x:foo.bar", first=22))
    assert [one.first.kind for one in found.stretches][-2:] == ["checksum", "other"]
    assert found.stretches[-1].first.why == KeepReason.UNKNOWN.meaning


def test_of_too_many_files_the_newest_are_shown() -> None:
    (found,) = timelines(plan_of(versions("d", 1, 25) + " 20s", first=22), most=10)
    assert (found.files, found.left_out) == (10, 16)
    assert found.stretches[-1].versions == "21 to 25"


def test_damage_keeps_everything_and_says_why() -> None:
    (found,) = timelines(plan_of(versions("d", 2, 25), first=22))
    assert {one.first.why for one in found.stretches} == {KeepReason.HALTED.meaning}
    assert found.findings[0][0] == "BROKEN_CHAIN"
