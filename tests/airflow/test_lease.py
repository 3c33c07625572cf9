"""The tasks of one run hold one lease; `report` ends it; another run's tasks try again later."""

from pathlib import Path

import pytest

from statemaint.airflow.bundles import Bundle
from statemaint.airflow.tasks import (
    Failure,
    Maintained,
    Options,
    Settings,
    finish,
    maintain_bundle,
    plan_query,
)
from statemaint.errors import LeaseHeldError, LeaseLostError
from statemaint.execute import trashed_runs
from statemaint.execute.lease import acquire, newest
from statemaint.maintain import list_runs, undo
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.airflow.support import TARGET, damaged, neglected, tree_hash

POLICY = Policy(min_batches_to_retain=5, grace=0.0)
RUN, NEXT = "manual__2026-11-21T14:00:00+00:00", "scheduled__2026-11-21T15:00:00+00:00"


def settings(checkpoint: Path, *, trash_for: float = 0.0) -> Settings:
    return Settings("hourly", str(checkpoint), POLICY.override(trash_for=trash_for))


def maintained(where: Settings, partition: int, run: str) -> Maintained:
    return maintain_bundle(where, Bundle(0, (partition,), TARGET), Options(), run=run)


def test_the_tasks_of_a_run_share_one_lease_and_report_ends_it(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    storage = LocalStorage(where.checkpoint)
    planned = plan_query(where, Options()).bundles
    assert newest(storage) is None
    told = [maintained(where, number, RUN) for number in range(4)]
    assert [one.failure for one in told] == [None] * 4
    held = newest(storage)
    assert held is not None
    assert (held.number, held.run) == (1, RUN)
    assert held.deadline > storage.now()
    finish(where, planned, [one.summary for one in told if one.summary], Options(), run=RUN)
    assert acquire(storage, "next").number == 2


def test_another_runs_task_may_try_again(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    maintained(where, 0, RUN)
    state = Path(where.checkpoint) / "state"
    before = tree_hash(state)
    done = maintained(where, 1, NEXT)
    assert done.summary is None
    assert done.failure is not None
    assert done.failure.retry
    assert done.failure.reason.startswith("LEASE_HELD: ")
    assert f"(run {RUN})" in done.failure.reason
    assert tree_hash(state) == before


def test_a_lease_that_is_held_or_lost_is_worth_another_try() -> None:
    assert Failure.of(LeaseHeldError("root", "host:1", "run", 0.0)).retry
    assert Failure.of(LeaseLostError("root", 1)).retry


def test_report_does_not_mind_a_lease_of_another_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = settings(neglected(tmp_path / "c"))
    planned = plan_query(where, Options()).bundles
    acquire(LocalStorage(where.checkpoint), "other")
    assert finish(where, planned, [], Options(), run=RUN)["without_report"] == 4
    assert any("maintains it and holds the lease" in line for line in caplog.messages)


@pytest.mark.parametrize("options", [Options(), Options(dry_run=True)])
def test_report_takes_no_lease_where_nothing_was_to_be_done(
    tmp_path: Path, options: Options
) -> None:
    where = settings(neglected(tmp_path / "c"))
    planned = plan_query(where, Options()).bundles if options.dry_run else ()
    before = tree_hash(Path(where.checkpoint))
    finish(where, planned, [], options, run=RUN)
    assert tree_hash(Path(where.checkpoint)) == before


def test_a_run_of_airflow_can_be_undone_by_its_id(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), trash_for=3600.0)
    storage = LocalStorage(where.checkpoint)
    for number in range(4):
        maintained(where, number, RUN)
    finish(where, (), [], Options(), run=RUN)
    (listed,) = list_runs(storage)
    assert (listed.tasks, listed.files_deleted, listed.in_trash) == (4, 64, True)
    acquire(storage, RUN).release()
    assert undo(storage, RUN).files == 64
    assert trashed_runs(storage) == {}


@pytest.mark.parametrize("sound", [True, False])
def test_report_empties_the_trash_unless_there_is_damage(
    tmp_path: Path,
    sound: bool,  # noqa: FBT001
) -> None:
    folder = neglected(tmp_path / "c") if sound else damaged(tmp_path / "c")
    where = settings(folder, trash_for=1e-9)  # over by the time it is looked at
    planned = plan_query(where, Options()).bundles
    told = [maintained(where, number, RUN).summary for number in range(4)]
    finish(where, planned, [one for one in told if one], Options(), run=RUN)
    assert bool(trashed_runs(LocalStorage(where.checkpoint))) != sound
