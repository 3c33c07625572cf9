"""Clocks that disagree, queries faster than a listing, executors and repartitions beside a run."""

from itertools import count

import pytest

from statemaint.audit import verify
from statemaint.maintain import maintain
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import Policy
from statemaint.model.verdict import Verdict
from statemaint.plan.actions import Plan
from statemaint.plan.reasons import KeepReason
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.records.claims import Holder
from statemaint.report.run import Report
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import (
    COMMIT,
    changes,
    delta_bytes,
    offsets_bytes,
    snapshot_bytes,
    state_at,
    write_checkpoint,
)
from tests.support.faults import Clock, Crash, CrashingStorage, HookedStorage
from tests.support.rewound import HOME, RewoundQuery

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=clock))


def found_in(one: Report | Plan, code: FindingCode) -> list[Finding]:
    findings = one.findings if isinstance(one, Report) else one.all_findings
    return [finding for finding in findings if finding.code is code]


def reasons(plan: Plan) -> set[KeepReason]:
    return {kept.reason for store in plan.stores for kept in store.kept}


# -- clocks


@pytest.mark.parametrize(("ahead", "skewed"), [(300.0, False), (301.0, True)])
def test_a_file_from_the_future_keeps_everything(
    storage: MemoryStorage,
    clock: Clock,
    ahead: float,
    skewed: bool,  # noqa: FBT001
) -> None:
    clock.now += ahead
    storage.write("state/0/1/26.delta", [b"a batch under way"])
    clock.now -= ahead
    report = maintain(storage, TIGHT)
    assert bool(found_in(report, FindingCode.CLOCK_SKEW)) == skewed
    assert report.snapshots_written == 4
    assert report.files_deleted.total() == (0 if skewed else 32)
    assert (KeepReason.CLOCK_SKEW in reasons(report.plan)) == skewed
    assert report.exit_code == 0


def test_the_finding_names_the_file_and_how_far_it_is_ahead(
    storage: MemoryStorage, clock: Clock
) -> None:
    clock.now += 4000
    storage.write("state/0/1/26.delta", [b""])
    clock.now -= 4000
    (finding,) = found_in(plan_checkpoint(storage, TIGHT)[1], FindingCode.CLOCK_SKEW)
    assert "state/0/1/26.delta is stamped 4000 seconds in the future" in finding.detail
    assert not finding.damage


@pytest.mark.parametrize(
    ("skew", "skewed"), [(300.0, False), (-300.0, False), (301.0, True), (-301.0, True)]
)
def test_a_clock_that_is_not_the_stamps_deletes_nothing(
    storage: MemoryStorage,
    skew: float,
    skewed: bool,  # noqa: FBT001
) -> None:
    class Elsewhere(MemoryStorage):
        """Its clock is not the one that stamps its files."""

        def now(self) -> float:
            return super().now() - skew

    # What is there is old by either clock: only the lease's own file tells.
    elsewhere = Elsewhere(storage.files, clock=lambda: storage.now() + 1e6)
    elsewhere._files = {path: (one, storage.now()) for path, one in storage.files.items()}
    report = maintain(elsewhere, TIGHT.override(grace=0.0))
    assert bool(found_in(report, FindingCode.CLOCK_SKEW)) == skewed
    assert report.snapshots_written == 4
    assert report.files_deleted.total() == (0 if skewed else 32)
    assert (KeepReason.CLOCK_SKEW in reasons(report.plan)) == skewed


def test_orphans_stay_as_well_while_clocks_disagree(storage: MemoryStorage, clock: Clock) -> None:
    orphan = "state/0/0/.9.delta.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp"
    storage.write(orphan, [b""])
    clock.now += 2e5
    storage.write("state/0/1/26.delta", [b""])
    clock.now -= 1e5
    maintain(storage, TIGHT)
    assert orphan in storage.files
    clock.now += 1e5
    maintain(storage, TIGHT)
    assert orphan not in storage.files


# -- executors


def foreign(storage: MemoryStorage) -> list[Finding]:
    return found_in(plan_checkpoint(storage, TIGHT)[1], FindingCode.FOREIGN_MAINTAINER)


def commit(storage: MemoryStorage, batch: int) -> None:
    for partition in range(2):
        content = delta_bytes(changes(batch + 1, partition))
        storage.write(f"state/0/{partition}/{batch + 1}.delta", [content])
    storage.write(f"offsets/{batch}", [offsets_bytes()])
    storage.write(f"commits/{batch}", [COMMIT])


def spark_snapshot(storage: MemoryStorage, version: int, partition: int = 0) -> None:
    content = snapshot_bytes(state_at(version, partition))
    storage.write(f"state/0/{partition}/{version}.snapshot", [content])


def test_snapshots_of_executors_mean_nothing_before_we_wrote_one(storage: MemoryStorage) -> None:
    spark_snapshot(storage, 20)
    assert foreign(storage) == []


def test_what_executors_wrote_before_us_says_nothing_of_today(storage: MemoryStorage) -> None:
    spark_snapshot(storage, 18)  # between our two, 17 and 25
    maintain(storage, TIGHT)
    assert {"state/0/0/17.snapshot", "state/0/0/25.snapshot"} <= storage.files.keys()
    assert foreign(storage) == []


def test_our_own_snapshots_are_not_foreign(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    maintain(storage, TIGHT)
    assert foreign(storage) == []


def test_a_newer_snapshot_of_an_executor_is_told_with_what_to_set(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    for partition in range(2):
        storage.write(f"state/0/{partition}/26.delta", [delta_bytes(changes(26, partition))])
    storage.write("offsets/25", [offsets_bytes()])
    storage.write("commits/25", [COMMIT])
    spark_snapshot(storage, 26)
    spark_snapshot(storage, 22, partition=1)
    (finding,) = foreign(storage)
    assert finding.detail.startswith("state/0/0/26.snapshot and 1 more snapshots were written by")
    for setting in ("minDeltasForSnapshot to 1000000", "forceSnapshotUploadOnLag=false"):
        assert setting in finding.detail
    report = maintain(storage, TIGHT)  # a notice: the work goes on
    assert (report.exit_code, len(found_in(report, FindingCode.FOREIGN_MAINTAINER))) == (0, 1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_crash_never_makes_our_own_look_foreign(
    storage: MemoryStorage, *, again: bool, after: bool
) -> None:
    if again:  # from now on the ledger knows of snapshots that we wrote
        maintain(storage, TIGHT)
        for batch in range(25, 32):
            commit(storage, batch)
    holder = Holder("run")
    for at in range(500):
        crashing = CrashingStorage(storage.files, at=at, after=after, clock=storage.now)
        try:
            maintain(crashing, TIGHT, run="run", holder=holder)
        except Crash:
            crashed = MemoryStorage(crashing.files, clock=storage.now)
            assert foreign(crashed) == []
            maintain(crashed, TIGHT, run="run", holder=holder)
            assert foreign(crashed) == []
            continue
        break
    assert at >= 10


def test_a_ledger_that_is_gone_makes_nothing_foreign(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    for path in list(storage.files):
        if path.startswith("_statemaint/"):
            storage.delete(path)
    assert foreign(storage) == []
    maintain(storage, TIGHT.override(min_deltas_for_snapshot=1))
    assert foreign(storage) == []


# -- repartitions


def begin(storage: MemoryStorage, partitions: str, batch: int = 25) -> None:
    storage.write(f"offsets/{batch}", [offsets_bytes({"shuffle.partitions": partitions})])


def test_an_unfinished_repartition_halts_everything(storage: MemoryStorage) -> None:
    begin(storage, "4")
    before = storage.files
    report = maintain(storage, TIGHT)
    (finding,) = found_in(report, FindingCode.UNFINISHED_REPARTITION)
    assert "offsets/25 changes spark.sql.shuffle.partitions from 2 to 4" in finding.detail
    assert finding.damage
    assert (report.exit_code, storage.files) == (3, before)
    assert report.plan.actions == ()


def test_a_batch_under_way_is_no_repartition(storage: MemoryStorage) -> None:
    begin(storage, "2")
    report = maintain(storage, TIGHT)
    assert found_in(report, FindingCode.UNFINISHED_REPARTITION) == []
    assert report.files_deleted.total() == 32


def test_a_repartition_that_is_committed_is_over(storage: MemoryStorage) -> None:
    begin(storage, "4")
    storage.write("commits/25", [COMMIT])
    codes = {one.code for one in scan_checkpoint(storage).findings}
    assert FindingCode.UNFINISHED_REPARTITION not in codes


def test_a_committed_offset_that_cannot_be_read_halts_everything(storage: MemoryStorage) -> None:
    begin(storage, "4")
    storage.write("offsets/24", [b"v1\n{"], overwrite=True)
    codes = {one.code for one in scan_checkpoint(storage).findings}
    assert FindingCode.UNREADABLE_OFFSET in codes


def test_a_repartition_from_the_first_batch_on_needs_a_commit_to_compare(
    storage: MemoryStorage,
) -> None:
    for batch in range(16, 25):
        storage.delete(f"commits/{batch}")
    begin(storage, "4")
    codes = {one.code for one in scan_checkpoint(storage).findings}
    assert codes == {FindingCode.NO_COMMITTED_BATCH}


def test_a_query_that_outruns_every_listing_is_not_damaged() -> None:
    """Between the logs and the state of each look it commits, purges and cleans up."""
    query, batches = RewoundQuery(), count(31, 2)
    query.run(0, 30)
    for version in range(21, 32, 2):
        query.upload(version)
    query.purge(20)

    def go_on(verb: str, path: str) -> None:
        if (verb, path) == ("list", "state"):
            batch = next(batches)
            query.run(batch, batch + 1)
            query.upload(batch + 2)
            query.purge(batch - 9)
            lower = [name for name in query.names if int(name.partition(".")[0]) < batch - 8]
            query.storage.delete_all([f"{HOME}/{name}" for name in lower])

    live = HookedStorage(query.storage, before=go_on)
    _, plan = plan_checkpoint(live, TIGHT)
    assert (plan.verdict, plan.all_findings) == (Verdict.HEALTHY, ())
    assert verify(live).verdict is Verdict.HEALTHY
