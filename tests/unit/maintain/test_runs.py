"""What `runs` says of a run is what the run did, however it ended."""

import pytest

from statemaint.audit import verify
from statemaint.errors import StorageError
from statemaint.maintain import list_runs, maintain, undo
from statemaint.maintain.run import end_run
from statemaint.maintain.runs import Run
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.records.claims import Holder
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage

# Of the versions 1 to 300, those below 291 are deleted, in two pages.
KEEPING = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0.0, trash_for=3600.0)


class FailingStorage(HookedStorage):
    """After a number of moves or deletions the disk is full, or files are no longer moved."""

    done = 0

    def __init__(self, clock: Clock) -> None:
        super().__init__(after=self._count, clock=clock)

    def fail(self, after: int, *verbs: str) -> None:
        def check(verb: str, path: str) -> None:
            if verb in verbs and self.done >= after:
                raise StorageError(path, "No space left on device")

        self.before = check

    def _count(self, verb: str, path: str) -> None:
        self.done += verb in ("move", "delete") and path.startswith("state/")


@pytest.fixture
def storage(clock: Clock) -> FailingStorage:
    return write_checkpoint(FailingStorage(clock=clock), last=300, partitions=1)


def only_run(storage: MemoryStorage) -> Run:
    (run,) = list_runs(storage)
    return run


@pytest.mark.parametrize(("full_after", "moved"), [(100, 200), (240, 291)])
def test_a_run_that_ended_with_a_full_disk_counts_what_it_moved_and_wrote(
    storage: FailingStorage, clock: Clock, full_after: int, moved: int
) -> None:
    storage.fail(full_after, "write", "append")
    report = maintain(storage, KEEPING)
    assert (report.files_deleted.total(), storage.done) == (moved, moved)
    storage.works_again()
    run = only_run(storage)
    assert (run.files_deleted, run.bytes_deleted) == (moved, report.bytes_deleted)
    assert (run.snapshots_written, run.bytes_written) == (2, report.bytes_written)
    assert (run.tasks, run.exit_code, run.in_trash) == (0, 1, True)
    clock.now += 120  # its lease could not be released
    undo(storage, run.run)
    assert verify(storage, deep=True).healthy
    undone_by = only_run(storage)
    assert undone_by.undo_of == run.run
    assert (undone_by.snapshots_written, undone_by.bytes_written) == (0, 0)
    assert (undone_by.files_deleted, undone_by.bytes_deleted) == (0, 0)


@pytest.mark.parametrize("trash_for", [0.0, 3600.0])
@pytest.mark.parametrize("stuck_after", [0, 1, 120, 200, 240])
def test_a_run_whose_storage_fails_within_a_page_counts_each_file(
    storage: FailingStorage, trash_for: float, stuck_after: int
) -> None:
    storage.fail(stuck_after, "move", "delete")
    report = maintain(storage, KEEPING.override(trash_for=trash_for))
    assert (report.exit_code, report.files_deleted.total()) == (5, stuck_after)
    (store,) = report.stores
    assert {one.entry.path for one in store.after.files} == {
        one.path for one in storage.list("state/0/0")
    }
    run = only_run(storage)
    assert (run.files_deleted, run.tasks, run.exit_code) == (stuck_after, 1, 5)


def test_a_repeated_task_adds_to_what_its_earlier_attempt_did(storage: FailingStorage) -> None:
    storage.fail(120, "move", "delete")
    maintain(storage, KEEPING, run="r")
    storage.works_again()
    maintain(storage, KEEPING, run="r")
    run = only_run(storage)
    assert (run.files_deleted, run.snapshots_written, run.tasks, run.exit_code) == (291, 2, 1, 0)


SHARED = Holder("r")


def half_halted(clock: Clock) -> MemoryStorage:
    """Returns a checkpoint after a run `r` of two tasks, of which one found only damage."""
    storage = write_checkpoint(MemoryStorage(clock=clock))
    storage.delete("state/0/0/20.delta")
    codes = [
        maintain(
            storage,
            KEEPING,
            run="r",
            holder=SHARED,
            request=Request(partitions=frozenset({one}), operators=frozenset({0})),
        ).exit_code
        for one in (0, 1)
    ]
    assert codes == [3, 0]
    return storage


def test_a_run_of_which_one_task_found_only_damage_has_its_exit_code(clock: Clock) -> None:
    storage = half_halted(clock)
    end_run(storage, SHARED, sound=False, run="r", exit_code=3)
    run = only_run(storage)
    assert (run.exit_code, run.tasks, run.files_deleted) == (3, 1, 16)


def test_a_run_that_succeeds_when_it_is_repeated_has_failed_no_longer(clock: Clock) -> None:
    storage = half_halted(clock)
    end_run(storage, SHARED, sound=False, run="r", exit_code=3)
    clock.now += 120
    end_run(storage, SHARED, sound=True, run="r", exit_code=0)
    assert only_run(storage).exit_code == 0


def test_a_run_that_changed_nothing_is_not_listed_for_its_damage() -> None:
    storage = write_checkpoint(MemoryStorage(clock=Clock()))
    end_run(storage, SHARED, sound=False, run="r", exit_code=3)
    assert list_runs(storage) == ()
