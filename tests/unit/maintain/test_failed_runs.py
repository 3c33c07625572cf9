"""What a run, an undo, a repair or a rollback did before it failed is reported and recorded."""

from collections.abc import Callable

import pytest

from statemaint.cli.output import line_of
from statemaint.errors import StatemaintError, StorageError
from statemaint.maintain import list_runs, maintain, undo
from statemaint.maintain.runs import Run
from statemaint.records.manifest import FOLDER
from statemaint.records.runs import FOLDER as RUNS
from statemaint.recover import repair, rollback
from statemaint.report.run import Report
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import of_the_query, state, write_checkpoint
from tests.support.faults import HookedStorage, Ticking, refuse
from tests.support.going_on import run as run_query
from tests.unit.undo.test_undo_halfway import (
    COPIES,
    DAY,
    HOME,
    KEEPING,
    LOST,
    failures,
    in_trash,
    neglected,
    passes,
)


def newest(storage: MemoryStorage) -> Run:
    return list_runs(storage)[0]


@COPIES
@LOST
def test_a_run_that_moved_anything_is_reported_and_recorded_whichever_request_fails(
    *, lost: bool, copies: bool
) -> None:
    """It also deletes the trash of an earlier run, which has expired."""
    whole = neglected(Ticking(), copies=copies)
    maintain(whole, KEEPING, run="old")
    passes(whole, 8 * DAY)
    run_query(whole, 25, 45, retain=9)
    passes(whole, DAY)
    before, failed, left = state(whole), 0, 0
    reports: list[Report] = []

    def work(storage: MemoryStorage) -> None:
        reports.clear()
        reports.append(maintain(storage, KEEPING, run="new"))

    for at, storage in failures(work, whole, lost=lost, copies=copies):
        gone = before.keys() - state(storage).keys()
        recorded = {one.run: one for one in list_runs(storage)}
        if not reports:
            assert not gone, at
            continue
        (report,) = reports
        moved = report.files_deleted.total()
        assert moved == len(gone), at
        if moved and f"{RUNS}/new/all.json" in storage.files:
            assert recorded["new"].files_deleted == moved, at
            assert recorded["new"].exit_code == report.exit_code, at
        failed += report.exit_code == 5
        old = [path for path in in_trash(storage) if path.startswith(f"{FOLDER}/old/")]
        assert len(old) + report.emptied.files == 17, at
        left += report.emptied.finding is not None
    assert failed > 20
    assert left > 10


@COPIES
@LOST
def test_the_record_of_an_undo_has_the_files_that_came_back_before_it_failed(
    *, lost: bool, copies: bool
) -> None:
    """Whatever fails: unless it is the record itself, which is a warning."""
    whole = neglected(Ticking(), copies=copies)
    run = maintain(whole, KEEPING).run
    passes(whole)
    before, told = state(whole), 0
    caught: list[StatemaintError] = []

    def work(storage: MemoryStorage) -> None:
        caught.clear()
        try:
            undo(storage, run)
        except StatemaintError as error:
            caught.append(error)

    for at, storage in failures(work, whole, lost=lost, copies=copies):
        back = state(storage).keys() - before.keys()
        recorded = [one for one in list_runs(storage) if one.undo_of]
        if not caught:
            assert in_trash(storage) == [], at
            continue
        assert in_trash(storage) or lost, at
        if recorded:
            halfway = {one.split("/", 3)[3] for one in in_trash(storage)} & back
            restored = recorded[0].files_restored
            # The file whose move failed may be in its place: the storage said that it is not.
            assert len(back) - 1 <= restored <= len(back) - len(halfway), at
            assert recorded[0].exit_code == (5 if restored else 1), at
        if notes := getattr(caught[0], "__notes__", []):
            told += 1
            assert line_of(caught[0]).endswith(f"503: Slow Down; {notes[0]}")
            assert "in place again, and another undo of the run goes on" in notes[0]
    assert told > 10


REFUSED = "access denied, s3:DeleteObject is not allowed"


def test_an_undo_whose_manifests_stay_has_brought_everything_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = HookedStorage(before=refuse("delete", f"{FOLDER}/*", REFUSED), clock=Ticking())
    write_checkpoint(storage, partitions=1)
    before = state(storage)
    run = maintain(storage, KEEPING).run
    undone = undo(storage, run)
    assert before.items() <= state(storage).items()
    assert (undone.left, newest(storage).files_restored) == ({}, undone.files)
    assert newest(storage).exit_code == 0
    assert f"run {run} is undone, and its manifests stay in the trash until" in caplog.text


@pytest.mark.parametrize("verb", ["repair", "rollback"])
def test_a_recovery_that_was_refused_says_how_its_moves_are_taken_back(verb: str) -> None:

    def check(verb: str, path: str) -> None:
        if verb == "move" and len(storage.paths("move")) > 3:
            raise StorageError(path, REFUSED)

    storage = write_checkpoint(HookedStorage(before=check, clock=Ticking()), partitions=1)
    for version in (8, 10, 12, 14) if verb == "repair" else ():
        storage.write(f"{HOME}/{version}.snapshot", [b"broken"])
    before = of_the_query(storage)
    work: dict[str, Callable[[], object]] = {
        "repair": lambda: repair(storage, trash_for=DAY),
        "rollback": lambda: rollback(storage, 19, trash_for=DAY),
    }
    with pytest.raises(StorageError) as caught:
        work[verb]()
    noted = newest(storage)
    assert (noted.files_deleted, noted.exit_code, noted.tasks) == (3, 5, 1)
    assert line_of(caught.value).endswith(
        "s3:DeleteObject is not allowed; 3 files are in the trash already, "
        f"`statemaint undo` of run {noted.run} brings them back"
    )
    storage.works_again()
    assert undo(storage, noted.run).left == {}
    assert of_the_query(storage) == before
    assert [path for path in storage.files if path.startswith(RUNS)]
