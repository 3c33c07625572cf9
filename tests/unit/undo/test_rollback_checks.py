"""Whether a rollback's files fit into today's checkpoint: the decisions one by one."""

from dataclasses import replace

import pytest

from statemaint.errors import ConfigError
from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb
from statemaint.model.proof import FileRecord
from statemaint.records.manifest import Contents, LogWorld, Note, folder_of
from statemaint.scan.proofs import crc32c_of
from statemaint.storage import MemoryStorage
from statemaint.undo.history import FileIdentity, FileNote, LedgerHistory
from statemaint.undo.rollback_checks import _by_batch, _committed, _Rollback
from tests.support.faults import Clock

HOME = "state/0/0"
ENTRY = "commits/5"


def rollback(
    there: dict[str, float | None] | None = None,
    *,
    trashed: dict[str, float | None] | None = None,
    noted: dict[str, FileRecord] | None = None,
    history: LedgerHistory | None = None,
    manifests: tuple[float | None, ...] = (),
    now: float = 0.0,
) -> _Rollback:
    storage = MemoryStorage(clock=Clock(now))
    found = Contents(
        "run",
        tuple(Entry("manifest", 1, time) for time in manifests),
        {path: Entry(f"{folder_of('run')}/{path}", 1, at) for path, at in (trashed or {}).items()},
        {path: Note(seen, 10.0, since=8.0) for path, seen in (noted or {}).items()},
        verb=RecoveryVerb.ROLLBACK,
    )
    known = history or LedgerHistory("run")
    today = {path: Entry(path, 1, time) for path, time in (there or {}).items()}
    return _Rollback(storage, found, known, FileIdentity(storage, found, known), today)


def seen(path: str, modified: float | None = 7.0, crc32c: int | None = None) -> FileRecord:
    return FileRecord(path, 1, modified, sum=crc32c)


def restored(path: str, run: str, modified: float | None, time: float) -> LedgerHistory:
    """Returns the record of a file that another run had removed before, and an undo restored."""
    note = FileNote(run, 3, 1, modified, None, time)
    removed = {path: (FileNote("other", 1),), "x": (FileNote("run", 2),)}
    return LedgerHistory("run", {path: (note,)}, removed)


# -- a file under both names


@pytest.mark.parametrize(
    ("modified", "since", "unmoved"),
    [
        (7.0, 8.0, True),
        (7.0, 7.0, False),
        (6.0, 8.0, False),
        (None, 8.0, False),
        (7.0, None, False),
    ],
)
def test_a_file_that_is_older_than_the_manifest_was_never_moved(
    modified: float | None, since: float | None, *, unmoved: bool
) -> None:
    paths = ("commits/4", ENTRY)  # in whatever order they were moved
    undo = rollback(dict.fromkeys(paths, modified), trashed=dict.fromkeys(paths, 9.0))
    notes = {path: Note(seen(path), 10.0, since=since) for path in paths}
    undo = replace(undo, trash=replace(undo.trash, notes=notes))
    assert [undo._is_unmoved(undo.there[path]) for path in paths] == [unmoved, unmoved]


@pytest.mark.parametrize(
    ("modified", "begun", "back"),
    [(20.0, 20.5, True), (19.0, 20.5, False), (20.0, None, False), (None, 20.5, False)],
)
def test_the_copy_of_an_undo_is_younger_than_its_note(
    modified: float | None, begun: float | None, *, back: bool
) -> None:
    note = FileNote("run", 3, 1, None, None, begun or 0.0)
    history = LedgerHistory("run", {} if begun is None else {"commits/4": (note,), ENTRY: (note,)})
    noted = {path: seen(path) for path in ("commits/4", ENTRY)}
    undo = rollback(dict.fromkeys(noted, modified), trashed=dict.fromkeys(noted, 9.0),
                    noted=noted, history=history)  # fmt: skip
    assert [undo._is_coming_back(undo.there[path]) for path in noted] == [False, back]


@pytest.mark.parametrize(("modified", "refused"), [(7.0, False), (8.0, True), (None, True)])
def test_a_file_of_its_time_is_the_one_that_a_later_run_removed(
    modified: float | None, *, refused: bool
) -> None:
    removed = {ENTRY: (FileNote("run", 1), FileNote("later", 2, 1, modified))}
    undo = rollback(trashed={ENTRY: 9.0}, noted={ENTRY: seen(ENTRY)},
                    history=LedgerHistory("run", removed=removed))  # fmt: skip
    said = f"{ENTRY} was written again, and removed by another run"
    assert [*undo._against_place(ENTRY)] == ([said] if refused else [])


# -- what another undo brought back


@pytest.mark.parametrize(("modified", "mine"), [(5.0, True), (30.0, True), (29.0, False)])
def test_an_undo_brought_back_a_file_of_its_time_or_a_younger(
    modified: float, *, mine: bool
) -> None:
    history = restored(ENTRY, "other", 5.0, 30.0)
    assert rollback({ENTRY: modified}, history=history)._is_of_earlier(ENTRY) is mine


def test_a_file_that_no_earlier_run_removed_is_of_none() -> None:
    late = LedgerHistory(
        "run", restored(ENTRY, "other", 5.0, 30.0).restored, {"x": (FileNote("run", 2),)}
    )
    assert not rollback({ENTRY: 5.0}, history=late)._is_of_earlier(ENTRY)
    own = restored(ENTRY, "run", 5.0, 30.0)
    assert not rollback({ENTRY: 5.0}, history=own)._is_of_earlier(ENTRY)


def test_an_entry_is_the_noted_one_while_it_is_there_unmoved() -> None:
    assert rollback({ENTRY: 7.0})._is_mine(seen(ENTRY))
    assert not rollback({ENTRY: 8.0})._is_mine(seen(ENTRY))
    assert not rollback({})._is_mine(seen(ENTRY))


@pytest.mark.parametrize("by_undo", [False, True])
def test_an_entry_with_the_noted_bytes_and_another_time_is_the_noted_one_if_an_undo_restored_it(
    *, by_undo: bool
) -> None:
    undo = rollback({ENTRY: 8.0}, history=restored(ENTRY, "other", 5.0, 30.0) if by_undo else None)
    undo.storage.write(ENTRY, [b"?"])
    assert undo._is_mine(seen(ENTRY, crc32c=crc32c_of(undo.storage, ENTRY))) is by_undo


# -- what was lost


@pytest.mark.parametrize(("now", "lost"), [(9.0, False), (10.0, True)])
def test_a_file_may_be_lost_once_its_trash_is_due(now: float, *, lost: bool) -> None:
    paths = (f"{HOME}/1.delta", f"{HOME}/2.delta", f"{HOME}/.3.delta.crc", f"{HOME}/4.delta")
    undo = rollback(
        {paths[0]: 7.0}, trashed={paths[1]: 7.0}, noted={path: seen(path) for path in paths},
        now=now,
    )  # fmt: skip
    expected = [f"{paths[3]} has been deleted from the trash, which is due"]
    assert [*undo._lost()] == (expected if lost else [])


def test_without_notes_nothing_is_lost() -> None:
    assert [*rollback(now=99.0)._lost()] == []


# -- the query's own work since


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({ENTRY: 10.0}, None),
        ({ENTRY: 11.0}, ENTRY),
        ({ENTRY: None}, ENTRY),
        ({f"{HOME}/1.delta": 11.0}, f"{HOME}/1.delta"),
        ({f"{HOME}/1.snapshot": 11.0, "metadata": 11.0}, None),
        ({"a": 11.0, "commits/1": 9.0, "commits/2": 11.0}, "commits/2"),
        ({"commits/1": 11.0}, None),  # restored
        ({"commits/1": 11.0, f"{HOME}/9.delta": 11.0}, f"{HOME}/9.delta"),
    ],
)
def test_without_noted_logs_what_is_newer_than_the_manifest_is_the_query_s(
    there: dict[str, float | None], why: str | None
) -> None:
    note = FileNote("run", 0, 1, None, None, 0.0)
    is_restored = {"commits/1": (note,)} if len({*there}) < 3 else {}
    undo = rollback(there, history=LedgerHistory("run", is_restored), manifests=(None, 10.0, 3.0))
    said = f"{why} is newer than its manifest, which does not record the logs"
    assert [*undo._against_old()] == ([said] if why else [])


def test_without_a_time_of_a_manifest_what_is_there_is_the_query_s() -> None:
    assert len([*rollback({ENTRY: 1.0})._against_old()]) == 1


WORLD = LogWorld(5, left=(), removed=(), newest=(seen(f"{HOME}/5.changelog"),))
ABOVE = f"{HOME}/7.snapshot"


@pytest.mark.parametrize(
    ("name", "whole", "why"),
    [
        ("4.delta", False, None),
        ("5.delta", False, "was written after it"),
        ("5.changelog", False, None),
        ("5.snapshot", False, None),
        ("6.snapshot", False, "was written after it"),
        ("8.delta", False, "was written after it"),
        ("7.delta", True, "was written after it"),
        ("8.delta", True, None),
        ("x", False, None),
    ],
)
def test_state_above_the_rollback_is_of_a_batch_since(
    name: str, *, whole: bool, why: str | None
) -> None:
    undo = rollback({f"{HOME}/{name}": 9.0}, noted={ABOVE: seen(ABOVE)})
    assert [*undo._against_new_state(WORLD, whole=whole)] == (
        [f"{HOME}/{name} {why}"] if why else []
    )


def test_the_logs_have_no_version_of_state() -> None:
    undo = rollback({f"{HOME}/1.delta": 9.0}, noted={ENTRY: seen(ENTRY)})
    assert [*undo._against_new_state(LogWorld(1, (), (), ()), whole=True)] == []


def test_of_state_that_an_undo_brought_back_the_next_is_looked_at() -> None:
    one, two = f"{HOME}/6.delta", f"{HOME}/7.delta"
    undo = rollback({one: 5.0, two: 5.0}, noted={ABOVE: seen(ABOVE)},
                    history=restored(one, "other", 5.0, 30.0))  # fmt: skip
    assert [*undo._against_new_state(WORLD, whole=False)] == [f"{two} was written after it"]


@pytest.mark.parametrize(("crc32c", "same"), [(None, True), (1, False)])
def test_a_noted_change_is_the_same_by_its_bytes(crc32c: int | None, *, same: bool) -> None:
    path, new = f"{HOME}/6.delta", f"{HOME}/7.delta"
    undo = rollback({path: 9.0, new: 9.0}, noted={path: seen(path, crc32c=crc32c)})
    undo.storage.write(path, [b"?"])
    assert [*undo._against_new_state(WORLD, whole=False)] == [
        *([] if same else [f"{path} is another file by now"]),
        f"{new} was written after it",
    ]


@pytest.mark.parametrize(
    ("there", "hidden"),
    [
        ({f"{HOME}/1.delta": 9.0}, f"{HOME}/1.delta"),
        ({f"{HOME}/5.delta": 9.0}, f"{HOME}/5.delta"),
        ({f"{HOME}/5.delta": None}, f"{HOME}/5.delta"),
        ({f"{HOME}/6.delta": 9.0}, None),
        ({f"{HOME}/5.delta": 8.0}, None),
        ({f"{HOME}/4.snapshot": 9.0}, None),
        ({"state/0/1/5.delta": 9.0}, None),
        ({f"{HOME}/6.delta": 9.0, f"{HOME}/a": 9.0, f"{HOME}/x.delta": 9.0}, None),
    ],
)
def test_a_snapshot_hides_the_younger_changes_below_it(
    there: dict[str, float | None], hidden: str | None
) -> None:
    path = f"{HOME}/5.snapshot"
    undo = rollback(there, noted={path: seen(path, 8.0)})
    assert undo._hidden(path, 5) == hidden


def test_snapshots_above_a_log_that_went_on_stay_in_the_trash() -> None:
    trashed: dict[str, float | None] = {f"{HOME}/{name}.snapshot": 7.0 for name in (6, 7)}
    said = f"{HOME}/7.snapshot is above commits/5, which is newer than the rollback"
    assert [*rollback({ENTRY: 9.0}, trashed=trashed)._against_gone_on({"commits/3"})] == [said]
    assert [*rollback({ENTRY: 9.0}, trashed=trashed)._against_gone_on({"commits/5"})] == []


def test_only_snapshots_hide_changes_of_a_log_that_went_on() -> None:
    there: dict[str, float | None] = {ENTRY: 9.0, f"{HOME}/1.delta": 99.0}
    undo = rollback(there, trashed={f"{HOME}/7.delta": 7.0})
    assert [*undo._against_gone_on({"commits/3"})] == []


def test_a_snapshot_waits_for_its_commit_and_a_change_for_none() -> None:
    """Another run's trash has the commits of both versions."""
    for name, waits in (("1.snapshot", True), ("1.delta", False), ("3.delta", False)):
        undo = rollback(trashed={f"{HOME}/{name}": 7.0})
        undo.storage.write(f"{folder_of('other')}/commits/0", [b""])
        if waits:
            with pytest.raises(ConfigError, match="commits/0 was removed by run other; undo"):
                undo._must_have_its_commits()
        else:
            undo._must_have_its_commits()


def test_the_logs_are_whole_only_where_all_removed_entries_are_in_place() -> None:
    left, removed = seen("commits/4"), (seen(ENTRY), seen("commits/6"))
    world = LogWorld(5, left=(left,), removed=removed, newest=())
    assert [*rollback({ENTRY: 7.0})._against(world)] == [
        "commits/4, which the rollback had left, is missing",
        "commits/6 is neither in its place nor in the trash",
    ]
    both = rollback({ENTRY: 7.0, "commits/6": 7.0})
    assert [*both._against(world)] == []


# -- the order of reasons


def test_the_newest_committed_batch() -> None:
    assert _committed(["commits/2", "commits/10", "commits/x", "offsets/11"]) == 10
    assert _committed([]) == -1


def test_reasons_come_by_batch_as_a_number() -> None:
    paths = ["commits/10", "state/0/_metadata/v2/3", "commits/0", "z.delta", "a.delta"]
    expected = ["a.delta", "z.delta", "commits/0", "state/0/_metadata/v2/3", "commits/10"]
    assert sorted(paths, key=_by_batch) == expected


def test_entries_written_after_it_are_said_in_that_order() -> None:
    there: dict[str, float | None] = dict.fromkeys(["commits/10", "commits/9", "commits/8"], 9.0)
    removed = {f"offsets/{one}": (FileNote("later", 3),) for one in (10, 9)}
    removed |= {"x": (FileNote("run", 2),)}
    undo = rollback(there, history=LedgerHistory("run", removed=removed))
    assert [*undo._against_others({"commits/8"})] == [
        "commits/9 was written after it",
        "commits/10 was written after it",
        "offsets/9 was written after it, and removed by another run",
        "offsets/10 was written after it, and removed by another run",
    ]


# -- today's checkpoint


def test_a_rollback_is_compared_with_the_state_and_the_logs_of_today() -> None:
    path = f"{HOME}/6.delta"
    storage = MemoryStorage({path: b"x", ENTRY: b"", "offsets/6": b"", "metadata": b""})
    kept = f"{folder_of('run')}/{path}"
    storage.write(kept, [b"x"])
    found = Contents("run", (), {path: storage.stat(kept)}, verb=RecoveryVerb.ROLLBACK)
    undo = _Rollback.of(storage, found, LedgerHistory("run"))
    assert undo.there.keys() == {path, ENTRY, "offsets/6"}
    assert undo.same(FileRecord(path, 1, 7.0), undo.there[path])
