"""The tasks of one run hold one lease; `report` ends it; another run's tasks try again later."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import finish, plan_query
from statemaint.errors import LeaseHeldError, LeaseLostError
from statemaint.execute.lease import QUIET, acquire, end_earlier
from statemaint.maintain import list_runs, undo
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.work import TaskResults
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder, newest, path_of
from statemaint.records.trashed import trashed_runs
from statemaint.report.task import BundleReport, Failure, dumped, loaded
from statemaint.storage import LocalStorage, MemoryStorage
from tests.systems.airflow.support import TARGET, damaged, neglected, tree_hash, work_on

POLICY = Policy(min_batches_to_retain=5, grace=0.0)
RUN, NEXT = "manual__2026-11-21T14:00:00+00:00", "scheduled__2026-11-21T15:00:00+00:00"
NAME = f"statemaint__hourly/{RUN}, begun 2026-11-21 14:00:01+00:00"


def settings(checkpoint: Path, *, trash_for: float = 0.0) -> QuerySettings:
    return QuerySettings("hourly", str(checkpoint), POLICY.override(trash_for=trash_for))


def maintained(
    where: QuerySettings, partition: int, holder: Holder, run: str = RUN
) -> BundleReport:
    return work_on(where, Bundle(0, (partition,), TARGET, holder), Options(), run=run)


def later(storage: LocalStorage, number: int, seconds: float = QUIET) -> None:
    """Lets a claim have been made some seconds earlier."""
    path = Path(storage.root) / path_of(number)
    fields = json.loads(path.read_bytes())
    fields["deadline"] -= seconds
    path.write_text(json.dumps(fields), encoding="utf-8")


def test_the_tasks_of_a_run_share_one_lease_and_report_ends_it(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    storage = LocalStorage(where.checkpoint)
    holder = Holder(NAME)
    planned = plan_query(where, Options(), holder).bundles
    reserved = newest(storage)
    assert reserved is not None
    assert (reserved.number, reserved.holder) == (1, holder)
    handed = tuple(loaded(Bundle, json.loads(json.dumps(dumped(one)))) for one in planned)
    told = [work_on(where, one, Options(), run=RUN) for one in handed]
    assert [one.failure for one in told] == [None] * 4
    held = newest(storage)
    assert held is not None
    assert (held.number, held.holder) == (1, holder)
    assert held.deadline > storage.now()
    finish(where, TaskResults(handed, reports=tuple(told)))
    with pytest.raises(LeaseHeldError):  # a task may be at work that nobody knows of
        acquire(storage, Holder("next"))
    later(storage, 2)
    assert acquire(storage, Holder("next")).number == 3


def test_another_dag_with_the_same_run_id_is_refused(tmp_path: Path) -> None:
    """Every DAG of one schedule has runs of the same id, in every installation of Airflow."""
    where = settings(neglected(tmp_path / "c"))
    other = replace(where, query="daily", policy=POLICY.override(min_batches_to_retain=1))
    maintained(where, 0, Holder(NAME))
    state = Path(where.checkpoint) / "state"
    before = tree_hash(state)
    for holder in (Holder("statemaint__daily/" + RUN), Holder(NAME)):
        done = maintained(other, 1, holder)
        assert not done.inspected
        assert done.failure is not None
        assert done.failure.reason.startswith("LEASE_HELD: ")
        assert f"(run {NAME})" in done.failure.reason
        finish(other, TaskResults((Bundle(0, (1,), TARGET, holder),)))
    assert tree_hash(state) == before


def test_a_task_that_was_handed_no_lease_takes_one_of_its_own(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    done = work_on(where, Bundle(0, (0,), TARGET), Options(), run=RUN)
    assert done.failure is None
    assert acquire(LocalStorage(where.checkpoint), Holder("next")).number == 2


def test_a_plan_that_is_tried_again_stops_the_tasks_of_the_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = settings(neglected(tmp_path / "c"))
    storage = LocalStorage(where.checkpoint)
    first, again = Holder(NAME), Holder(NAME, attempt=2)
    zombie = acquire(storage, first)
    held = plan_query(where, Options(), again).held  # a task of attempt 1 may still be at work
    assert held is not None
    assert held.startswith("LEASE_HELD: ")
    assert f"attempt 1 at run {NAME}; this is attempt 2" in caplog.text
    with pytest.raises(LeaseLostError):
        zombie.must_hold()
    late = maintained(where, 1, first)
    assert late.failure is not None
    assert "attempt 2 at its run has begun" in late.failure.reason
    later(storage, 2)
    (bundle, *_) = plan_query(where, Options(), again).bundles
    assert work_on(where, bundle, Options(), run=RUN).failure is None
    assert maintained(where, 1, first).failure is not None
    with pytest.raises(LeaseLostError):
        zombie.must_hold()


def test_a_plan_leaves_the_lease_of_every_other_run_alone(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    storage = LocalStorage(where.checkpoint)
    held = acquire(storage, Holder(NAME, attempt=2))
    for holder in (Holder(NAME), Holder(NAME, attempt=2), Holder("another", attempt=3)):
        assert plan_query(where, Options(), holder).held
    plan_query(where, Options(dry_run=True), Holder(NAME, attempt=3))
    held.must_hold()
    assert held.number == 1


def test_the_first_attempt_to_plan_asks_the_storage_nothing() -> None:
    storage = MemoryStorage()
    end_earlier(storage, Holder(NAME))
    assert storage.requests == {}


def test_another_runs_task_may_try_again(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    maintained(where, 0, Holder(NAME))
    state = Path(where.checkpoint) / "state"
    before = tree_hash(state)
    done = maintained(where, 1, Holder("statemaint__hourly/" + NEXT), NEXT)
    assert not done.inspected
    assert done.failure is not None
    assert done.failure.retry
    assert done.failure.reason.startswith("LEASE_HELD: ")
    assert f"(run {NAME})" in done.failure.reason
    assert tree_hash(state) == before


def test_a_lease_that_is_held_or_lost_is_worth_another_try() -> None:
    assert Failure.of(LeaseHeldError("root", "host:1", "run", 0.0)).retry
    assert Failure.of(LeaseLostError("root", 1)).retry


def test_report_does_not_mind_a_lease_of_another_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = settings(neglected(tmp_path / "c"))
    planned = tuple(Bundle(0, (number,), TARGET, Holder(NAME)) for number in range(4))
    acquire(LocalStorage(where.checkpoint), Holder("other"))
    assert finish(where, TaskResults(planned))["without_report"] == 4
    assert any("maintains it and holds the lease" in line for line in caplog.messages)


def test_report_takes_no_lease_where_nothing_was_to_be_done(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    root = Path(where.checkpoint)
    before = tree_hash(root)
    finish(where, TaskResults())
    left = {file.name for file in (root / "_statemaint").iterdir()}
    assert left == {"metrics.json", "trend.json"}
    shutil.rmtree(root / "_statemaint")
    assert tree_hash(root) == before


def test_a_plan_waits_while_another_run_holds_the_lease(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    held = acquire(LocalStorage(where.checkpoint), Holder("other"))
    before = tree_hash(Path(where.checkpoint))
    planned = plan_query(where, Options(), Holder(NAME))
    assert planned.held is not None
    assert planned.held.startswith("LEASE_HELD: ")
    assert "(run other)" in planned.held
    assert (planned.bundles, planned.failure) == ((), None)
    assert tree_hash(Path(where.checkpoint)) == before
    held.release()
    assert len(plan_query(where, Options(), Holder(NAME)).bundles) == 4


def test_a_dry_run_does_not_wait_for_a_lease_and_takes_none(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    acquire(LocalStorage(where.checkpoint), Holder("other"))
    before = tree_hash(Path(where.checkpoint))
    assert plan_query(where, Options(dry_run=True), Holder(NAME)).note
    assert tree_hash(Path(where.checkpoint)) == before


def test_a_plan_without_work_takes_no_lease(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    where = replace(where, policy=Policy(min_deltas_for_snapshot=30))
    assert plan_query(where, Options(), Holder(NAME)).bundles == ()
    assert newest(LocalStorage(where.checkpoint)) is None


def test_a_run_of_airflow_can_be_undone_by_its_id(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), trash_for=3600.0)
    storage, holder = LocalStorage(where.checkpoint), Holder(NAME)
    told = [maintained(where, number, holder) for number in range(4)]
    finish(where, TaskResults((Bundle(0, (0,), TARGET, holder),), reports=tuple(told)))
    (listed,) = list_runs(storage)
    assert (listed.tasks, listed.files_deleted, listed.in_trash) == (4, 64, True)
    later(storage, 2)
    assert undo(storage, RUN).files == 64
    assert trashed_runs(storage) == {}


@pytest.mark.parametrize("sound", [True, False])
def test_report_empties_the_trash_unless_there_is_damage(
    tmp_path: Path,
    sound: bool,  # noqa: FBT001
) -> None:
    folder = neglected(tmp_path / "c") if sound else damaged(tmp_path / "c")
    where = settings(folder, trash_for=1e-9)  # over by the time it is looked at
    holder = Holder(NAME)
    planned = plan_query(where, Options(), holder).bundles
    told = [maintained(where, number, holder) for number in range(4)]
    finish(where, TaskResults(planned, reports=tuple(told)))
    assert bool(trashed_runs(LocalStorage(where.checkpoint))) != sound
