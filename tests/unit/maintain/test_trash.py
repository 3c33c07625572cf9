"""What is deleted goes to the trash, and comes back byte for byte (S17)."""

import json
from collections.abc import Iterator

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.audit import verify
from statemaint.codec.integrity import checksum_file
from statemaint.errors import ConfigError, LeaseHeldError, StorageError
from statemaint.execute.lease import QUIET, acquire
from statemaint.maintain import list_runs, maintain, undo
from statemaint.maintain.run import end_run
from statemaint.model.findings import FindingCode
from statemaint.model.ids import run_folder
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.records.claims import Holder
from statemaint.records.manifest import FOLDER, contents
from statemaint.records.trashed import expired as expired_trash
from statemaint.records.trashed import trashed_runs
from statemaint.report.run import Report
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import COMMIT, NOW, changes, delta_bytes, state, write_checkpoint
from tests.support.faults import (
    Clock,
    CopyingStorage,
    Crash,
    CrashingStorage,
    HookedStorage,
    refuse,
    survived,
)
from tests.support.ledgers import ledger_lines

DAY = 86400.0
TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)
KEEPING = TIGHT.override(trash_for=7 * DAY)
AIRFLOW = "manual__2026-11-21T14:00:00+00:00"


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    return neglected(clock)


def neglected(clock: Clock) -> MemoryStorage:
    """Returns a checkpoint with deltas 1 to 10 and a checksum file beside each."""
    found = MemoryStorage(clock=clock)
    write_checkpoint(found, last=10, batches=range(6, 10), partitions=1)
    for entry in list(found.list("state")):
        content = found.read(entry.path)
        side = checksum_file.spark(google_crc32c.value(content), len(content), 0)
        found.write(f"{entry.path}.crc", [side])
    return found


def trash(storage: MemoryStorage) -> list[str]:
    return sorted(path for path in storage.files if path.startswith(FOLDER))


def moved(storage: MemoryStorage) -> list[str]:
    """Returns what is in the trash, without the pages that say so."""
    return sorted(path for path in trash(storage) if "/manifest/" not in path)


def deleted(report: Report) -> int:
    return report.files_deleted.total()


# -- into the trash


def test_files_are_moved_instead_of_deleted(storage: MemoryStorage) -> None:
    before = state(storage)
    report = maintain(storage, KEEPING, run="run")
    gone = {path: content for path, content in before.items() if path not in storage.files}
    assert len(gone) == deleted(report) == 10
    kept = {path: storage.read(f"{FOLDER}/run/{path}") for path in gone}
    assert kept == gone
    manifest = storage.read(f"{FOLDER}/run/manifest/0-0.page-000001.jsonl").splitlines()
    assert [json.loads(line)["path"] for line in manifest] == [
        f"state/0/0/{version}.delta{side}" for version in range(1, 6) for side in (".crc", "")
    ]


def test_the_ledger_tells_the_trash_from_a_deletion(storage: MemoryStorage) -> None:
    maintain(storage, KEEPING)
    lines = ledger_lines(storage, "0/0")
    assert {one["trash"] for one in lines if one["action"] == "delete"} == {True}


def test_without_trash_files_are_gone(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT, run="run")
    assert trash(storage) == []
    with pytest.raises(ConfigError, match="nothing of run 'run' is in the trash") as error:
        undo(storage, "run")
    assert error.value.exit_code == 2


@pytest.mark.parametrize("run", [AIRFLOW, "../x", "a/b", "..", ".", "../../state/0/0/x", "é\n"])
def test_no_run_id_leaves_the_trash(storage: MemoryStorage, run: str) -> None:
    before = state(storage)
    others = set(storage.files)
    maintain(storage, KEEPING, run=run)
    inside = [
        path for path in trash(storage) if not path.endswith("/manifest/0-0.page-000001.jsonl")
    ]
    assert len(inside) == 10
    for path in set(storage.files) - others:
        assert path.startswith(("_statemaint/", "state/0/0/10.snapshot", "state/0/0/6.snapshot"))
        assert ".." not in path.split("/")
        assert "." not in path.split("/")
        assert "" not in path.split("/")
        assert ":" not in path
    assert undo(storage, run).files == 10
    assert before.items() <= state(storage).items()


@given(run=st.text(max_size=40))
def test_a_runs_folder_is_one_harmless_name(run: str) -> None:
    found = run_folder(run)
    assert found.strip("-") == "" or found[0] != "."
    assert found not in ("", ".", "..")
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@=-")
    assert run_folder(found) == found


def test_a_failing_trash_deletes_nothing(storage: MemoryStorage) -> None:
    refusing = HookedStorage(storage.files, before=refuse("append", f"{FOLDER}/*"))
    report = maintain(refusing, KEEPING)
    assert [one.code for one in report.findings] == [FindingCode.STORAGE_FAILED]
    assert state(storage).items() <= state(refusing).items()


# -- and back


def test_undo_restores_byte_for_byte(storage: MemoryStorage) -> None:
    before = state(storage)
    maintain(storage, KEEPING, run=AIRFLOW)
    done = undo(storage, AIRFLOW)
    after = state(storage)
    assert (done.files, done.left) == (10, {})
    assert done.bytes == sum(len(before[path]) for path in before if _below(path))
    assert {path: after[path] for path in before} == before
    assert {path.rpartition("/")[2] for path in after.keys() - before.keys()} == {
        "10.snapshot", "10.snapshot.crc", "6.snapshot", "6.snapshot.crc",
    }  # fmt: skip
    assert trash(storage) == []
    assert verify(storage, deep=True).findings == ()


def _below(path: str) -> bool:
    return int(path.rpartition("/")[2].partition(".")[0]) <= 5


def test_after_an_undo_the_next_run_deletes_the_same_again(storage: MemoryStorage) -> None:
    maintain(storage, KEEPING, run="run")
    settled = state(storage)
    undo(storage, "run")
    again = maintain(storage, KEEPING, run="again")
    assert (deleted(again), again.exit_code) == (10, 0)
    assert state(storage) == settled
    assert maintain(storage, KEEPING).plan.actions == ()


def test_undo_is_in_the_ledger() -> None:
    storage = neglected(Clock(NOW + 0.5))
    listed = {one.path: one for one in storage.list("state")}
    maintain(storage, KEEPING, run="run")
    undo(storage, "run")
    lines = ledger_lines(storage, "undo")
    assert [one["action"] for one in lines] == ["restore"] * 10
    assert {(one["of"], one["fence"]) for one in lines} == {("run", 2)}
    for one in lines:
        entry = listed[one["path"]]
        assert (one["bytes"], one["modified"]) == (entry.size, entry.modified)
        assert "crc32c" not in one  # the storage keeps the times of what it moves


def test_a_change_that_a_copy_gave_another_time_is_noted_with_its_bytes(clock: Clock) -> None:
    storage = CopyingStorage(neglected(clock).files, clock=clock)
    content = {path: one for path, one in state(storage).items() if path.endswith(".delta")}
    listed = {one.path: one.modified for one in storage.list("state")}
    clock.now += 60
    maintain(storage, KEEPING, run="run")
    undo(storage, "run")
    lines = ledger_lines(storage, "undo")
    assert {one["path"]: one["crc32c"] for one in lines if "crc32c" in one} == {
        one["path"]: google_crc32c.value(content[one["path"]])
        for one in lines
        if one["path"].endswith(".delta")
    }
    assert len({one["path"] for one in lines} - content.keys()) == 5
    assert {one["modified"] for one in lines} <= {*listed.values()}


def test_an_undo_waits_for_the_lease(storage: MemoryStorage) -> None:
    maintain(storage, KEEPING, run="run")
    acquire(storage, Holder("other"))
    before = storage.files
    with pytest.raises(LeaseHeldError):
        undo(storage, "run")
    assert storage.files == before


def test_an_unknown_run_is_told_in_one_line(storage: MemoryStorage) -> None:
    before = storage.files
    with pytest.raises(ConfigError) as error:
        undo(storage, "no such run")
    assert error.value.exit_code == 2
    assert "'no such run'" in str(error.value)
    assert storage.files == before
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"short", None])
def test_a_file_in_the_place_stays_and_is_reported(
    storage: MemoryStorage, content: bytes | None
) -> None:
    old = storage.read("state/0/0/3.delta")
    other = content or bytes(len(old))  # of the same size: only its bytes tell
    maintain(storage, KEEPING, run="run")
    storage.write("state/0/0/3.delta", [other])
    for _ in range(2):
        done = undo(storage, "run")
        assert (done.files, len(done.left)) == (0, 10)  # no version of them is sure to be the same
        assert done.left["state/0/0/5.delta"].startswith(
            "state/0/0/3.delta was written after run run; leave it in the trash"
        )
        assert "the log below it is missing" in done.left["state/0/0/2.delta"]
        assert done.left["state/0/0/3.delta.crc"] == "state/0/0/3.delta stays in the trash"
    assert storage.read("state/0/0/3.delta") == other
    assert "state/0/0/3.delta.crc" not in storage.files  # of the file in the trash
    storage.delete("state/0/0/3.delta")
    assert undo(storage, "run").left == {}
    assert storage.read("state/0/0/3.delta") == old
    assert trash(storage) == []


def test_an_equal_file_in_the_place_is_the_one_that_was_to_come_back(
    storage: MemoryStorage,
) -> None:
    old = storage.read("state/0/0/3.delta")
    maintain(storage, KEEPING, run="run")
    storage.write("state/0/0/3.delta", [old])
    assert undo(storage, "run").left == {}
    assert trash(storage) == []


def test_a_checksum_that_stood_in_the_way_does_not_come_back(
    storage: MemoryStorage, clock: Clock
) -> None:
    # Beside the snapshot that was written since, it would keep Spark from loading that.
    storage.write("state/0/0/.10.snapshot.crc", [b"crc\0\0\0\2\0abcd"])
    clock.now += 2 * DAY
    maintain(storage, KEEPING, run="run")
    assert "state/0/0/10.snapshot" in storage.files
    done = undo(storage, "run")
    assert list(done.left) == ["state/0/0/.10.snapshot.crc"]
    assert verify(storage, deep=True).healthy


def test_a_checksum_that_was_alone_stays_where_it_is(storage: MemoryStorage, clock: Clock) -> None:
    # After a rewind it would lie in wait for a snapshot that it is not of.
    alone = "state/0/0/10.snapshot.crc"
    storage.write(alone, [b"{}"])
    clock.now += 2 * DAY
    maintain(storage, KEEPING, run="run")
    for path in ("state/0/0/10.snapshot", alone, "commits/9"):
        storage.delete(path)
    assert list(undo(storage, "run").left) == [alone]
    assert alone not in storage.files
    assert f"{FOLDER}/run/{alone}" in storage.files


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_while_files_go_to_the_trash_loses_nothing(clock: Clock, *, after: bool) -> None:
    before, goal, holder = neglected(clock), neglected(clock), Holder("run")
    maintain(goal, KEEPING, run="run")
    for crashing in _crashes(before, after=after):
        try:
            maintain(crashing, KEEPING, run="run", holder=holder)
        except Crash:
            crashed = survived(crashing, clock)
            _nothing_lost(before, crashed)
            assert verify(crashed, deep=True).healthy
            undone = survived(crashed, Clock(clock.now + 90))
            if trash(undone):
                undo(undone, "run")
                assert state(before).items() <= state(undone).items()
                assert [one for one in trash(undone) if "/state/" in one] == []
            maintain(crashed, KEEPING, run="run", holder=holder)
            # A crash between a snapshot and its checksum: Spark reads the snapshot unchecked.
            lacking = state(goal).keys() - state(crashed).keys()
            assert {path.rpartition(".snapshot")[2] for path in lacking} <= {".crc"}
            assert state(crashed).items() <= state(goal).items()
            assert moved(crashed) == moved(goal)
            continue
        return


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_while_files_come_back_loses_nothing(clock: Clock, *, after: bool) -> None:
    before = neglected(clock)
    trashed = MemoryStorage(before.files, clock=clock)
    maintain(trashed, KEEPING, run="run")
    for crashing in _crashes(trashed, after=after):
        try:
            undo(crashing, "run")
        except Crash:
            crashed = survived(crashing, Clock(clock.now + 90))
            _nothing_lost(before, crashed)
            if trash(crashed):
                undo(crashed, "run")
            assert state(before).items() <= state(crashed).items()
            assert trash(crashed) == []
            assert verify(crashed, deep=True).healthy
            continue
        return


def _crashes(storage: MemoryStorage, *, after: bool) -> Iterator[CrashingStorage]:
    """Yields a storage for each change at which the world may end; the last one is never asked."""
    for at in range(200):
        yield CrashingStorage(storage.files, at=at, after=after, clock=storage.now)
    raise AssertionError("it never got through")


def _nothing_lost(before: MemoryStorage, after: MemoryStorage) -> None:
    for path, content in state(before).items():
        places = (path, f"{FOLDER}/run/{path}")
        assert content in [after.files.get(place) for place in places]


# -- emptying it


def test_the_trash_is_emptied_by_what_its_manifest_says(
    storage: MemoryStorage, clock: Clock
) -> None:
    maintain(storage, KEEPING, run="run")
    before = trash(storage)
    clock.now += 7 * DAY - 1
    maintain(storage, TIGHT)  # today's policy keeps nothing, the one of that day did
    assert trash(storage) == before
    clock.now += 1
    maintain(storage, TIGHT.override(trash_for=900 * DAY))
    assert trash(storage) == []


def test_what_a_crash_leaves_beside_a_manifest_does_not_keep_the_trash(
    storage: MemoryStorage, clock: Clock
) -> None:
    maintain(storage, KEEPING, run="run")
    cut = f"{FOLDER}/run/manifest/.0-0.page-000002.jsonl.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp"
    storage.write(cut, [b'{"path'])
    clock.now += 7 * DAY - 1
    maintain(storage, TIGHT)
    assert cut in storage.files
    clock.now += 1
    maintain(storage, TIGHT)
    assert trash(storage) == []


def test_pages_of_a_second_attempt_follow_those_of_the_first(
    storage: MemoryStorage, clock: Clock
) -> None:
    """What was noted twice went as the later page says."""
    maintain(storage, KEEPING.override(max_deletes_per_run=4), run="run")
    clock.now += 1
    maintain(storage, KEEPING, run="run")
    pages = [path for path in trash(storage) if "/manifest/" in path]
    assert pages == [f"{FOLDER}/run/manifest/0-0.page-00000{number}.jsonl" for number in (1, 2)]
    found = contents(storage, "run")
    order = [one.name for one in found.newest_first()]
    assert order == [f"{version}.delta{side}" for version in range(5, 0, -1)
                     for side in ("", ".crc")]  # fmt: skip
    assert all(note.world for note in found.notes.values())


def test_a_dry_run_empties_nothing(storage: MemoryStorage, clock: Clock) -> None:
    maintain(storage, KEEPING)
    clock.now += 8 * DAY
    before = storage.files
    maintain(storage, TIGHT, dry_run=True)
    assert storage.files == before


def test_damage_keeps_the_trash(storage: MemoryStorage, clock: Clock) -> None:
    maintain(storage, KEEPING)
    before = trash(storage)
    clock.now += 8 * DAY
    lost = {path: storage.read(f"state/0/0/{path}") for path in ("9.delta", "10.snapshot")}
    for path in lost:
        storage.delete(f"state/0/0/{path}")
    assert maintain(storage, TIGHT).exit_code == 3
    for sound in (False, True):  # files may have been lost since the tasks ended
        end_run(storage, Holder("some run"), sound=sound)
        assert trash(storage) == before
        clock.now += QUIET
    for path, content in lost.items():
        storage.write(f"state/0/0/{path}", [content])
    end_run(storage, Holder("some run"), sound=True)
    assert trash(storage) == []


def test_a_manifest_goes_after_all_its_files(storage: MemoryStorage, clock: Clock) -> None:
    maintain(storage, KEEPING, run="run")
    clock.now += 8 * DAY

    class Watched(MemoryStorage):
        def delete_all(self, paths, *, before=None):  # type: ignore[no-untyped-def]  # noqa: ARG002
            # As a storage that deletes many at once: in any order, and the first is refused.
            for path in list(paths)[1:]:
                self.delete(path)
            raise StorageError(paths[0], "Access Denied")

    watched = Watched(storage.files, clock=clock)
    assert maintain(watched, TIGHT).exit_code == 5
    assert f"{FOLDER}/run/manifest/0-0.page-000001.jsonl" in watched.files
    rested = MemoryStorage(watched.files, clock=clock)
    assert set(expired_trash(rested, clock.now).runs) == set(trashed_runs(rested)) != set()


def test_a_manifest_that_cannot_be_read_keeps_its_run(storage: MemoryStorage, clock: Clock) -> None:
    maintain(storage, KEEPING, run="run")
    clock.now += 8 * DAY
    for content in (b"", b"{\n", b'{"path": "x"}\n', b'{"until": "soon"}\n', b"[]\n"):
        storage.write(f"{FOLDER}/run/manifest/0-0.page-000001.jsonl", [content], overwrite=True)
        assert not expired_trash(storage, clock.now)
    assert undo(storage, "run").files == 10  # the files themselves tell where they were


# -- the runs


def test_runs_tell_what_each_did_and_whether_it_can_be_undone(
    storage: MemoryStorage, clock: Clock
) -> None:
    maintain(storage, KEEPING, run="first")
    clock.now += 100
    storage.write("state/0/0/11.delta", [delta_bytes(changes(11))])
    storage.write("commits/10", [COMMIT])
    storage.write("offsets/10", [storage.read("offsets/9")])
    maintain(storage, TIGHT, run="second", request=Request(force_snapshot=True))
    second, first = list_runs(storage)
    assert (first.run, first.in_trash, first.files_deleted) == ("first", True, 10)
    assert (second.run, second.in_trash) == ("second", False)
    assert first.started < second.started


def test_of_many_runs_the_newest_are_read(storage: MemoryStorage, clock: Clock) -> None:
    for number in range(4):
        clock.now += 10
        maintain(storage, KEEPING, run=f"run-{number}", request=Request(force_snapshot=True))
        batch = 10 + number
        storage.write(f"commits/{batch}", [COMMIT])
        storage.write(f"offsets/{batch}", [storage.read("offsets/9")])
        storage.write(f"state/0/0/{batch + 1}.delta", [delta_bytes(changes(batch + 1))])
    whole = list_runs(storage)
    assert [one.run for one in whole] == ["run-3", "run-2", "run-1", "run-0"]
    assert list_runs(storage, most=2) == whole[:2]
    assert list_runs(storage, most=9) == whole


def test_a_run_that_was_killed_is_listed_by_its_trash(clock: Clock) -> None:
    crashing = CrashingStorage(neglected(clock).files, at=25, after=False, clock=clock)
    with pytest.raises(Crash):
        maintain(crashing, KEEPING, run="killed")
    after: Storage = MemoryStorage(crashing.files, clock=clock)
    (run,) = list_runs(after)
    assert (run.run, run.in_trash, run.started, run.exit_code) == ("killed", True, clock.now, 1)
    assert set(trashed_runs(after)) == {"killed"}


def test_runs_tell_which_were_undone_when_and_by_which_run(
    storage: MemoryStorage, clock: Clock
) -> None:
    storage.write("state/0/0/.10.snapshot.crc", [b"crc\0\0\0\2\0abcd"])
    clock.now += 2 * DAY
    maintain(storage, KEEPING, run=AIRFLOW)
    clock.now += 100
    done = undo(storage, AIRFLOW)
    assert (done.files, len(done.left)) == (10, 1)
    undone, run = list_runs(storage)
    assert (undone.run, undone.undo_of, undone.exit_code) == (done.undo, run.run, 3)
    assert (undone.files_restored, undone.bytes_restored) == (10, done.bytes)
    assert (undone.files_deleted, undone.tasks, undone.undone) == (0, 1, ())
    assert [(one.run, one.time, one.files, one.left) for one in run.undone] == [
        (done.undo, clock.now, 10, 1)
    ]
    assert (run.undo_of, run.in_trash, run.files_deleted) == (None, True, 11)
    assert undo(storage, AIRFLOW).files == 0
    assert list_runs(storage) == (undone, run)  # what changes nothing is no run


def test_notes_of_earlier_builds_are_of_no_undo(storage: MemoryStorage) -> None:
    maintain(storage, KEEPING, run="run")
    path = "_statemaint/runs/run/all.json"
    note = json.loads(storage.read(path))
    new = ("undo_of", "files_restored", "bytes_restored", "files_left")
    old = {key: note[key] for key in note if key not in new}
    assert len(old) == len(note) - 4
    storage.write(path, [json.dumps(old).encode()], overwrite=True)
    (run,) = list_runs(storage)
    assert (run.undo_of, run.files_restored, run.undone) == (None, 0, ())


def test_a_run_that_was_killed_and_undone_says_so(clock: Clock) -> None:
    crashing = CrashingStorage(neglected(clock).files, at=23, after=False, clock=clock)
    with pytest.raises(Crash):
        maintain(crashing, KEEPING, run="killed")
    after = survived(crashing, Clock(clock.now + 90))
    path = next(path for path in trash(after) if path.endswith(".delta"))
    after.write(path.removeprefix(f"{FOLDER}/killed/"), [b"another"])
    done = undo(after, "killed")
    assert done.left
    undone, killed = list_runs(after)
    assert (killed.run, killed.in_trash, killed.exit_code) == ("killed", True, 1)
    assert [one.run for one in killed.undone] == [undone.run] == [done.undo]


def test_an_undo_that_was_killed_is_among_the_runs(storage: MemoryStorage, clock: Clock) -> None:
    maintain(storage, KEEPING, run="run")
    crashing = CrashingStorage({}, at=8, after=False, clock=clock)
    crashing._files = dict(storage._files)
    with pytest.raises(Crash):
        undo(crashing, "run")
    after = survived(crashing, Clock(clock.now + 90))
    killed, run = sorted(list_runs(after), key=lambda one: one.run)
    assert (killed.undo_of, killed.exit_code, killed.files_restored) == ("run", 1, 0)
    assert [(one.run, one.files) for one in run.undone] == [(killed.run, 0)]
    again = undo(after, "run")
    (run,) = (one for one in list_runs(after) if one.run == "run")
    assert [one.run for one in run.undone] == [killed.run, again.undo]


def test_a_refused_undo_is_no_run(storage: MemoryStorage) -> None:
    maintain(storage, KEEPING, run="run")
    with pytest.raises(ConfigError):
        undo(storage, "another")
    assert [one.run for one in list_runs(storage)] == ["run"]


def test_no_store_name_leaves_the_folder_of_runs(storage: MemoryStorage) -> None:
    before = set(storage.files)
    maintain(storage, TIGHT, run="run", request=Request(stores=frozenset({"default", "../../x"})))
    added = {path.rpartition("/")[0] for path in storage.files.keys() - before}
    assert "_statemaint/runs/run" in added
    assert all(".." not in folder.split("/") for folder in added)
