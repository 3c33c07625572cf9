"""What the ledger tells an undo of the files that its run moved away."""

import json

from statemaint.model.ids import UnitId
from statemaint.storage import MemoryStorage
from statemaint.undo.history import FileNote, LedgerHistory, read_history
from tests.support.ledgers import plant_lines

DELTA, OTHER = "state/0/0/3.delta", "state/0/0/4.delta"


def content(*lines: dict[str, object]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def note(*, run: str = "mine", fence: int) -> FileNote:
    return FileNote(run, fence, 1, None, None, 0.0)


def test_the_ledger_says_who_removed_wrote_and_brought_back_each_file() -> None:
    storage = MemoryStorage()
    back = {"run": "undo-1", "action": "restore", "of": "mine", "path": DELTA, "time": 7.5,
            "fence": 4, "bytes": 5, "modified": 1.5, "crc32c": 99}  # fmt: skip
    plant_lines(storage, "undo", content(back, {**back, "fence": 6}))
    written: dict[str, object] = {
        "run": "mine",
        "action": "write_snapshot",
        "path": "state/0/0/9.snapshot",
    }
    gone: dict[str, object] = {
        "run": "mine", "fence": 2, "action": "delete", "path": DELTA, "bytes": 5, "modified": 1.5
    }  # fmt: skip
    plant_lines(storage, "0/0", content(written, gone, {**gone, "run": "next", "fence": 5}))
    plant_lines(storage, "1/0", content({**gone, "path": "state/1/0/3.delta"}))
    moved: dict[str, object] = {"run": "back", "fence": 3, "action": "remove", "path": OTHER}
    plant_lines(storage, "rollback", content(moved))
    assert read_history(storage, "mine", [UnitId(0, 0)]) == LedgerHistory(
        "mine",
        {DELTA: tuple(FileNote("mine", fence, 5, 1.5, 99, 7.5) for fence in (4, 6))},
        {
            DELTA: (FileNote("mine", 2, 5, 1.5), FileNote("next", 5, 5, 1.5)),
            OTHER: (FileNote("back", 3, -1, None),),
        },
        frozenset({"state/0/0/9.snapshot"}),
    )


def test_a_note_that_says_nothing_or_nonsense_of_a_file_is_of_an_unknown_one() -> None:
    storage = MemoryStorage()
    nonsense = {"bytes": "5", "modified": "now", "crc32c": "x"}
    plant_lines(storage, "undo", content({"of": "mine", "path": DELTA, **nonsense}))
    assert read_history(storage, "mine").restored == {
        DELTA: (FileNote("mine", 0, -1, None, None, 0.0),)
    }


def test_a_file_is_removed_again_by_a_later_run_alone() -> None:
    def removed(*history: tuple[int, str]) -> tuple[FileNote, ...]:
        removals = tuple(FileNote(one[1], one[0]) for one in history)
        return LedgerHistory("mine", removed={DELTA: removals}).removed_again(DELTA)

    assert removed((3, "mine"), (4, "other")) == (FileNote("other", 4),)
    assert not removed((3, "mine"), (3, "other"))
    assert not removed((3, "mine"), (2, "other"))
    assert not removed((2, "mine"), (4, "mine"))
    assert not removed((4, "other"))
    assert not LedgerHistory("mine").removed_again(DELTA)


def test_a_file_was_removed_before_by_an_earlier_run_alone() -> None:
    def removed(*history: tuple[int, str]) -> bool:
        removals = tuple(FileNote(one[1], one[0]) for one in history)
        found = {DELTA: removals, OTHER: (FileNote("mine", 3),)}
        return LedgerHistory("mine", removed=found).removed_before(DELTA)

    assert removed((2, "other"))
    assert removed((2, "other"), (3, "mine"))
    assert not removed((3, "other"))
    assert not removed((4, "other"))
    assert not removed((2, "mine"))
    assert not removed((3, "mine"), (4, "other"))
    assert not LedgerHistory("mine", removed={DELTA: (FileNote("other", 2),)}).removed_before(DELTA)


def test_what_was_removed_since_is_what_later_runs_removed() -> None:
    history = {
        DELTA: (FileNote("mine", 3), FileNote("other", 4)),
        OTHER: (FileNote("other", 3), FileNote("old", 2)),
        "commits/4": (FileNote("other", 4),),
    }
    assert LedgerHistory("mine", removed=history).removed_since() == {DELTA, "commits/4"}
    assert LedgerHistory("nobody", removed=history).removed_since() == frozenset()


def test_what_was_brought_back_since_is_noted_under_a_later_fence() -> None:
    notes = tuple(note(fence=fence) for fence in (2, 3, 4))
    history = LedgerHistory("mine", {DELTA: notes}, {OTHER: (FileNote("mine", 3),)})
    assert history.restored_since(DELTA) == notes[2:]
    assert history.restored_since(OTHER) == ()
    assert LedgerHistory("mine", {DELTA: notes}).restored_since(DELTA) == notes


def test_the_first_note_of_an_undo_of_this_very_run_counts() -> None:
    notes = (note(run="other", fence=1), note(fence=2), note(fence=3))
    assert LedgerHistory("mine", {DELTA: notes}).restoring(DELTA) == notes[1]
    assert LedgerHistory("third", {DELTA: notes}).restoring(DELTA) is None
    assert LedgerHistory("mine", {DELTA: notes}).restoring(OTHER) is None
