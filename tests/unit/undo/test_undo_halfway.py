"""A file under both names is one file: no move that was cut short keeps it in the trash (S17)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from statemaint.audit import verify
from statemaint.errors import StatemaintError, StorageError
from statemaint.maintain import maintain, undo
from statemaint.model.findings import FindingCode
from statemaint.records.manifest import FOLDER
from statemaint.recover import repair, rollback
from statemaint.storage import LocalStorage, MemoryStorage
from tests.support.checkpoints import (
    TIGHT,
    of_the_query,
    snapshot_bytes,
    state,
    state_at,
    write_checkpoint,
)
from tests.support.faults import (
    Clock,
    CopyingStorage,
    FailingStorage,
    HalfMovingStorage,
    Ticking,
    survived,
)
from tests.support.marks import half
from tests.support.undone import runs_in_trash

DAY = 86_400.0
HOME = "state/0/0"
KEEPING = TIGHT.override(trash_for=7 * DAY)
KINDS = {False: MemoryStorage, True: CopyingStorage}


def neglected(clock: Ticking, *, copies: bool) -> MemoryStorage:
    storage = write_checkpoint(KINDS[copies](clock=clock), partitions=1)
    storage.write(f"{HOME}/5.snapshot", [snapshot_bytes(state_at(5))])
    clock.now += 60
    return storage


def in_trash(storage: MemoryStorage) -> list[str]:
    return sorted(
        path for path in storage.files if path.startswith(f"{FOLDER}/") and "/state/" in path
    )


def failing(storage: MemoryStorage, *, at: int, lost: bool, copies: bool) -> FailingStorage:
    found = FailingStorage({}, at=at, after=lost, clock=storage._clock, copies=copies)
    found._files = dict(storage._files)
    return found


Work = Callable[[MemoryStorage], object]


def failures(
    work: Work, storage: MemoryStorage, *, lost: bool, copies: bool
) -> Iterator[tuple[int, MemoryStorage]]:
    """Yields what work leaves whose n-th change fails, for each of its changes."""
    for at in range(300):
        failed = failing(storage, at=at, lost=lost, copies=copies)
        with suppress(StatemaintError):
            work(failed)
        if failed.changes <= at:
            return
        yield at, survived(failed, failed._clock, KINDS[copies])
    raise AssertionError("it never got through")


def undone(storage: MemoryStorage, runs: Sequence[str]) -> dict[str, str]:
    """Undoes runs in an order, and returns the files that stay in the trash."""
    left: dict[str, str] = {}
    for run in runs:
        if run in runs_in_trash(storage):
            passes(storage)
            left.update(undo(storage, run).left)
    return left


def passes(storage: MemoryStorage, seconds: float = 90) -> None:
    clock = storage._clock
    assert isinstance(clock, Ticking)
    clock.now += seconds


ORDERS = pytest.mark.parametrize("newest_first", [False, True])
LOST = pytest.mark.parametrize("lost", [False, True])
COPIES = pytest.mark.parametrize("copies", [False, True])


@half("newest_first", "lost", "copies")
def test_every_file_comes_back_after_a_run_that_failed_at_any_request(
    *, newest_first: bool, lost: bool, copies: bool
) -> None:
    """A run whose store halted has ended, and the next one moves the file that it left again."""
    whole = neglected(Ticking(), copies=copies)
    before, twice = state(whole), 0

    def work(storage: MemoryStorage) -> None:
        maintain(storage, KEEPING, run="a")

    for at, storage in failures(work, whole, lost=lost, copies=copies):
        passes(storage)
        maintain(storage, KEEPING, run="b")
        twice += len(in_trash(storage)) - len({one.split("/", 3)[3] for one in in_trash(storage)})
        assert undone(storage, ("b", "a") if newest_first else ("a", "b")) == {}, at
        assert before.items() <= state(storage).items(), at
        assert in_trash(storage) == [], at
        assert verify(storage, deep=True).healthy
    assert twice > 10


@half("newest_first", "lost", "copies")
def test_every_file_comes_back_after_a_repair_that_failed_at_any_request(
    *, newest_first: bool, lost: bool, copies: bool
) -> None:
    whole = neglected(Ticking(), copies=copies)
    for version in (8, 10, 27):
        whole.write(f"{HOME}/{version}.snapshot", [snapshot_bytes(state_at(version))])
    broken = whole.files[f"{HOME}/8.snapshot"][:50]
    whole.write(f"{HOME}/8.snapshot", [broken], overwrite=True)
    before = state(whole)

    def work(storage: MemoryStorage) -> None:
        repair(storage, trash_for=DAY)

    for at, storage in failures(work, whole, lost=lost, copies=copies):
        passes(storage)
        work(storage)
        runs = sorted(runs_in_trash(storage), reverse=newest_first)
        assert runs
        assert undone(storage, runs) == {}, at
        assert before.items() <= state(storage).items(), at
        assert in_trash(storage) == [], at


@half("again", "lost", "copies")
def test_a_rollback_that_failed_at_any_request_is_undone(
    *, again: bool, lost: bool, copies: bool
) -> None:
    whole = neglected(Ticking(), copies=copies)
    before = of_the_query(whole)

    def work(storage: MemoryStorage) -> None:
        rollback(storage, 19, trash_for=DAY)

    for at, storage in failures(work, whole, lost=lost, copies=copies):
        passes(storage)
        if again:
            work(storage)
        assert undone(storage, runs_in_trash(storage)[::-1]) == {}, at
        assert of_the_query(storage) == before, at


class KeepingStorage(CopyingStorage):
    """Copies and refuses to delete, as long as it is said to."""

    refuses = True

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        file = self._file(path)
        super().move(path, to, like=like)
        if self.refuses:
            self._files[path] = file
            raise StorageError(path, "access denied, s3:DeleteObject is not allowed")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_rollback_that_several_stores_refused_halfway_is_undone(workers: int) -> None:
    storage = write_checkpoint(KeepingStorage(clock=Ticking()), partitions=3)
    before = of_the_query(storage)
    passes(storage)
    with pytest.raises(StorageError):
        rollback(storage, 19, trash_for=DAY, workers=workers)
    trashed = {one.split("/", 3)[3] for one in in_trash(storage)}
    assert len(trashed) == workers
    assert of_the_query(storage) == before
    storage.refuses = False
    assert undone(storage, runs_in_trash(storage)) == {}
    assert of_the_query(storage) == before
    assert in_trash(storage) == []


class TearingStorage(MemoryStorage):
    """Stores the first lines of a rollback's manifest and then fails, as a full disk does."""

    def append(self, path: str, lines: bytes) -> None:
        if not path.endswith("rollback.jsonl"):
            super().append(path, lines)
            return
        super().append(path, b"".join(lines.splitlines(keepends=True)[:2]))
        raise StorageError(path, "No space left on device")


def test_a_rollback_that_noted_half_of_its_files_and_moved_none_is_undone() -> None:
    storage = write_checkpoint(TearingStorage(clock=Ticking()), partitions=3)
    before = of_the_query(storage)
    passes(storage)
    with pytest.raises(StorageError):
        rollback(storage, 19, trash_for=DAY)
    assert undone(storage, runs_in_trash(storage)) == {}
    assert runs_in_trash(storage) == []
    assert of_the_query(storage) == before


@half("rolled_back", "lost", "copies")
def test_an_undo_that_failed_at_any_request_is_done_again(
    *, rolled_back: bool, lost: bool, copies: bool
) -> None:
    whole = neglected(Ticking(), copies=copies)
    before = state(whole)
    done = rollback(whole, 19, trash_for=DAY) if rolled_back else maintain(whole, KEEPING)
    run = done.run
    passes(whole)

    def work(storage: MemoryStorage) -> None:
        undo(storage, run)

    for at, storage in failures(work, whole, lost=lost, copies=copies):
        assert undone(storage, [run]) == {}, at
        assert before.items() <= state(storage).items(), at
        assert in_trash(storage) == [], at


@LOST
def test_an_undo_of_files_that_were_moved_in_the_second_of_their_writing_is_done_again(
    *, lost: bool
) -> None:
    """Their times in the trash are equal by chance, and not because moves keep times."""
    clock = Clock()
    whole = write_checkpoint(CopyingStorage(clock=clock), partitions=1)
    before, run = state(whole), maintain(whole, KEEPING).run
    clock.now += 60

    def work(storage: MemoryStorage) -> None:
        undo(storage, run)

    for at, storage in failures(work, whole, lost=lost, copies=True):
        clock.now += 60
        if run in runs_in_trash(storage):
            assert undo(storage, run).left == {}, at
        assert before.items() <= state(storage).items(), at
        assert in_trash(storage) == [], at


@half("newest_first", "copies")
def test_maintenance_after_an_undo_that_was_cut_short_keeps_no_file_in_the_trash(
    *, newest_first: bool, copies: bool
) -> None:
    """The undo has restored a file under a new time, and the next run moves it away again."""
    whole = neglected(Ticking(), copies=copies)
    before = state(whole)
    maintain(whole, KEEPING, run="a")
    passes(whole)

    def work(storage: MemoryStorage) -> None:
        undo(storage, "a")

    for at, storage in failures(work, whole, lost=False, copies=copies):
        passes(storage)
        maintain(storage, KEEPING, run="b")
        assert undone(storage, ("b", "a") if newest_first else ("a", "b")) == {}, at
        assert before.items() <= state(storage).items(), at
        assert in_trash(storage) == [], at


@ORDERS
@pytest.mark.parametrize("at", [1, 2, 9, 16])
def test_every_file_on_a_disk_comes_back_after_a_move_that_was_refused_halfway(
    tmp_path: Path, at: int, *, newest_first: bool
) -> None:
    write_checkpoint(LocalStorage(tmp_path), partitions=1)
    storage = HalfMovingStorage(tmp_path, at=at)
    before = {one.path: storage.read(one.path) for one in storage.list("state")}
    report = maintain(storage, KEEPING, run="a")
    assert [one.code for one in report.findings] == [FindingCode.STORAGE_FAILED]
    assert maintain(storage, KEEPING, run="b").exit_code == 0
    for run in ("b", "a") if newest_first else ("a", "b"):
        assert undo(storage, run).left == {}
    assert {path: storage.read(path) for path in before} == before
    assert list(storage.list(FOLDER)) == []


@COPIES
def test_a_file_that_a_later_run_deleted_for_good_is_told_by_its_time(*, copies: bool) -> None:
    whole = neglected(Ticking(), copies=copies)

    def work(storage: MemoryStorage) -> None:
        maintain(storage, KEEPING, run="a")

    halfway = 0
    for _, storage in failures(work, whole, lost=False, copies=copies):
        trashed = {one.split("/", 3)[3] for one in in_trash(storage)}
        halfway += bool(trashed & storage.files.keys())
        passes(storage)
        maintain(storage, KEEPING.override(trash_for=0), run="b")
        assert undone(storage, ["a"]) == {}
        assert trashed <= storage.files.keys()
    assert halfway > 10


@COPIES
@pytest.mark.long
def test_a_run_that_noted_files_and_moved_none_keeps_no_file_in_the_trash(*, copies: bool) -> None:
    """The third run notes files that the undo of the first has restored, and is refused."""
    whole = neglected(Ticking(), copies=copies)
    before, halfway = state(whole), 0

    def work(storage: MemoryStorage) -> None:
        maintain(storage, KEEPING, run="c")

    for at in range(20, 44, 4):
        first = failing(whole, at=at, lost=False, copies=copies)
        maintain(first, KEEPING, run="a")
        second = survived(first, first._clock, KINDS[copies])
        passes(second)
        maintain(second, KEEPING, run="b")
        halfway += len(in_trash(second)) - len({one.split("/", 3)[3] for one in in_trash(second)})
        assert undone(second, ["a"]) == {}
        passes(second)
        for third, storage in failures(work, second, lost=False, copies=copies):
            assert undone(storage, runs_in_trash(storage)) == {}, (at, third)
            assert before.items() <= state(storage).items(), (at, third)
            assert in_trash(storage) == [], (at, third)
    assert halfway > 2
