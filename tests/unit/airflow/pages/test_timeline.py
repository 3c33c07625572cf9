import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.pages.timeline import File, MissingVersions, StoreTimeline, timelines
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
        (one.versions, "gap", 0, f"breaks {one.broken}")
        if isinstance(one, MissingVersions)
        else (one.versions, one.files[0].kind, len(one.files), one.files[0].fate)
        for one in found.stretches
    ]


def files(found: StoreTimeline) -> list[File]:
    return [
        file
        for one in found.stretches
        if not isinstance(one, MissingVersions)
        for file in one.files
    ]


def reasons(found: StoreTimeline) -> list[str]:
    return [one.files[0].why for one in found.stretches if not isinstance(one, MissingVersions)]


def test_files_in_a_row_with_one_fate_are_one_stretch() -> None:
    (found,) = timelines(plan_of(versions("d", 1, 25) + " 20s", first=22))
    assert rows(found) == [
        ("1 to 19", "delta", 19, "Deleted"),
        ("20", "delta", 1, "Kept"),
        ("20", "snapshot", 1, "Kept"),
        ("21 to 25", "delta", 5, "Kept"),
    ]
    assert sum(file.bytes or 0 for file in files(found)[:19]) == 1900
    assert reasons(found)[0] == DeleteReason.BELOW_BASE.meaning
    assert reasons(found)[2] == KeepReason.BASE.meaning
    assert found.proofs == (
        f"20.snapshot is verified because {AttestReason.BASE_OF_DELETION.meaning}",
    )


def test_a_snapshot_that_a_run_would_write_is_shown() -> None:
    (found,) = timelines(plan_of(versions("d", 1, 25), first=22))
    written = [file for file in files(found) if file.fate == "New"]
    assert [one.version for one in written] == [23, 25]
    assert written[-1].bytes is None
    assert written[-1].why == SnapshotReason.CHAIN_TOO_LONG.meaning


def test_every_file_of_the_store_is_shown_once() -> None:
    notation = versions("d", 1, 25) + " 20s 4c 26t@10 x:foo.bar"
    (found,) = timelines(plan_of(notation, first=22))
    names = [file.name for file in files(found) if file.fate != "New"]
    assert len(names) == len(set(names)) == 25 + 4
    assert found.left_out == 0


def test_what_is_beside_the_state_comes_after_it() -> None:
    (found,) = timelines(plan_of(versions("d", 1, 25) + " 20s 4c 5c x:foo.bar", first=22))
    assert [kind for _, kind, *_ in rows(found)][-2:] == ["checksum", "other"]
    assert reasons(found)[-1] == KeepReason.UNKNOWN.meaning


def test_of_too_many_files_the_newest_are_shown() -> None:
    (found,) = timelines(plan_of(versions("d", 1, 25) + " 20s", first=22), most=10)
    assert (found.files, found.left_out) == (10, 16)
    assert found.stretches[-1].versions == "21 to 25"


def test_damage_keeps_everything_and_says_why() -> None:
    (found,) = timelines(plan_of(versions("d", 2, 25), first=22))
    assert set(reasons(found)) == {KeepReason.HALTED.meaning}
    assert found.findings[0][0] == "BROKEN_CHAIN"


def test_a_missing_delta_is_a_gap_that_says_which_versions_it_breaks() -> None:
    (found,) = timelines(plan_of(f"{versions('d', 1, 5)} {versions('d', 7, 25)}", first=22))
    assert rows(found) == [
        ("1 to 5", "delta", 5, "Kept"),
        ("6", "gap", 0, "breaks 6 to 25"),
        ("7 to 25", "delta", 19, "Kept"),
    ]


@pytest.mark.parametrize(
    ("notation", "gap"),
    [
        (versions("d", 2, 25), ("1", "gap", 0, "breaks 1 to 25")),
        (versions("d", 1, 23), ("24 to 25", "gap", 0, "breaks 24 to 25")),
        (
            f"{versions('d', 1, 23)} 25d 25s",
            ("24", "gap", 0, "breaks 24"),
        ),
    ],
    ids=["first", "last", "below a snapshot"],
)
def test_a_gap_ends_at_the_next_snapshot_or_the_target(
    notation: str, gap: tuple[str, str, int, str]
) -> None:
    (found,) = timelines(plan_of(notation, first=22))
    assert [row for row in rows(found) if row[1] == "gap"] == [gap]


def test_deltas_that_no_retained_version_needs_leave_no_gap() -> None:
    (found,) = timelines(plan_of(f"3d {versions('d', 18, 25)} 20s", first=22))
    assert not [row for row in rows(found) if row[1] == "gap"]


def test_gaps_come_before_files_beside_the_state() -> None:
    (found,) = timelines(plan_of(f"{versions('d', 1, 23)} 4c x:foo.bar", first=22))
    assert [kind for _, kind, *_ in rows(found)] == ["delta", "gap", "checksum", "other"]
