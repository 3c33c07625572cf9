"""The notes of runs: which of them are remembered, read and forgotten."""

import math
import time

import pytest

from statemaint.errors import LeaseLostError
from statemaint.records.runs import (
    MOST_RUNS,
    RememberedRuns,
    RunNote,
    forget,
    new_run_id,
    note_path,
    read_notes,
    remembered,
    write_note,
)
from statemaint.storage import MemoryStorage
from statemaint.workers import nothing
from tests.support.checkpoints import NOW
from tests.support.faults import Clock

NOTE = RunNote.of_nothing(MemoryStorage(), 0.0, 1, 0)


def noted(*runs: str) -> MemoryStorage:
    """Returns the notes of some runs, one each second."""
    storage = MemoryStorage(clock=(clock := Clock()))
    for run in runs:
        write_note(storage, run, "all", NOTE)
        clock.now += 1
    return storage


def test_the_id_of_a_run_has_its_time_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "JST-9")
        time.tzset()
        run = new_run_id(NOW)
    time.tzset()
    assert run.startswith("20330518T033320Z-")


@pytest.mark.parametrize("older", [0, 1, 7])
def test_the_newest_runs_are_remembered_and_since_when_none_is_missing(older: int) -> None:
    """Their names do not sort like their times."""
    runs = [f"run-{number:03}" for number in reversed(range(MOST_RUNS + older))]
    since = NOW + older if older else -math.inf
    assert remembered(noted(*runs)) == RememberedRuns(frozenset(runs[older:]), since)


def test_the_newest_runs_are_read_without_an_invalid_note() -> None:
    storage = noted("c", "b", "a")
    storage.replace(note_path("b", "all"), [b"{"])
    assert read_notes(storage, 2) == {"a": [NOTE]}


def test_notes_are_forgotten_below_the_window_and_under_the_lease_alone() -> None:
    storage = noted("old", "kept", "unlisted")
    window = RememberedRuns(frozenset({"kept"}), NOW + 2)

    def lost() -> None:
        raise LeaseLostError("memory:", 1)

    before = storage.files
    with pytest.raises(LeaseLostError):
        forget(storage, window, before=lost)
    assert storage.files == before
    forget(storage, window, before=nothing)
    assert storage.files.keys() == {note_path(run, "all") for run in ("kept", "unlisted")}
