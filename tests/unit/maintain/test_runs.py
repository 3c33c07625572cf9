"""What `runs` says of a run is what the run did, however it ended."""

from collections.abc import Iterable

import pytest

from statemaint.audit import verify
from statemaint.errors import StorageError
from statemaint.listing import Entry
from statemaint.maintain import Run, end_run, list_runs, maintain, undo
from statemaint.model.policy import Policy
from statemaint.plan import Request
from statemaint.records import Holder
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock

# Of the versions 1 to 300, those below 291 are deleted, in two pages.
KEEPING = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0.0, trash_for=3600.0)


class FailingStorage(MemoryStorage):
    """After a number of moves or deletions the disk is full, or files are no longer moved."""

    full_after: int | None = None
    stuck_after: int | None = None
    done = 0

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        self._check(self.full_after, path)
        return super().write(path, chunks, overwrite=overwrite, like=like)

    def append(self, path: str, lines: bytes) -> None:
        self._check(self.full_after, path)
        super().append(path, lines)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._check(self.stuck_after, path)
        super().move(path, to, like=like)
        self.done += 1

    def delete(self, path: str) -> None:
        self._check(self.stuck_after, path)
        super().delete(path)
        self.done += path.startswith("state/")

    def works_again(self) -> None:
        self.full_after = self.stuck_after = None

    def _check(self, after: int | None, path: str) -> None:
        if after is not None and self.done >= after:
            raise StorageError(path, "No space left on device")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage(clock: Clock) -> FailingStorage:
    found = FailingStorage(clock=clock)
    write_checkpoint(found, last=300, partitions=1)
    return found


def only_run(storage: MemoryStorage) -> Run:
    (run,) = list_runs(storage)
    return run


@pytest.mark.parametrize(("full_after", "moved"), [(100, 200), (240, 291)])
def test_a_run_that_ended_with_a_full_disk_counts_what_it_moved_and_wrote(
    storage: FailingStorage, clock: Clock, full_after: int, moved: int
) -> None:
    storage.full_after = full_after
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


@pytest.mark.parametrize("trash_for", [0.0, 3600.0])
@pytest.mark.parametrize("stuck_after", [0, 1, 120, 200, 240])
def test_a_run_whose_storage_fails_within_a_page_counts_each_file(
    storage: FailingStorage, trash_for: float, stuck_after: int
) -> None:
    storage.stuck_after = stuck_after
    report = maintain(storage, KEEPING.override(trash_for=trash_for))
    assert (report.exit_code, report.files_deleted.total()) == (5, stuck_after)
    (store,) = report.stores
    assert {one.entry.path for one in store.after.files} == {
        one.path for one in storage.list("state/0/0")
    }
    run = only_run(storage)
    assert (run.files_deleted, run.tasks, run.exit_code) == (stuck_after, 1, 5)


def test_a_repeated_task_adds_to_what_its_earlier_attempt_did(storage: FailingStorage) -> None:
    storage.stuck_after = 120
    maintain(storage, KEEPING, run="r")
    storage.works_again()
    maintain(storage, KEEPING, run="r")
    run = only_run(storage)
    assert (run.files_deleted, run.snapshots_written, run.tasks, run.exit_code) == (291, 2, 1, 0)


SHARED = Holder("r")


def half_halted(clock: Clock) -> MemoryStorage:
    """Returns a checkpoint after a run `r` of two tasks, of which one found only damage."""
    storage = MemoryStorage(clock=clock)
    write_checkpoint(storage)
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
    storage = MemoryStorage(clock=Clock())
    write_checkpoint(storage)
    end_run(storage, SHARED, sound=False, run="r", exit_code=3)
    assert list_runs(storage) == ()
