"""What a run moved to the trash of a failing disk comes back, whichever call failed (S17).

Each call of the operating system that changes the disk fails in turn: before it has changed
anything, or after. The disk is full in the middle of a line as well.
"""

import errno
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from statemaint.errors import StatemaintError
from statemaint.maintain import maintain, undo
from statemaint.recover import rollback
from statemaint.storage import LocalStorage
from tests.support.checkpoints import of_the_query, write_checkpoint
from tests.support.failing_disk import failing
from tests.support.marks import long
from tests.support.undone import DAY, KEEPING, end_lease, must_be_whole, undo_all

ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS)
Work = Callable[[LocalStorage], object]


def neglected(folder: Path) -> LocalStorage:
    folder.mkdir()
    return write_checkpoint(LocalStorage(folder), partitions=1, last=10, batches=range(6, 10))


def failures(
    folder: Path, whole: LocalStorage, work: Work, *, after: bool
) -> Iterator[tuple[int, LocalStorage]]:
    """Yields what work leaves on a disk whose n-th call fails, for each of its calls."""
    for at in range(500):
        place = folder / str(at)
        shutil.copytree(whole.root, place)
        storage = LocalStorage(place)
        number = ERRORS[at % len(ERRORS)]
        with failing(at=at, number=number, after=after) as calls, suppress(StatemaintError):
            work(storage)
        if calls.number <= at:
            assert at > 50
            return
        end_lease(storage)
        yield at, storage
        shutil.rmtree(place)
    raise AssertionError("it never got through")


AFTER = pytest.mark.parametrize("after", [False, True])


@pytest.mark.parametrize("after", [long(False), True])
@pytest.mark.parametrize("newest_first", [False, long(True)])
def test_every_file_comes_back_after_a_run_that_failed_at_any_call(
    tmp_path: Path, *, newest_first: bool, after: bool
) -> None:
    whole = neglected(tmp_path / "whole")
    before = of_the_query(whole)

    def work(storage: LocalStorage) -> None:
        maintain(storage, KEEPING, run="a")

    for at, storage in failures(tmp_path, whole, work, after=after):
        assert maintain(storage, KEEPING, run="b").exit_code == 0, at
        undo_all(storage, newest_first=newest_first)
        must_be_whole(storage, before, at=at)


@AFTER
def test_an_undo_that_failed_at_any_call_is_done_again(tmp_path: Path, *, after: bool) -> None:
    whole = neglected(tmp_path / "whole")
    before = of_the_query(whole)
    maintain(whole, KEEPING, run="a")

    def work(storage: LocalStorage) -> None:
        undo(storage, "a")

    for at, storage in failures(tmp_path, whole, work, after=after):
        undo_all(storage)
        must_be_whole(storage, before, at=at)


@AFTER
def test_a_rollback_that_failed_at_any_call_is_undone(tmp_path: Path, *, after: bool) -> None:
    whole = neglected(tmp_path / "whole")
    before = of_the_query(whole)

    def work(storage: LocalStorage) -> None:
        rollback(storage, 8, trash_for=DAY)

    for at, storage in failures(tmp_path, whole, work, after=after):
        undo_all(storage, newest_first=True)
        must_be_whole(storage, before, at=at)


# -- a disk that is full


@contextmanager
def full(most: int) -> Iterator[None]:
    """Has the system end each file at so many bytes, in the middle of a line, as a full disk does.

    What is written before the limit stays.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


MOSTS = [*range(0, 500, 40), 700, 900, 1200, 2000]


@pytest.mark.parametrize("most", MOSTS)
def test_every_file_comes_back_after_a_line_that_a_full_disk_cut(tmp_path: Path, most: int) -> None:
    storage = neglected(tmp_path / "whole")
    before = of_the_query(storage)
    with full(most), suppress(StatemaintError):
        assert maintain(storage, KEEPING, run="a").exit_code in (0, 5)
    end_lease(storage)
    assert maintain(storage, KEEPING, run="b").exit_code == 0
    with full(most), suppress(StatemaintError):
        undo(storage, "b")
    end_lease(storage)
    undo_all(storage)
    must_be_whole(storage, before)


@pytest.mark.parametrize("most", MOSTS)
def test_a_rollback_is_undone_after_a_line_that_a_full_disk_cut(tmp_path: Path, most: int) -> None:
    storage = neglected(tmp_path / "whole")
    before = of_the_query(storage)
    with full(most), suppress(StatemaintError):
        rollback(storage, 8, trash_for=DAY)
    end_lease(storage)
    undo_all(storage)
    must_be_whole(storage, before)
