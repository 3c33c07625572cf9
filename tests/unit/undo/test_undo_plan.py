"""What an undo shows beforehand is what it does, and it writes nothing for it (S13, S14, S17)."""

import pytest

from statemaint.errors import ConfigError, NotACheckpointError, Superseded
from statemaint.maintain import maintain, undo
from statemaint.model.ids import RecoveryVerb
from statemaint.plan.recovery.recovery_plan import UndoPlan
from statemaint.recover import rollback
from statemaint.report.to_json import undo_fingerprint
from statemaint.storage import MemoryStorage
from statemaint.undo.run import plan_undo
from tests.support.checkpoints import TIGHT, UUID, delta_bytes
from tests.support.faults import Clock
from tests.support.going_on import rows, run

DAY = 86_400.0
KEEPING = TIGHT.override(trash_for=7 * DAY)
HOME = "state/0/0"
STRAY = f"{HOME}/.3.delta.{UUID}.tmp"


def planned(storage: MemoryStorage, run: str) -> UndoPlan:
    """Returns the plan, and makes sure that nothing was written for it."""
    before = dict(storage.files)
    found = plan_undo(storage, run)
    assert storage.files == before
    return found


def must_do_as_planned(storage: MemoryStorage, plan: UndoPlan) -> None:
    done = undo(storage, plan.run, expected=undo_fingerprint(plan))
    assert (done.files, done.bytes, done.left) == (len(plan.coming), plan.bytes, plan.left)
    assert all(one.path in storage.files for one in plan.coming)


def test_all_that_comes_back_is_planned(storage: MemoryStorage) -> None:
    plan = planned(storage, maintain(storage, KEEPING).run)
    assert (len(plan.coming), plan.left, plan.verb) == (16, {}, None)
    must_do_as_planned(storage, plan)


def test_what_stays_is_planned_with_its_reason(storage: MemoryStorage) -> None:
    deleted = maintain(storage, KEEPING).run
    storage.write(f"{HOME}/5.delta", [delta_bytes(rows(5, 1))])
    plan = planned(storage, deleted)
    assert len(plan.left) == 16
    assert f"{HOME}/5.delta was written after run {deleted}" in plan.left[f"{HOME}/5.delta"]
    must_do_as_planned(storage, plan)


def test_a_file_in_the_place_of_another_is_planned_to_stay_and_never_overwritten(
    storage: MemoryStorage, clock: Clock
) -> None:
    storage.write(STRAY, [b"one"])
    clock.now += 10 * DAY
    deleted = maintain(storage, KEEPING).run
    storage.write(STRAY, [b"another"])
    plan = planned(storage, deleted)
    assert plan.left[STRAY].startswith("another file is in its place")
    must_do_as_planned(storage, plan)
    assert storage.files[STRAY] == b"another"


def test_an_undo_that_was_cut_short_is_planned_to_its_end(storage: MemoryStorage) -> None:
    deleted = maintain(storage, KEEPING).run
    path = f"{HOME}/16.delta"
    storage.write(path, [storage.files[f"_statemaint/trash/{deleted}/{path}"]])
    plan = planned(storage, deleted)
    assert plan.files[0].path == path
    assert plan.files[0].comes_back


@pytest.mark.parametrize("change", ["of the log", "of the trash"])
def test_another_world_is_another_plan_and_nothing_is_done(
    storage: MemoryStorage, change: str
) -> None:
    deleted = maintain(storage, KEEPING).run
    plan = planned(storage, deleted)
    folder = HOME if change == "of the log" else f"_statemaint/trash/{deleted}/{HOME}"
    storage.write(f"{folder}/5.delta", [delta_bytes(rows(5, 1))], overwrite=True)
    before = dict(storage.files)
    with pytest.raises(Superseded, match=f"the undo of run {deleted} has changed"):
        undo(storage, deleted, expected=undo_fingerprint(plan))
    assert storage.files == before


def test_a_rollback_is_planned_as_a_whole_and_refused_as_a_whole(
    storage: MemoryStorage, clock: Clock
) -> None:
    gone = rollback(storage, 20, trash_for=DAY).run
    clock.now += 60
    plan = planned(storage, gone)
    assert (plan.verb, plan.left, plan.batch) == (RecoveryVerb.ROLLBACK, {}, 24)
    run(storage, 21, 23)
    with pytest.raises(ConfigError, match="the query has continued since"):
        plan_undo(storage, gone)
    with pytest.raises(ConfigError, match="the query has continued since"):
        undo(storage, gone, expected=undo_fingerprint(plan))


def test_there_is_no_plan_without_a_trash_or_a_checkpoint(storage: MemoryStorage) -> None:
    with pytest.raises(ConfigError, match="nothing of run 'none' is in the trash"):
        plan_undo(storage, "none")
    with pytest.raises(NotACheckpointError):
        plan_undo(MemoryStorage(), "none")
