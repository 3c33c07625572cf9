"""The ledger and the list of runs are as large as what relies on them, and no larger (S18)."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from statemaint.audit import verify
from statemaint.errors import CodecError, NotFoundError, StorageError
from statemaint.execute.ledger import MOST_SEGMENTS
from statemaint.execute.ledger import compact as compact_ledger
from statemaint.listing import Entry
from statemaint.maintain import list_runs, maintain, undo
from statemaint.maintain.run import end_run
from statemaint.model.ids import UnitId
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from statemaint.records.runs import FOLDER as RUNS
from statemaint.records.runs import MOST_RUNS, RememberedRuns, remembered
from statemaint.records.segments import FOLDER, read_ledger
from statemaint.recover import rollback
from statemaint.storage import MemoryStorage
from statemaint.undo.history import read_history
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, PausingStorage, each_crash, refuse, survived
from tests.support.going_on import run
from tests.support.ledgers import ledger_lines, plant_lines
from tests.support.marks import long

HOUR = 3600.0
DAY = 24 * HOUR
TIGHT = Policy(min_deltas_for_snapshot=1, min_batches_to_retain=4, grace=0, orphan_age=0)
KEEPING = TIGHT.override(trash_for=2 * DAY)
HOME = "state/0/0"


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    found = write_checkpoint(MemoryStorage(clock=clock), last=9, batches=range(4, 9), partitions=1)
    clock.now += 60
    return found


def hourly(storage: MemoryStorage, clock: Clock, hours: range, policy: Policy = TIGHT) -> list[str]:
    """Runs two batches and maintains the checkpoint, hour after hour; returns the runs' ids."""
    done = []
    for hour in hours:
        two_batches(storage, hour)
        clock.now += HOUR
        done.append(maintain(storage, policy).run)
    return done


def two_batches(storage: MemoryStorage, hour: int) -> None:
    run(storage, 9 + 2 * hour, 10 + 2 * hour, attempt=0, retain=5)


def size(storage: MemoryStorage) -> tuple[int, int]:
    """Returns how many files of ours there are, and how many bytes, but for the trash."""
    ours = [
        content
        for path, content in storage.files.items()
        if path.startswith("_statemaint/") and "/trash/" not in path
    ]
    return len(ours), sum(map(len, ours))


def content_of(line: dict[str, object]) -> bytes:
    return json.dumps(line).encode() + b"\n"


# -- how large they are


@pytest.mark.no_cover
@pytest.mark.parametrize(("policy", "runs"), [long(TIGHT, 300), (KEEPING, 300)])
def test_the_ledger_is_no_larger_after_300_runs_than_after_150(
    storage: MemoryStorage, clock: Clock, policy: Policy, runs: int
) -> None:
    hourly(storage, clock, range(runs // 2), policy)
    files, bytes_ = size(storage)
    hourly(storage, clock, range(runs // 2, runs), policy)
    later_files, later_bytes = size(storage)
    assert later_files <= files + MOST_SEGMENTS
    assert later_bytes <= 1.1 * bytes_
    assert MOST_RUNS <= len(list_runs(storage)) <= MOST_RUNS + MOST_SEGMENTS
    assert verify(storage, deep=True).findings == ()


def test_every_run_that_is_listed_is_explained(storage: MemoryStorage, clock: Clock) -> None:
    done = hourly(storage, clock, range(200))
    noted = {line["run"] for line in ledger_lines(storage, "0/0")}
    listed = {one.run for one in list_runs(storage)}
    assert listed <= noted
    assert listed >= set(done[-MOST_RUNS:])
    assert done[0] not in noted | listed


@pytest.mark.parametrize("time", ["1e30", "253402300800", "-1", "1e999", "NaN", '"x"'])
@pytest.mark.parametrize("field", ["started", "ended"])
def test_a_note_with_a_time_that_nothing_can_show_is_left_out(
    storage: MemoryStorage, field: str, time: str
) -> None:
    done = maintain(storage, TIGHT).run
    path = f"{RUNS}/{done}/all.json"
    note = json.loads(storage.read(path))
    spoiled = json.dumps({**note, field: 0.5}).replace("0.5", time)
    storage.write(f"{RUNS}/other/all.json", [spoiled.encode()])
    assert [one.run for one in list_runs(storage)] == [done]


def test_the_tasks_of_a_run_leave_it_to_the_runs_end(storage: MemoryStorage, clock: Clock) -> None:
    for hour in range(20):
        two_batches(storage, hour)
        clock.now += HOUR
        maintain(storage, TIGHT, run=f"run-{hour}", holder=Holder(f"run-{hour}"))
        clock.now += 120  # the lease ends
    segments = [path for path in storage.files if path.startswith(FOLDER)]
    assert len(segments) > MOST_SEGMENTS
    end_run(storage, Holder("run-20"), sound=True)
    assert len([path for path in storage.files if path.startswith(FOLDER)]) == 1


# -- what stays


def test_what_a_proof_names_stays(storage: MemoryStorage, clock: Clock) -> None:
    """The only snapshot is of the first run, and names the changes that went because of it."""
    maintain(storage, TIGHT)
    window = RememberedRuns(since=clock.now + DAY)
    before = ledger_lines(storage, "0/0")
    many(storage, "0/0")
    compact_ledger(storage, window, before=lambda: None)
    left = ledger_lines(storage, "0/0")
    assert left == before
    assert f"{HOME}/1.delta" in {line["path"] for line in left if line["action"] == "delete"}


def many(storage: MemoryStorage, ledger: str, lines: Sequence[bytes] = ()) -> None:
    """Adds segments, so that a ledger is due, with lines that are to be forgotten."""
    old = content_of({"run": "old", "fence": 0, "time": 1.0, "action": "delete", "path": "x"})
    for number in range(MOST_SEGMENTS):
        plant_lines(storage, ledger, b"".join([old, *lines]) if not number else old, f"s-{number}")


def test_what_is_younger_than_a_run_in_the_trash_stays(
    storage: MemoryStorage, clock: Clock
) -> None:
    """However long ago that was: an undo of it asks what later runs have removed."""
    long = TIGHT.override(trash_for=900 * DAY)
    first = maintain(storage, long).run
    later = hourly(storage, clock, range(MOST_RUNS + 2 * MOST_SEGMENTS))
    assert {line["run"] for line in ledger_lines(storage, "0/0")} >= {first, *later}
    assert {one.run for one in list_runs(storage)} >= {first, *later}


@pytest.mark.parametrize(("fence", "after"), [(9, -DAY), (0, 1.0)])
def test_other_times_of_a_copy_do_not_shorten_how_long_lines_stay(
    storage: MemoryStorage, clock: Clock, fence: int, after: float
) -> None:
    """The manifests are of today then; the lines say when the run was."""
    first = maintain(storage, KEEPING).run
    many(storage, "0/0")
    line = {"run": "later", "fence": fence, "time": clock.now + after, "action": "delete"}
    plant_lines(storage, "0/0", content_of({**line, "path": "y"}))
    copy = MemoryStorage(storage.files, clock=Clock(clock.now + DAY))
    compact_ledger(copy, RememberedRuns(since=clock.now + DAY, trashed=remembered(copy).trashed),
                   before=lambda: None)  # fmt: skip
    assert {"later", first} == {line["run"] for line in ledger_lines(copy, "0/0")}


def test_the_same_undo_is_decided_after_many_runs(storage: MemoryStorage, clock: Clock) -> None:
    """A change of the trash was written again and removed again, hundreds of runs ago."""
    long = TIGHT.override(trash_for=900 * DAY)
    hourly(storage, clock, range(10), long)
    first = next(one.run for one in list_runs(storage) if one.in_trash)
    hourly(storage, clock, range(10, 10 + MOST_RUNS + 2 * MOST_SEGMENTS))
    units = [UnitId(0, 0)]
    paths = [one["path"] for one in ledger_lines(storage, "0/0") if one["run"] == first]
    again = paths[-1]
    plant = {"run": "again", "fence": 10_000, "time": clock.now, "action": "delete", "path": again}
    plant_lines(storage, "0/0", content_of(plant))
    assert read_history(storage, first, units).removed_again(again)
    hourly(storage, clock, range(150, 150 + MOST_RUNS))
    assert read_history(storage, first, units).removed_again(again)


def test_what_a_kept_undo_brought_back_stays_known(storage: MemoryStorage, clock: Clock) -> None:
    """A rollback's undo asks who had removed an entry before that another undo brought back."""
    gone = {"run": "O", "fence": 1, "time": 2.0, "action": "remove", "path": f"{HOME}/3.delta"}
    back = {"run": "U", "fence": 2, "time": clock.now, "action": "restore", "of": "O",
            "path": f"{HOME}/3.delta", "bytes": 5, "modified": 1.5}  # fmt: skip
    many(storage, "0/0", [content_of(gone)])
    plant_lines(storage, "undo", content_of(back))
    window = RememberedRuns(since=clock.now)
    compact_ledger(storage, window, before=lambda: None)
    assert ledger_lines(storage, "0/0") == [gone]
    many(storage, "0/0")
    compact_ledger(storage, RememberedRuns(since=clock.now + 1), before=lambda: None)
    assert ledger_lines(storage, "0/0") == []


def test_a_line_that_does_not_say_when_stays(storage: MemoryStorage) -> None:
    strange: list[dict[str, object]]
    strange = [{"action": "delete", "path": "z"}, {"time": float("nan")}]
    many(storage, "0/0", [*map(content_of, strange), b'{"cut', b"\n[]\n"])
    compact_ledger(storage, RememberedRuns(since=1e12), before=lambda: None)
    left = [path for path in storage.files if path.startswith(FOLDER)]
    assert len(left) == 1
    assert storage.files[left[0]].splitlines() == [content_of(one)[:-1] for one in strange]


def test_a_rollback_that_is_old_can_be_undone(storage: MemoryStorage, clock: Clock) -> None:
    hourly(storage, clock, range(10))
    before = storage.files
    back = rollback(storage, 26, trash_for=30 * DAY).run
    for ledger in ("rollback", "undo"):
        many(storage, ledger)
    many(storage, "0/0")
    clock.now += 10 * DAY
    compact_ledger(storage, RememberedRuns(since=clock.now, trashed=remembered(storage).trashed),
                   before=lambda: None)  # fmt: skip
    assert undo(storage, back).left == {}
    assert (
        before.keys() - storage.files.keys()
        == {path for path in before if path.startswith((FOLDER, RUNS, "_statemaint/lease"))}
        - storage.files.keys()
    )


# -- earlier builds


def test_a_ledger_of_an_earlier_build_is_read_and_compacted(
    storage: MemoryStorage, clock: Clock
) -> None:
    done = hourly(storage, clock, range(3))
    lines = [line.content + b"\n" for line in read_ledger(storage, "0/0")]
    for path in storage.files:
        if path.startswith(FOLDER):
            storage.delete(path)
    storage.write(f"{FOLDER}/0/0.jsonl", lines)
    before = ledger_lines(storage, "0/0")
    assert {line["run"] for line in before} == set(done)
    hourly(storage, clock, range(3, 3 + MOST_SEGMENTS))
    assert f"{FOLDER}/0/0.jsonl" not in storage.files
    assert ledger_lines(storage, "0/0")[: len(before)] == before


# -- crashes and races


def due(storage: MemoryStorage, clock: Clock) -> RememberedRuns:
    """Brings a ledger to the point at which it is compacted, with trash and an undo."""
    hourly(storage, clock, range(4), KEEPING)
    newest = next(one.run for one in list_runs(storage) if one.in_trash)
    assert undo(storage, newest).files
    many(storage, "0/0")
    many(storage, "undo")
    return RememberedRuns(since=clock.now, trashed=remembered(storage).trashed)


@pytest.mark.parametrize("after", [False, True])
def test_after_a_crash_at_any_change_no_line_is_missing(
    storage: MemoryStorage, clock: Clock, *, after: bool
) -> None:
    window = due(storage, clock)
    goal = survived(storage, clock)
    compact_ledger(goal, window, before=lambda: None)
    needed = {name: ledger_lines(goal, name) for name in ("0/0", "undo")}
    changes, ended = 0, []

    def compacted(storage: MemoryStorage) -> None:
        compact_ledger(storage, window, before=lambda: None)
        ended.append(storage.files)

    for changes, left in each_crash(storage, clock, compacted, after=after, pause=0):
        for name, lines in needed.items():
            assert all(line in ledger_lines(left, name) for line in lines), changes
            many(left, name)
        compact_ledger(left, window, before=lambda: None)
        for name, lines in needed.items():
            assert sorted(ledger_lines(left, name), key=str) == sorted(lines, key=str)
    assert ended == [goal.files]
    assert changes >= 2 * MOST_SEGMENTS


def test_two_that_compact_at_once_lose_nothing(storage: MemoryStorage, clock: Clock) -> None:
    """One is paused before each of its requests, and the other one notes more and compacts all."""
    window = due(storage, clock)
    line = {"run": "other", "fence": 9, "time": clock.now, "action": "delete", "path": "x"}
    plain = survived(storage, clock)
    compact_ledger(plain, window, before=lambda: None)
    needed = [*ledger_lines(plain, "0/0"), line]

    def other(files: MemoryStorage) -> None:
        plant_lines(files, "0/0", content_of(line))
        many(files, "0/0")
        compact_ledger(files, window, before=lambda: None)

    for number in range(100):
        paused = PausingStorage({}, clock=clock, pauses={number: other})  # type: ignore[dict-item]
        paused._files.update(storage._files)
        with suppress(NotFoundError):  # the other one was quicker
            compact_ledger(paused, window, before=lambda: None)
        if len(paused.calls) <= number:
            break
        found = ledger_lines(paused.beside, "0/0")
        assert all(one in found for one in needed), paused.calls[number]
    assert number > 2 * MOST_SEGMENTS


def test_a_reader_under_whom_segments_are_merged_reads_them_all(
    storage: MemoryStorage, clock: Clock
) -> None:
    window = due(storage, clock)
    before = [line for line in ledger_lines(storage, "0/0") if line["run"] != "old"]

    def other(files: MemoryStorage) -> None:
        compact_ledger(files, window, before=lambda: None)

    paused = PausingStorage({}, clock=clock, pauses={5: other})  # type: ignore[dict-item]
    paused._files.update(storage._files)
    found = [line.fields for line in read_ledger(paused, "0/0")]
    assert [line for line in found if line["run"] != "old"] == before
    assert len([call for call in paused.calls if call[0] == "list"]) == 2


def test_a_ledger_that_never_stands_still_is_an_error(storage: MemoryStorage) -> None:
    class Moving(MemoryStorage):
        def list(self, prefix: str) -> Iterator[Entry]:
            yield Entry(f"{prefix}/gone.jsonl", 1, None)

    with pytest.raises(StorageError, match="merged repeatedly"):
        read_ledger(Moving(storage.files), "0/0")


def test_a_ledger_that_cannot_be_compacted_fails_no_run(
    storage: MemoryStorage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    many(storage, "0/0", [content_of({"time": clock.now})])
    refusing = HookedStorage(storage, before=refuse("write", "*/merged-*"))
    assert maintain(refusing, TIGHT).exit_code == 0
    assert "the ledger is not compacted, the next run tries again" in caplog.text


# -- what is no file of ours


def endless() -> bytes:
    """Returns what has no end of a line where one of ours must have one."""
    return b"{" * (1 << 26)


def test_what_is_no_ledger_is_left_and_the_others_are_compacted(
    storage: MemoryStorage, caplog: pytest.LogCaptureFixture
) -> None:
    for ledger in ("0/0", "0/1"):
        many(storage, ledger)
    plant_lines(storage, "0/0", endless(), "s-3")
    before = {path for path in storage.files if "/ledger/0/0/" in path}
    compact_ledger(storage, RememberedRuns(since=1e12), before=lambda: None)
    assert {path for path in storage.files if path.startswith(FOLDER)} == before
    assert "0/0/s-3.jsonl: a line has more than 64 MiB" in caplog.text
    with pytest.raises(CodecError, match="64 MiB"):
        read_ledger(storage, "0/0")


def test_nothing_is_undone_by_a_ledger_that_cannot_be_read(storage: MemoryStorage) -> None:
    done = maintain(storage, KEEPING).run
    plant_lines(storage, "0/0", endless())
    before = storage.files
    with pytest.raises(CodecError, match="planted"):
        undo(storage, done)
    after = {path: one for path, one in storage.files.items() if "/lease/" not in path}
    assert after.items() <= before.items()


def test_trash_with_a_manifest_that_cannot_be_read_is_kept(
    storage: MemoryStorage, clock: Clock
) -> None:
    done = maintain(storage, KEEPING).run
    manifest = f"_statemaint/trash/{done}/manifest/0-0.page-000001.jsonl"
    storage.write(manifest, [endless()], overwrite=True)
    before = {path for path in storage.files if "/trash/" in path}
    clock.now += 900 * DAY
    assert maintain(storage, TIGHT).exit_code == 0
    assert {path for path in storage.files if "/trash/" in path} == before
