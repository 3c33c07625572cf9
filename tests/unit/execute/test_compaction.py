"""Which lines of a ledger a compaction keeps, and that it deletes nothing without its lease."""

import json

import pytest

from statemaint.errors import LeaseLostError
from statemaint.execute.ledger import MOST_SEGMENTS, _for_trash, _Needs, compact, is_due
from statemaint.records.runs import RememberedRuns
from statemaint.records.segments import FOLDER, Line
from statemaint.storage import MemoryStorage
from tests.support.ledgers import plant_lines

LATER = 100.0


def line(run: str = "old", **fields: object) -> Line:
    return Line(b"", {"run": run, **fields})


@pytest.mark.parametrize(("fence", "kept"), [(4, False), (5, True), (6, True)])
def test_a_line_stays_from_a_fence_on(fence: int, *, kept: bool) -> None:
    needs = _Needs(RememberedRuns(), LATER, fence=5)
    assert needs.keep(line(time=1.0, fence=fence)) is kept


@pytest.mark.parametrize(("time", "kept"), [(99.0, False), (100.0, True), (None, True)])
def test_a_line_stays_from_a_time_on(time: float | None, *, kept: bool) -> None:
    assert _Needs(RememberedRuns(), LATER).keep(line(time=time)) is kept


def test_lines_stay_from_the_first_deletion_of_a_kept_trash_on() -> None:
    window = RememberedRuns(trashed={"trashed": LATER})
    lines = [
        line("trashed", action="write_snapshot", time=1.0, fence=1),
        line("trashed", action="delete", time=7.0, fence=3),
        line("trashed", action="remove", time=8.0, fence=2),
        line("other", action="delete", time=2.0, fence=1),
    ]
    found = _for_trash(_Needs(window, LATER), lines)
    assert (found.since, found.fence) == (7.0, 2)


def test_a_compaction_without_its_lease_deletes_nothing() -> None:
    storage = MemoryStorage()
    for number in range(MOST_SEGMENTS):
        assert not is_due(storage)
        content = json.dumps({"run": "old", "time": 1.0, "path": str(number)}).encode() + b"\n"
        plant_lines(storage, "0/0", content, f"old-{number:06}")
    assert is_due(storage)
    before = {path for path in storage.files if path.startswith(FOLDER)}

    def lost() -> None:
        raise LeaseLostError("memory:", 1)

    window = RememberedRuns(since=LATER)
    with pytest.raises(LeaseLostError):
        compact(storage, window, before=lost)
    assert before <= storage.files.keys()
    compact(storage, window, before=lambda: None)
    assert not before & storage.files.keys()
