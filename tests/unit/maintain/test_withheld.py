"""A run that writes no snapshot for a long chain says why, until when, and what to set."""

from collections.abc import Iterator

import pytest

from statemaint.audit import doctor
from statemaint.cli.maintain import _summary
from statemaint.cli.scan import print_plan
from statemaint.errors import StorageError, Superseded
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.model.restart_time import LONG_CHAIN
from statemaint.plan.reasons import SnapshotReason, WithheldReason
from statemaint.plan.withheld import by_reason
from statemaint.planning import plan_checkpoint
from statemaint.report.facts import facts_of
from statemaint.report.run import Report
from statemaint.report.to_json import report_json
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import HookedStorage
from tests.support.in_memory import in_memory
from tests.unit.maintain.test_habits import Slow

NOW = 1_800_000_000.0
FIVE = Policy(min_deltas_for_snapshot=5)
QUIET_UNTIL = 600 + 2 * 300


def reasons(report: Report) -> set[tuple[SnapshotReason, WithheldReason, int | None]]:
    return {(one.due, one.wait.reason, one.wait.version) for one in report.withheld}


@pytest.fixture
def silent() -> Iterator[Slow]:
    """Its executor uploaded 300 and 600, and fell silent; a run after every fifteenth batch."""
    with in_memory():
        slow = Slow(ids=False)
        slow.uploads(300)
        slow.uploads(600)
        slow.query.restart(None)
        yield slow


def run_at(slow: Slow, last: int) -> Report:
    while slow.query.target < last:
        slow.batches(min(slow.query.target + 15, last))
        report = maintain(slow.storage, FIVE)
        assert report.exit_code == 0
    return report


def test_an_executor_that_fell_silent_delays_snapshots_and_each_run_says_until_when(
    silent: Slow, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_at(silent, 695).snapshots_written == 1
    for last in range(710, 895, 15):
        report = run_at(silent, last)
        assert report.snapshots_written == 0
        assert reasons(report) == {
            (SnapshotReason.CHAIN_TOO_LONG, WithheldReason.EXECUTORS, QUIET_UNTIL),
            (SnapshotReason.REBASE, WithheldReason.EXECUTORS, QUIET_UNTIL),
        }
        assert [one.code for one in report.findings] == [FindingCode.SNAPSHOT_WITHHELD]
    chain = silent.query.target - 695
    assert f"replays up to {chain} deltas in a store now" in report.findings[0].detail
    assert f"and up to {QUIET_UNTIL - 695} by then" in report.findings[0].detail
    assert {one["until_version"] for one in report_json(report)["withheld"]} == {QUIET_UNTIL}
    assert facts_of(report).counts["withheld"] == {"executors_may_upload": 2}
    (waiting,) = by_reason(report.withheld)
    assert str(waiting) in [*_summary(report)]
    _, planned = plan_checkpoint(silent.storage, FIVE)
    print_plan(planned)
    printed = capsys.readouterr().out
    assert f"withheld    {waiting}" in printed
    assert "to do       nothing: each due snapshot is withheld; see the findings" in printed
    diagnosis = doctor(silent.storage)
    assert (diagnosis.restarts, len(diagnosis.next)) == (True, 1)
    assert f"until version {QUIET_UNTIL} is committed" in diagnosis.next[0]
    run_at(silent, QUIET_UNTIL - 1)
    over = run_at(silent, QUIET_UNTIL)
    assert (over.snapshots_written, over.withheld, over.findings) == (2, (), ())


def neglected() -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=lambda: NOW), partitions=2)


def test_a_run_whose_time_is_over_names_the_snapshots_that_it_did_not_write() -> None:
    report = maintain(neglected(), FIVE.override(max_seconds_per_run=0))
    assert report.snapshots_written == 0
    assert {reason for _, reason, _ in reasons(report)} == {WithheldReason.OUT_OF_TIME}
    assert len(report.withheld) == sum(len(one.actions) for one in report.plan.stores)
    assert report.findings == ()


def test_a_restart_that_is_long_because_runs_are_too_short_is_a_notice() -> None:
    storage = MemoryStorage(clock=lambda: NOW)
    batches = [LONG_CHAIN - 1, LONG_CHAIN]
    write_checkpoint(storage, last=LONG_CHAIN + 1, batches=batches, partitions=1)
    report = maintain(storage, FIVE.override(max_seconds_per_run=0))
    (notice,) = report.findings
    assert (notice.code, report.exit_code) == (FindingCode.SNAPSHOT_WITHHELD, 0)
    assert "the run reached max_seconds_per_run before the store" in notice.detail
    assert f"replays up to {LONG_CHAIN + 1} deltas in a store now" in notice.detail


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StorageError("state/0/1", "no route"), WithheldReason.HALTED),
        (Superseded("state/0/1", "was replaced"), WithheldReason.MOVED_ON),
    ],
)
def test_a_store_that_a_run_leaves_names_the_snapshots_that_it_did_not_write(
    error: Exception, reason: WithheldReason
) -> None:
    def fail(verb: str, path: str) -> None:
        if verb == "write" and path.startswith("state/0/1/"):
            raise error

    storage = HookedStorage(neglected().files, before=fail, clock=lambda: NOW)
    report = maintain(storage, FIVE)
    assert {(one.store.partition, one.wait.reason) for one in report.withheld} == {(1, reason)}
    assert report.snapshots_written > 0


def test_a_dry_run_withholds_nothing_that_a_run_would_write() -> None:
    assert maintain(neglected(), FIVE, dry_run=True).withheld == ()


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (
            Policy(min_deltas_for_snapshot=50, min_batches_to_retain=2),
            (
                "the longest chain has 25 deltas (min_deltas_for_snapshot 50); the commit log "
                "still has the batch of version 17"
            ),
        ),
        (
            Policy(min_deltas_for_snapshot=50, verify=False),
            "the longest chain has 25 deltas (min_deltas_for_snapshot 50); --no-verify disables",
        ),
        (
            Policy(min_deltas_for_snapshot=50),
            "(min_deltas_for_snapshot 50); every file is kept: 50 needed by retained version",
        ),
    ],
)
def test_a_plan_with_nothing_to_do_says_why(
    policy: Policy, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_plan(plan_checkpoint(neglected(), policy)[1])
    assert "to do       nothing: " in (printed := capsys.readouterr().out)
    assert why in printed


def test_a_plan_of_a_query_without_a_commit_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    storage = neglected()
    for path in list(storage.files):
        if path.startswith("commits/"):
            storage.delete(path)
    print_plan(plan_checkpoint(storage, FIVE)[1])
    assert "to do       nothing: no batch is committed" in capsys.readouterr().out


def test_a_plan_whose_stores_are_all_damaged_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    storage = neglected()
    for part in (0, 1):
        storage.delete(f"state/0/{part}/22.delta")
    print_plan(plan_checkpoint(storage, FIVE)[1])
    assert "to do       nothing: the findings halt every store" in capsys.readouterr().out
