"""What a run moved away comes back only into the world that it was taken from (S17)."""

import json
from collections.abc import Callable, Mapping

import pytest

from statemaint.audit import verify
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.errors import Superseded
from statemaint.maintain import maintain, undo
from statemaint.model.policy import Policy
from statemaint.model.proof import FileRecord
from statemaint.plan.actions import Request
from statemaint.records.manifest import (
    FOLDER,
    Note,
    StoreWorld,
    manifest_path,
    render,
)
from statemaint.recover import repair, rollback
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import (
    TIGHT,
    UUID,
    delta_bytes,
    snapshot_bytes,
    state,
    state_at,
    write_checkpoint,
)
from tests.support.faults import Clock, CopyingStorage, Ticking, each_crash, survived
from tests.support.going_on import reset, rewind, rows, run
from tests.support.rocks import parts_of
from tests.support.undone import as_of_an_earlier_build
from tests.unit.maintain.test_rocks import TIGHT as ROCKS
from tests.unit.maintain.test_rocks import long_after

DAY = 86_400.0
MONTH = 30 * DAY
KEEPING = TIGHT.override(trash_for=7 * DAY)
HOME = "state/0/0"


def snapshot(storage: MemoryStorage, version: int, *, of: int | None = None) -> str:
    path = f"{HOME}/{version}.snapshot"
    storage.write(path, [snapshot_bytes(state_at(of or version))], overwrite=True)
    return path


def rewritten(storage: MemoryStorage, version: int) -> None:
    content = delta_bytes(rows(version, 1))
    storage.write(f"{HOME}/{version}.delta", [content], overwrite=True)


# -- a repair


def dropped(storage: MemoryStorage, clock: Clock) -> str:
    """Repairs a snapshot that is damaged, and that nothing is loaded from."""
    path = snapshot(storage, 5)
    storage.write(path, [storage.files[path][:50]], overwrite=True)
    snapshot(storage, 10)
    done = repair(storage, trash_for=MONTH)
    assert [one.path for one in done.removed] == [path]
    assert done.written == ()
    clock.now += 60
    return done.run


def test_a_poisoned_snapshot_stays_away_once_its_log_was_written_again(
    storage: MemoryStorage, clock: Clock
) -> None:
    """The operator rewinds; the repair takes what lies above the log; the query writes it again."""
    path = snapshot(storage, 20)
    rewind(storage, 16)
    done = repair(storage, trash_for=MONTH)
    assert [(one.path, one.reason.value) for one in done.removed] == [(path, "above_target")]
    clock.now += 60
    run(storage, 17, 29)
    assert verify(storage, deep=True).findings == ()
    found = undo(storage, done.run)
    assert found.files == 0
    assert found.left[path].startswith(
        f"state/0/0/18.delta was written after run {done.run}; leave it in the trash"
    )
    assert path not in storage.files
    assert verify(storage, deep=True).findings == ()


@pytest.mark.parametrize("version", [1, 4, 5])
def test_each_change_at_or_below_a_snapshot_counts(
    storage: MemoryStorage, clock: Clock, version: int
) -> None:
    done = dropped(storage, clock)
    rewritten(storage, version)
    assert f"/{version}.delta was written" in undo(storage, done).left[f"{HOME}/5.snapshot"]


def test_the_bytes_tell_where_the_time_does_not(storage: MemoryStorage, clock: Clock) -> None:
    """As after a rewind within one second, where a storage has whole ones."""
    done = dropped(storage, clock)
    path = f"{HOME}/4.delta"
    content, modified = storage._files[path]
    other = delta_bytes([(key.replace(b"key", b"yek"), value) for key, value in rows(4, 0)])
    assert len(other) == len(content)
    storage._files[path] = (other, modified)
    assert "4.delta was written" in undo(storage, done).left[f"{HOME}/5.snapshot"]


def test_the_bytes_tell_where_a_copy_has_other_times(storage: MemoryStorage, clock: Clock) -> None:
    done = dropped(storage, clock)
    copy = MemoryStorage(storage.files, clock=Clock(clock.now + DAY))
    assert undo(copy, done).left == {}
    assert f"{HOME}/5.snapshot" in copy.files


def test_a_poisoned_snapshot_comes_back_when_the_query_has_only_gone_on(
    storage: MemoryStorage, clock: Clock
) -> None:
    done = dropped(storage, clock)
    run(storage, 25, 40)
    assert undo(storage, done).left == {}
    assert f"{HOME}/5.snapshot" in storage.files


def test_a_poisoned_snapshot_comes_back_when_maintenance_has_deleted_what_it_was_held_to(
    storage: MemoryStorage, clock: Clock
) -> None:
    done = dropped(storage, clock)
    maintain(storage, TIGHT)
    assert f"{HOME}/5.delta" not in storage.files
    assert undo(storage, done).left == {}


def test_a_file_that_was_not_there_then_keeps_it_away(storage: MemoryStorage, clock: Clock) -> None:
    done = dropped(storage, clock)
    for version in range(1, 6):
        storage.delete(f"{HOME}/{version}.delta")
    storage.write(f"{HOME}/3_0f6d2b1c-5a3e-4c7d-9b8a-112233445566.changelog", [b"new"])
    assert "3_0f6d2b1c" in undo(storage, done).left[f"{HOME}/5.snapshot"]


def test_a_new_snapshot_below_is_no_reason(storage: MemoryStorage, clock: Clock) -> None:
    """Maintenance writes snapshots of a log that stays the same."""
    done = dropped(storage, clock)
    snapshot(storage, 3)
    assert undo(storage, done).left == {}


def test_a_right_checksum_that_a_repair_took_comes_back_beside_its_file(
    storage: MemoryStorage, clock: Clock
) -> None:
    path, owner = f"{HOME}/.20.delta.crc", f"{HOME}/20.delta"
    stale = hadoop(b"another file")
    storage.write(path, [stale])
    snapshot(storage, 22)
    done = repair(storage, trash_for=MONTH)
    assert [one.path for one in done.removed] == [path]
    clock.now += 60
    other = survived(storage, clock)
    rewritten(other, 20)
    assert undo(other, done.run).left == {path: f"{owner}, which it was beside, was written again"}
    other.delete(owner)
    assert undo(other, done.run).left == {path: f"{owner}, which it was made for, is missing"}
    assert undo(storage, done.run).left == {}
    assert storage.files[path] == stale


def test_a_repair_of_an_earlier_build_is_undone_as_long_as_nothing_is_newer(
    storage: MemoryStorage, clock: Clock
) -> None:
    done = dropped(storage, clock)
    as_of_an_earlier_build(storage, done)
    other = survived(storage, clock)
    rewritten(other, 4)
    reason = undo(other, done).left[f"{HOME}/5.snapshot"]
    assert reason.startswith(
        f"{HOME}/4.delta is newer than the manifest of run {done}, which does not record the log"
    )
    rewritten(storage, 6)
    assert undo(storage, done).left == {}


# -- maintenance with a trash


@pytest.fixture
def trashed(storage: MemoryStorage, clock: Clock) -> str:
    """A run that moved deltas 1 to 16 and a snapshot of version 5 away."""
    snapshot(storage, 5)
    report = maintain(storage, KEEPING)
    assert f"{FOLDER}/{report.run}/{HOME}/5.snapshot" in storage.files
    clock.now += 60
    return report.run


@pytest.mark.parametrize("batches", [*range(1, 10), 20, 40])
@pytest.mark.parametrize("cleaned", [None, TIGHT, KEEPING], ids=["not", "deleted", "moved"])
def test_nothing_comes_back_into_a_query_that_was_started_over(
    storage: MemoryStorage, clock: Clock, trashed: str, *, batches: int, cleaned: Policy | None
) -> None:
    reset(storage)
    run(storage, 0, batches - 1)
    if cleaned:
        maintain(storage, cleaned, request=Request(force_snapshot=True))
    clock.now += 60
    before = state(storage)
    found = undo(storage, trashed)
    assert found.files == 0, found
    assert state(storage) == before
    assert verify(storage, deep=True).findings == ()


def test_nothing_comes_back_where_spark_has_cleaned_up_below(
    storage: MemoryStorage, trashed: str
) -> None:
    """Then nothing at or below is left, and the next above tells."""
    reset(storage)
    run(storage, 0, 18)
    for version in range(1, 18):
        storage.delete(f"{HOME}/{version}.delta")
    snapshot(storage, 18)
    found = undo(storage, trashed)
    assert found.files == 0
    assert "and the log below it is missing" in found.left[f"{HOME}/5.snapshot"]


def test_nothing_comes_back_where_spark_has_cleaned_up_above(
    storage: MemoryStorage, trashed: str
) -> None:
    """What came back would end at a gap, in versions that the commit log still asks for."""
    snapshot(storage, 18)
    for name in ("17.delta", "17.snapshot"):
        storage.delete(f"{HOME}/{name}")
    found = undo(storage, trashed)
    assert found.files == 0
    text = "version 17, which the commit log requires, is missing"
    assert text in found.left[f"{HOME}/16.delta"]


@pytest.mark.parametrize("writes", [False, True])
def test_nothing_comes_back_into_a_query_that_is_rewound_meanwhile(
    storage: MemoryStorage, trashed: str, *, writes: bool
) -> None:
    """After the undo has decided what fits, and before the first file comes back."""
    append = storage.append

    def meanwhile(path: str, content: bytes) -> None:
        append(path, content)
        if "/ledger/undo/" in path:
            rewind(storage, 17)
            if writes:
                run(storage, 17, 24, attempt=2)

    storage.append = meanwhile  # type: ignore[assignment, method-assign]
    before = state(storage).keys()
    with pytest.raises(Superseded, match="the query was rewound"):
        undo(storage, trashed)
    assert state(storage).keys() == before


def test_every_file_comes_back_after_a_rewind_above(storage: MemoryStorage, trashed: str) -> None:
    before = state(storage)
    rewind(storage, 19)
    run(storage, 20, 30)
    assert undo(storage, trashed).left == {}
    assert state(storage).keys() > before.keys()


def test_every_file_comes_back_in_a_copy_whose_files_have_other_times(
    storage: MemoryStorage, clock: Clock, trashed: str
) -> None:
    """The bytes of the first delta above tell that nothing below it was written again."""
    copy = MemoryStorage(storage.files, clock=Clock(clock.now + DAY))
    other = survived(copy, copy.now)
    assert undo(copy, trashed).left == {}
    other.delete(f"{HOME}/17.delta")
    assert "18.delta was written after" in undo(other, trashed).left[f"{HOME}/5.snapshot"]


def repeated(storage: MemoryStorage, clock: Clock, *, gone: range) -> Mapping[str, str]:
    """Undoes a run after the batch above it has run again, and some of the log is gone.

    Returns:
        The files that stay in the trash, with the reason of each.
    """
    rewritten(storage, 26)
    done = maintain(storage, KEEPING).run
    clock.now += 60
    run(storage, 25, 60, attempt=2, retain=9)
    for version in gone:
        storage.delete(f"{HOME}/{version}.delta")
    return undo(storage, done).left


def test_every_file_comes_back_after_a_task_above_the_target_was_repeated(
    storage: MemoryStorage, clock: Clock
) -> None:
    """Its delta is another one by then."""
    assert repeated(storage, clock, gone=range(17, 25)) == {}


GONE = "nothing is left of the log above it, and nothing shows whether it was written again; undo "


def test_nothing_comes_back_once_nothing_is_left_of_the_log_above(
    storage: MemoryStorage, clock: Clock
) -> None:
    """The first change that is left is that of the batch which was running."""
    left = repeated(storage, clock, gone=range(17, 26))
    assert f"{HOME}/16.delta" in left
    assert {why.startswith(GONE) for why in left.values()} == {True}


def test_nothing_comes_back_once_further_runs_have_deleted_the_log_above(
    storage: MemoryStorage, trashed: str
) -> None:
    run(storage, 25, 60, retain=9)
    maintain(storage, TIGHT)
    assert f"{HOME}/25.delta" not in storage.files
    left = undo(storage, trashed).left
    assert f"{HOME}/16.delta" in left
    assert {why.startswith(GONE) for why in left.values()} == {True}


def test_a_snapshot_above_the_log_stays_away_once_a_batch_has_written_its_version(
    storage: MemoryStorage, clock: Clock
) -> None:
    """Even where all that the batch wrote was cleaned up since."""
    storage.write(f"{HOME}/27.snapshot", [b"of a batch that was taken back"])
    clock.now += 60
    done = repair(storage, trash_for=MONTH).run
    assert f"{HOME}/27.snapshot" not in storage.files
    run(storage, 25, 60, retain=9)
    for version in range(1, 50):
        storage.delete(f"{HOME}/{version}.delta")
    left = undo(storage, done).left
    assert left[f"{HOME}/27.snapshot"].startswith(GONE)


def above_the_log(storage: MemoryStorage, clock: Clock) -> str:
    """Repairs a snapshot of batches that were taken back; their changes still lie beside it."""
    path = snapshot(storage, 20)
    rewind(storage, 17)
    done = repair(storage, trash_for=MONTH)
    assert [one.path for one in done.removed] == [path]
    clock.now += 60
    return done.run


def test_a_snapshot_above_the_log_comes_back_to_what_it_was_taken_from(
    storage: MemoryStorage, clock: Clock
) -> None:
    assert undo(storage, above_the_log(storage, clock)).files == 1
    assert f"{HOME}/20.snapshot" in storage.files


@pytest.mark.parametrize("end", [17, 18, 29], ids=["at once", "below it", "above it"])
def test_a_snapshot_above_the_log_stays_away_once_a_rollback_has_removed_the_log_above(
    storage: MemoryStorage, clock: Clock, end: int
) -> None:
    """Nothing is left then of what would tell that batches have run since."""
    of_repair = above_the_log(storage, clock)
    run(storage, 18, end)
    gone = {one.path for one in rollback(storage, 17, trash_for=MONTH).removed}
    assert {f"{HOME}/19.delta", f"{HOME}/20.delta"} <= gone
    clock.now += 60
    found = undo(storage, of_repair)
    assert found.files == 0
    assert found.left[f"{HOME}/20.snapshot"].startswith(GONE)


def test_a_snapshot_above_the_log_stays_away_where_the_batch_has_written_the_same_changes(
    storage: MemoryStorage, clock: Clock
) -> None:
    """It may have built on another version below."""
    change = storage.files[f"{HOME}/25.delta"]
    storage.write(f"{HOME}/26.delta", [change])
    storage.write(f"{HOME}/26.snapshot", [b"of a batch that was taken back"])
    clock.now += 60
    done = repair(storage, trash_for=MONTH).run
    assert f"{HOME}/26.snapshot" not in storage.files
    storage.delete(f"{HOME}/26.delta")
    run(storage, 25, 26, retain=9)
    storage.write(f"{HOME}/26.delta", [change], overwrite=True)
    left = undo(storage, done).left
    assert left[f"{HOME}/26.snapshot"].startswith("version 26 was committed after run")


def test_two_runs_come_back_one_after_the_other(
    storage: MemoryStorage, clock: Clock, trashed: str
) -> None:
    run(storage, 25, 40, retain=9)
    second = maintain(storage, KEEPING).run
    clock.now += 60
    assert undo(storage, second).left == {}
    clock.now += 60
    assert undo(storage, trashed).left == {}
    assert {f"{HOME}/{version}.delta" for version in range(1, 42)} <= state(storage).keys()
    assert verify(storage, deep=True).healthy


def test_what_lies_above_a_log_that_was_cut_stays_away(
    storage: MemoryStorage, trashed: str
) -> None:
    """Empty logs, or such of another time: nothing of the state has been written again yet."""
    for path in storage.files:
        if path.startswith(("commits/", "offsets/")) and not path.endswith("/16"):
            storage.delete(path)
    storage.write("commits/2", [storage.files["commits/16"]])
    storage.delete("commits/16")
    found = undo(storage, trashed)
    assert found.left[f"{HOME}/5.snapshot"].startswith(
        "version 5 is above the newest committed one now"
    )
    assert f"{HOME}/3.delta" in storage.files


def test_a_trash_of_an_earlier_build_comes_back_as_long_as_nothing_below_is_newer(
    storage: MemoryStorage, clock: Clock, trashed: str
) -> None:
    as_of_an_earlier_build(storage, trashed)
    run(storage, 25, 30)
    other = survived(storage, clock)
    assert undo(other, trashed).left == {}
    rewritten(storage, 3)
    left = undo(storage, trashed).left
    assert {path for path in left if "is newer than the manifest" in left[path]} == {
        f"{HOME}/5.snapshot", *(f"{HOME}/{version}.delta" for version in range(3, 17))
    }  # fmt: skip
    assert f"{HOME}/2.delta" in storage.files


@pytest.mark.parametrize(
    "spoil",
    [
        lambda line: {**line, "world": 5},
        lambda line: {**line, "world": {"directory": HOME, "target": 25, "files": [[1, 2, 3]]}},
        lambda line: {**line, "world": {"directory": HOME, "target": "x", "files": []}},
        lambda line: {key: line[key] for key in line if key != "world"},
    ],
)
def test_a_world_that_cannot_be_read_is_none(
    storage: MemoryStorage, trashed: str, spoil: Callable[[dict[str, object]], object]
) -> None:
    path = f"{FOLDER}/{trashed}/manifest/0-0.page-000001.jsonl"
    content, modified = storage._files[path]
    first, *rest = content.splitlines(keepends=True)
    text = json.dumps(spoil(json.loads(first))).encode() + b"\n"
    storage._files[path] = (b"".join([text, *rest]), modified)
    rewritten(storage, 3)
    assert "is newer than the manifest" in undo(storage, trashed).left[f"{HOME}/5.snapshot"]


# -- killed, and done again


def maintained(storage: MemoryStorage) -> str:
    """Moves deltas and a snapshot away."""
    snapshot(storage, 5)
    return maintain(storage, KEEPING).run


def repaired(storage: MemoryStorage) -> str:
    """Moves a damaged snapshot away, one above the log, and a checksum of another file."""
    path = snapshot(storage, 5)
    storage.write(path, [storage.files[path][:50]], overwrite=True)
    storage.write(f"{HOME}/.20.delta.crc", [hadoop(b"another file")])
    snapshot(storage, 10)
    snapshot(storage, 22)
    snapshot(storage, 27)
    done = repair(storage, trash_for=MONTH)
    assert len(done.removed) == 3
    return done.run


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("work", [maintained, repaired])
def test_an_undo_that_is_killed_anywhere_is_done_again(
    work: Callable[[MemoryStorage], str], *, after: bool, copies: bool
) -> None:
    clock, kind = Ticking(), CopyingStorage if copies else MemoryStorage
    whole = write_checkpoint(kind(clock=clock), partitions=1)
    done = work(whole)
    goal = survived(whole, clock, kind)
    assert undo(goal, done).left == {}
    at = 0
    for at, again in each_crash(
        whole, clock, lambda storage: undo(storage, done), after=after, copies=copies
    ):
        if any(path.startswith(FOLDER) for path in again.files):
            assert undo(again, done).left == {}, at
        assert state(again) == state(goal), at
    assert at > 8


@pytest.mark.parametrize("copies", [False, True])
def test_a_run_that_is_killed_anywhere_is_undone(*, copies: bool) -> None:
    clock, kind = Ticking(), CopyingStorage if copies else MemoryStorage
    whole = write_checkpoint(kind(clock=clock), partitions=1)
    snapshot(whole, 5)
    undone = 0
    for at, again in each_crash(
        whole, clock, lambda storage: maintain(storage, KEEPING, run="killed"), copies=copies
    ):
        if any(path.startswith(FOLDER) for path in again.files):
            assert undo(again, "killed").left == {}, at
            undone += 1
        assert state(whole).items() <= state(again).items(), at
    assert undone > 20


# -- RocksDB


@pytest.fixture
def zipped() -> tuple[MemoryStorage, str, set[str]]:
    """A store of RocksDB, the run that moved zips and tables away, and what it moved."""
    storage = long_after(Clock())
    run_id = maintain(storage, ROCKS.override(trash_for=7 * DAY)).run
    folder = f"{FOLDER}/{run_id}/"
    trash = {path.removeprefix(folder) for path in storage.files if path.startswith(folder)}
    trash = {path for path in trash if path.startswith("state/")}
    assert {path.rpartition(".")[2] for path in trash} == {"zip", "sst", "changelog"}
    storage._clock = Clock(storage.now() + 60)
    return storage, run_id, trash


def test_a_zip_stays_away_with_its_tables_once_its_changelogs_were_written_again(
    zipped: tuple[MemoryStorage, str, set[str]],
) -> None:
    storage, run_id, trash = zipped
    assert undo(survived(storage, storage.now), run_id).left == {}
    for path in state(storage):
        if path.endswith(".changelog"):
            storage.write(path, [storage.files[path] + b"\0"], overwrite=True)
    left = undo(storage, run_id).left
    assert left.keys() == trash
    for path in trash:
        why = "refers to it, which stays" if path.endswith(".sst") else "log below it is missing"
        assert why in left[path]


def test_a_zip_whose_table_is_gone_stays_away(
    zipped: tuple[MemoryStorage, str, set[str]],
) -> None:
    storage, run_id, trash = zipped
    (zip_path, *_) = sorted(path for path in trash if path.endswith(".zip"))
    table = parts_of(storage.files[f"{FOLDER}/{run_id}/{zip_path}"])[0]
    path = f"{HOME}/SSTs/{table}"
    storage.delete(f"{FOLDER}/{run_id}/{path}")
    storage.delete(path)
    left = undo(storage, run_id).left
    assert left[zip_path] == f"{path}, which {zip_path} refers to, is missing"
    assert {one.rpartition(".")[2] for one in left} <= {"zip", "sst"}


def test_a_query_that_uploads_each_version_has_its_zips_for_a_log() -> None:
    """Without changelogs nothing else tells that it was started over."""
    storage = MemoryStorage(clock=Clock())
    zips = {f"{HOME}/{version}.zip": b"%d" % version for version in range(1, 11)}
    listed = [FileRecord.of(storage.write(path, [content]), {}) for path, content in zips.items()]
    notes = [Note(one, 9e9, world=StoreWorld(HOME, 10, tuple(listed))) for one in listed]
    storage.write(manifest_path("run", "0-0"), [render(notes[:5])])
    for path in list(zips)[:5]:
        storage.write(f"{FOLDER}/run/{path}", [zips[path]])
    storage.write("commits/2", [b""])
    storage.write("offsets/2", [b""])
    for path in list(zips)[3:5]:
        storage.delete(path)
    for path in list(zips)[:3]:
        storage.write(path, [b"%"], overwrite=True)
    assert undo(storage, "run").left.keys() == set(list(zips)[:5])
    storage.write("commits/9", [b""])
    for path in list(zips)[:3]:
        storage.delete(path)
    ours = f"{HOME}/3_{UUID}.zip"
    storage.write(ours, [b"%"])
    assert undo(storage, "run").left.keys() == set(list(zips)[:5])
    line = json.dumps({"action": "write_snapshot", "path": ours}).encode() + b"\n"
    storage.append("_statemaint/ledger/0/0.jsonl", line)
    assert undo(storage, "run").files == 5
