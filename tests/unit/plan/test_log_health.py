"""What is missing from the logs, told by the names that are left."""

import pytest

from statemaint.audit import verify
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import Policy
from statemaint.model.verdict import Verdict
from statemaint.plan.findings.restart import diagnose_logs
from statemaint.planning import plan_checkpoint, scan_with_logs
from statemaint.report.to_json import scan_json
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import LateStorage
from tests.unit.codec.metadata.test_logs import OPERATOR


def lost(*, commits: str, offsets: str) -> list[str]:
    logs = {"batches": commits, "offsets": offsets}
    numbers = {name: tuple(map(int, text.split())) for name, text in logs.items()}
    return [str(one.path) for one in diagnose_logs(Checkpoint("memory:", **numbers))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("commits", "offsets"),
    [
        ("", ""),
        ("", "0"),
        ("0", ""),
        ("7 8", ""),
        ("0", "0"),
        ("0", "0 1"),
        ("7 8 9", "7 8 9"),
        ("7 8 9", "7 8 9 10"),
        ("7 8 9", "8 9"),
        ("8 9", "7 8 9"),
        ("8 9", "6 7 8 9 10"),
    ],
)
def test_what_purging_and_a_running_batch_leave_is_in_order(commits: str, offsets: str) -> None:
    assert lost(commits=commits, offsets=offsets) == []


@pytest.mark.parametrize(
    ("commits", "offsets", "missing"),
    [
        ("7 9", "7 8 9", ["commits/8"]),
        ("7 8", "7 8 9 10", ["commits/9"]),
        ("7 8 9", "7 9", ["offsets/8"]),
        ("7 8 9", "7 8", ["offsets/9"]),
        ("8 9", "9", ["offsets/8"]),
        ("9", "10", ["offsets/9"]),
        ("6 7 8 9", "6 8 9", ["offsets/7"]),
        (
            "5 9",
            "5 9",
            ["commits/6", "commits/7", "commits/8", "offsets/6", "offsets/7", "offsets/8"],
        ),
    ],
)
def test_a_hole_is_named(commits: str, offsets: str, missing: list[str]) -> None:
    assert lost(commits=commits, offsets=offsets) == missing


def test_without_commits_the_newest_planned_batch_is_named() -> None:
    (found,) = diagnose_logs(Checkpoint("memory:", offsets=(3, 4, 7)))
    assert found.code is FindingCode.MISSING_COMMIT
    assert found.detail.startswith("commits/ is missing or empty although batch 7 was planned")


def test_only_the_newest_two_offsets_stop_a_restart() -> None:
    found = diagnose_logs(Checkpoint("memory:", batches=(6, 7, 8), offsets=(5, 7)))
    assert ["a restart fails" in one.detail for one in found] == [False, True]


def test_a_hole_that_is_filled_at_a_second_look_was_none() -> None:
    """In the listing of a query that purges, an entry in the middle goes first."""
    storage = write_checkpoint(MemoryStorage())
    late = LateStorage(storage, "commits", "commits/18")
    assert verify(late).findings == ()
    assert late.paths("list").count("commits") > 1
    storage.delete("commits/18")
    assert [one.path for one in verify(storage).findings] == ["commits/18"]


def test_a_schema_that_the_operators_metadata_promises_is_missed() -> None:
    storage = write_checkpoint(MemoryStorage())
    storage.write("state/0/_metadata/metadata", [OPERATOR])
    found = verify(storage)
    assert [one.code for one in found.findings] == [FindingCode.MISSING_SCHEMA]
    assert found.findings[0].path == "state/0/0/_metadata/schema"
    assert not found.healthy
    storage.write(
        "state/0/_stateSchema/default/0_0f6d2b1c-5a3e-4c7d-9b8a-112233445566", [b"not read here"]
    )
    assert verify(storage).findings == ()


@pytest.mark.parametrize("stray", [1_000_000, 20_261_122, 10**14, 2**63 - 2])
def test_a_commit_far_above_the_others_is_no_more_work(stray: int) -> None:
    storage = write_checkpoint(MemoryStorage())
    storage.write(f"commits/{stray}", [storage.read("commits/24")])
    found = verify(storage).findings
    assert [(one.code, one.path) for one in found] == [
        (FindingCode.MISSING_COMMIT, "commits/25"),
        (FindingCode.MISSING_OFFSET, f"offsets/{stray}"),
        (FindingCode.BROKEN_CHAIN, "state/0/0/26.delta"),
        (FindingCode.BROKEN_CHAIN, "state/0/1/26.delta"),
    ]
    assert found[0].detail.startswith(
        f"all of commits/25 to commits/{stray - 1} are missing, {stray - 25:,} files: "
        "nothing shows "
    )
    assert "a restart fails" in found[1].detail
    assert found[2].batches == (stray,)


def test_a_name_beyond_the_numbers_of_spark_is_no_batch() -> None:
    storage = write_checkpoint(MemoryStorage())
    for number in (2**63 - 1, 2**63, 10**30, 10**200):
        storage.write(f"commits/{number}", [b""])
        storage.write(f"offsets/{number}", [b""])
    assert verify(storage).findings == ()


def test_a_wide_gap_below_the_newest_two_stops_no_restart() -> None:
    logs = Checkpoint("memory:", batches=(1, 999, 1000), offsets=(1, 999, 1000))
    missing = {one.path: one.detail.partition(";")[0] for one in diagnose_logs(logs)}
    assert list(missing) == ["commits/2", "offsets/998"]
    assert missing["commits/2"] == (
        "all of commits/2 to commits/998 are missing, 997 files: nothing shows whether "
        "batches 2 to 998 were committed, and the state is not offered to readers"
    )
    assert missing["offsets/998"] == (
        "all of offsets/2 to offsets/998 are missing, 997 files: the query cannot go back to "
        "any of batches 2 to 998"
    )


def log(commits: str, offsets: str) -> list[Finding]:
    logs = {"batches": commits, "offsets": offsets}
    numbers = {name: tuple(map(int, text.split())) for name, text in logs.items()}
    return list(diagnose_logs(Checkpoint("memory:", **numbers)))  # type: ignore[arg-type]


def test_a_missing_commit_says_what_it_costs_and_what_to_do() -> None:
    (found,) = log("7 9", "7 8 9")
    assert found == Finding(
        FindingCode.MISSING_COMMIT,
        "commits/8 is missing: nothing shows whether batch 8 was committed, and the state is not "
        "offered to readers; put the file back from a copy",
        path="commits/8",
    )
    assert found.batches == (8,)


def test_a_missing_offset_says_what_it_costs_and_what_to_do() -> None:
    back = "the query cannot go back to batch 6; put the file back from a copy"
    fails = "a restart fails; put the file back from a copy"
    for offsets, path, cost in (
        ("5 7 8", "offsets/6", back),
        ("5 6 8", "offsets/7", fails),
        ("5 6 7", "offsets/8", fails),
    ):
        (found,) = log("5 6 7 8", offsets)
        detail = f"{path} is missing: {cost}"
        assert found == Finding(FindingCode.MISSING_OFFSET, detail, path=path)


def test_a_wide_gap_is_one_finding_and_a_narrow_one_many() -> None:
    wide = log("1 102", " ".join(map(str, range(1, 103))))
    assert [(one.path, len(one.batches)) for one in wide] == [("commits/2", 100)]
    assert wide[0].detail.startswith("all of commits/2 to commits/101 are missing, 100 files: ")
    narrow = log("1 101", " ".join(map(str, range(1, 102))))
    assert [one.path for one in narrow] == [f"commits/{batch}" for batch in range(2, 101)]


@pytest.mark.parametrize("planned", [1, 7])
def test_a_log_without_commits_is_missed_once_a_second_batch_was_planned(planned: int) -> None:
    (found,) = log("", f"0 {planned}")
    assert found == Finding(
        FindingCode.MISSING_COMMIT,
        f"commits/ is missing or empty although batch {planned} was planned: a restart runs it "
        "again on the state before it, and fails where versions have unique ids; put the folder "
        "back from a copy",
        path="commits",
    )


def test_the_first_two_batches_need_no_offsets_below_them() -> None:
    assert log("0", "0") == []
    assert log("0 1", "0 1") == []
    assert [one.path for one in log("0 1", "1")] == ["offsets/0"]
    assert [one.path for one in log("0 1 2", "2")] == ["offsets/1"]
    assert [one.path for one in log("0 1 2", "0 1")] == ["offsets/2"]


@pytest.mark.parametrize(
    ("missing", "code", "verdict"),
    [
        ("offsets/24", FindingCode.MISSING_OFFSET, Verdict.BROKEN),
        ("offsets/23", FindingCode.MISSING_OFFSET, Verdict.BROKEN),
        ("commits", FindingCode.MISSING_COMMIT, Verdict.DEGRADED),
    ],
)
def test_a_plan_and_a_scan_find_what_a_restart_lacks_in_the_logs(
    missing: str, code: FindingCode, verdict: Verdict
) -> None:
    storage = write_checkpoint(MemoryStorage())
    storage.delete_all([path for path in storage.files if f"{path}/".startswith(f"{missing}/")])
    _, plan = plan_checkpoint(storage, Policy())
    assert (plan.findings[-1].code, plan.verdict, plan.actions) == (code, verdict, ())
    assert scan_json(scan_with_logs(storage))["verdict"] == verdict


def test_a_plan_goes_on_where_only_an_older_entry_is_missing() -> None:
    storage = write_checkpoint(MemoryStorage())
    storage.delete_all(["offsets/20", "commits/20"])
    _, plan = plan_checkpoint(storage, Policy())
    assert (plan.findings, len(plan.actions)) == ((), 2)
