"""Maintenance stands still while a rollback is unfinished: logs and state are of two times."""

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.errors import DamagedError, StatemaintError
from statemaint.maintain import maintain, undo
from statemaint.maintain.bundles import bundles, weights
from statemaint.maintain.run import reserve
from statemaint.maintain.work import WorkOrder, maintain_part, prepare
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.records.claims import Holder
from statemaint.recover import plan_rollback, rollback
from statemaint.report.run import Report
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import (
    COMMIT,
    delta_bytes,
    offsets_bytes,
    snapshot_bytes,
    state_at,
    write_checkpoint,
)
from tests.support.faults import Crash, CrashingStorage, HookedStorage, survived

DAY = 86_400.0
NEVER = 1_000_000
EAGER = Policy(min_deltas_for_snapshot=1, min_batches_to_retain=1, grace=0, orphan_age=0)


@pytest.fixture
def storage() -> MemoryStorage:
    """Batches 16 to 24 are in the log of two partitions; version 25 has a snapshot in one."""
    found = write_checkpoint(MemoryStorage())
    found.write("state/0/0/25.snapshot", [snapshot_bytes(state_at(25))])
    return found


def killed(
    storage: MemoryStorage, at: int, batch: int = 22, *, copies: bool = False
) -> MemoryStorage | None:
    """Returns what a rollback leaves that is killed after a change; `None` if it ends before it."""
    crashing = CrashingStorage(dict(storage.files), at=at, after=True, copies=copies)
    try:
        rollback(crashing, batch, trash_for=DAY)
    except Crash:
        return survived(crashing, lambda: 1e6)
    return None


def all_killed(storage: MemoryStorage, *, copies: bool = False) -> Iterator[MemoryStorage]:
    at = 0
    while left := killed(storage, at, copies=copies):
        yield left
        at += 1


def is_between(files: MemoryStorage, of_logs: set[str]) -> bool:
    """Returns whether some state is in the trash, and some of the logs that go is not."""
    moved = [path.split("/", 3)[3] for path in files.files if path.startswith("_statemaint/trash")]
    return any(path.startswith("state/") for path in moved) and bool(of_logs & files.files.keys())


def in_trash(files: MemoryStorage, run: str, path: str) -> bool:
    return f"_statemaint/trash/{run}/{path}" in files.files


def reported(report: Report) -> list[str]:
    codes = (FindingCode.UNFINISHED_ROLLBACK,)
    return [one.detail for one in report.findings if one.code in codes]


def the_run(files: MemoryStorage) -> str:
    (run,) = {one.split("/")[2] for one in files.files if one.startswith("_statemaint/trash")}
    return run


def half_done(storage: MemoryStorage) -> MemoryStorage:
    """Returns the files of a rollback that was killed after it had moved the snapshot."""
    for found in all_killed(storage):
        if "state/0/0/25.snapshot" not in found.files:
            return found
    raise AssertionError


@pytest.mark.parametrize("copies", [False, True])
def test_killed_anywhere_between_state_and_logs_it_halts_everything(
    storage: MemoryStorage, *, copies: bool
) -> None:
    removes = [one.path for one in plan_rollback(storage, 22).removes]
    of_logs = {one for one in removes if one.startswith(("commits/", "offsets/"))}
    between = 0
    for found in all_killed(storage, copies=copies):
        before, in_between = dict(found.files), is_between(found, of_logs)
        report = maintain(found, EAGER)
        assert bool(reported(report)) is in_between, sorted(before)
        if reported(report):
            between += 1
            assert (report.exit_code, found.files, report.plan.actions) == (3, before, ())
    assert between >= len(removes) - 2


def test_killed_anywhere_no_version_loads_from_a_change_of_another_time(
    storage: MemoryStorage,
) -> None:
    """The snapshot is right, and hides a change that a batch before a rewind has left."""
    storage.write("state/0/0/25.delta", [delta_bytes([(b"other", b"time")])], overwrite=True)
    before, loaded = digest_stores(storage, version=25), 0
    for found in all_killed(storage):
        with suppress(StatemaintError):
            assert digest_stores(found, version=25) == before
            loaded += 1
    assert loaded


def test_the_finding_of_an_unfinished_rollback_names_the_run_and_the_two_ways_out(
    storage: MemoryStorage,
) -> None:
    found = half_done(storage)
    (detail,) = reported(maintain(found, EAGER))
    assert detail == (
        f"the rollback to batch 22 (run {the_run(found)}) was interrupted, or is still at work: "
        "it has moved 3 files of the state to the trash, and the logs have the batches above. Run "
        "`statemaint rollback --to-batch 22` again, or `statemaint undo` of that run; nothing is "
        "touched before"
    )


def test_a_plan_shows_the_same(storage: MemoryStorage) -> None:
    found = half_done(storage)
    plan = plan_checkpoint(found, EAGER)[1]
    assert plan.halted
    assert FindingCode.UNFINISHED_ROLLBACK in {one.code for one in plan.all_findings}


def test_neither_doctor_nor_verify_calls_what_is_left_healthy(storage: MemoryStorage) -> None:
    found = half_done(storage)
    diagnosis = doctor(found)
    assert diagnosis.counts[FindingCode.UNFINISHED_ROLLBACK] == 1
    assert diagnosis.next[0].startswith("run the rollback again, or `statemaint undo` of it")
    assert not verify(found).healthy
    rollback(found, 22, trash_for=DAY)
    assert not doctor(found).counts
    assert verify(found).healthy


def test_the_tasks_of_a_run_that_was_planned_before_it_began_touch_nothing(
    storage: MemoryStorage,
) -> None:
    prepared = prepare(storage, EAGER)
    found = half_done(storage)
    holder = Holder("of several tasks")
    reserve(found, holder)
    parts = bundles(weights(prepared.plan, {}), target=25, most=8, holder=holder)
    for part in parts:
        before = dict(found.files)
        order = WorkOrder("q", EAGER, "one", parts, handover=prepared.handover.to_json())
        report = maintain_part(found, order, part)
        assert reported(report)
        assert (report.exit_code, found.files) == (3, before)
    assert {one for part in parts for one in part.partitions} == {0, 1}


def test_its_trash_outlives_its_time(storage: MemoryStorage) -> None:
    found = half_done(storage)
    much_later = survived(found, lambda: 1e6 + 2 * DAY)
    assert maintain(much_later, EAGER).exit_code == 3
    assert in_trash(much_later, the_run(found), "state/0/0/25.snapshot")


def test_once_it_was_run_again_maintenance_continues(storage: MemoryStorage) -> None:
    found = half_done(storage)
    rollback(found, 22, trash_for=DAY)
    report = maintain(found, EAGER)
    assert (reported(report), report.exit_code) == ([], 0)
    assert report.snapshots_written > 0


def test_once_it_was_undone_maintenance_continues(storage: MemoryStorage) -> None:
    found = half_done(storage)
    undo(found, the_run(found))
    report = maintain(found, EAGER)
    assert (reported(report), report.exit_code) == ([], 0)


def test_an_undo_that_is_killed_leaves_it_unfinished(storage: MemoryStorage) -> None:
    """In a bucket the entries that an undo has restored have new times; their bytes count."""
    bucket = CrashingStorage({}, at=NEVER, after=True, clock=lambda: 1e6, copies=True)
    bucket._files = dict(storage._files)
    done = rollback(bucket, 22, trash_for=DAY)
    of_logs = {one.path for one in done.removed if one.path.startswith(("commits/", "offsets/"))}
    at = between = 0
    while True:
        crashing = CrashingStorage({}, at=at, after=True, clock=lambda: 1e6 + 1000, copies=True)
        crashing._files = dict(bucket._files)
        try:
            undo(crashing, done.run)
            break
        except Crash:
            found = survived(crashing, lambda: 2e6)
        at += 1
        in_between = is_between(found, of_logs)
        assert bool(reported(maintain(found, EAGER))) is in_between, at
        between += in_between
    assert between > 2


def test_a_rollback_that_ended_is_no_reason(storage: MemoryStorage) -> None:
    rollback(storage, 22, trash_for=DAY)
    assert reported(maintain(storage, EAGER)) == []


@pytest.mark.parametrize("path", ["offsets/25", "commits/25"])
def test_a_rollback_after_which_the_query_has_gone_on_halts_nothing(
    storage: MemoryStorage, path: str
) -> None:
    """The query has loaded what there was: from now on that is its state."""
    found = half_done(storage)
    found.write(path, [COMMIT if path.startswith("commits") else offsets_bytes()])
    assert reported(maintain(found, EAGER)) == []


def test_a_rollback_overtaken_by_one_to_an_earlier_batch_halts_nothing(
    storage: MemoryStorage,
) -> None:
    found = half_done(storage)
    rollback(found, 21, trash_for=DAY)
    assert reported(maintain(found, EAGER)) == []


def test_a_rollback_whose_batches_were_taken_back_and_ran_again_halts_nothing(
    storage: MemoryStorage,
) -> None:
    """The same input gives the same log entries; that an undo restored them is in the ledger."""
    found = half_done(storage)
    for path in ("commits/23", "commits/24", "offsets/24"):
        found._files[path] = (found.files[path], 2e6)
    assert reported(maintain(found, EAGER)) == []


@pytest.mark.parametrize(
    ("of", "content", "unfinished"),
    [("it", COMMIT, True), ("another", COMMIT, False), ("it", COMMIT + b" ", False)],
)
def test_entries_with_new_times_count_if_an_undo_of_it_has_restored_the_same_bytes(
    storage: MemoryStorage, of: str, content: bytes, *, unfinished: bool
) -> None:
    found = half_done(storage)
    run = the_run(found) if of == "it" else of
    line = json.dumps({"action": "restore", "path": "commits/24", "of": run}).encode()
    found.write("_statemaint/ledger/undo/page.jsonl", [line + b"\n[1]\n{cut"])
    found._files["commits/24"] = (content, 2e6)
    assert bool(reported(maintain(found, EAGER))) is unfinished


@pytest.mark.parametrize(("copies", "unfinished"), [(False, False), (True, True)])
def test_where_moves_keep_times_an_entry_is_the_querys_while_the_undo_of_it_has_not_begun(
    storage: MemoryStorage, *, copies: bool, unfinished: bool
) -> None:
    """The undo has announced it and was killed; the batch ran again, with the same entry.

    In a bucket it may as well be a copy of the one in the trash, which was not deleted yet.
    """
    crashing = CrashingStorage({}, at=NEVER, after=True, clock=lambda: 1e6, copies=copies)
    crashing._files = dict(storage._files)
    run = rollback(crashing, 22, trash_for=DAY).run
    line = json.dumps({"action": "restore", "path": "commits/24", "of": run}).encode()
    crashing.write("_statemaint/ledger/undo/page.jsonl", [line + b"\n"])
    crashing._files["commits/24"] = (COMMIT, 2e6)
    assert in_trash(crashing, run, "commits/24")
    assert bool(reported(maintain(crashing, EAGER))) is unfinished


def test_a_rollback_whose_state_was_put_back_by_hand_halts_nothing(storage: MemoryStorage) -> None:
    found = half_done(storage)
    trashed = [path for path in found.files if f"trash/{the_run(found)}/state/" in path]
    for path in trashed:
        found._files[path.split("/", 3)[3]] = found._files.pop(path)
    assert len(trashed) == 3
    assert reported(maintain(found, EAGER)) == []


def test_one_that_was_undone_is_not_named_beside_another(storage: MemoryStorage) -> None:
    undo(storage, rollback(storage, 20, trash_for=DAY).run)
    (detail,) = reported(maintain(half_done(storage), EAGER))
    assert "to batch 22" in detail


def test_a_rollback_to_a_batch_that_has_lost_state_is_refused(storage: MemoryStorage) -> None:
    """What is in the trash may be all that shows that the log of that batch was edited."""
    found = half_done(storage)
    with pytest.raises(DamagedError) as refused:
        rollback(found, 23, trash_for=DAY)
    start = f"cannot roll back to batch 23: the rollback to batch 22 (run {the_run(found)}) was"
    assert start in str(refused.value)
    assert refused.value.code == "UNFINISHED_ROLLBACK"
    undo(found, the_run(found))
    rollback(found, 23, trash_for=DAY)


def test_a_rollback_whose_commits_are_newer_than_it_halts_nothing(storage: MemoryStorage) -> None:
    done = rollback(storage, 22, trash_for=DAY)
    for path in (one.path for one in done.removed):
        if path.startswith("commits/"):
            storage._files[path] = (COMMIT, 5.0)
    assert reported(maintain(storage, EAGER)) == []


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"[]",
        b"{}",
        b'{"logs": 1}',
        b'{"logs": {"version": "x", "left": [], "removed": []}}',
        b'{"logs": {"version": 23, "left": [], "removed": [["commits/24"]]}}',
        b'{"logs": {"version": 23, "left": [[]], "removed": []}}',
        b'{"logs": {"version": 23, "left": [[5]], "removed": [[5, [], {}, null]]}}',
        b'{"logs": {"version": Infinity, "left": [], "removed": []}}',
        b'{"logs": {"version": 1e400, "left": [], "removed": []}}',
        b"[" * 100_000,
        b'{"logs": {"version": 26, "left": [], "removed": []}' + b" " * (1 << 23) + b"}",
    ],
    ids=lambda first: repr(first[:70]),
)
def test_a_manifest_that_cannot_be_read_halts_everything_too(
    storage: MemoryStorage, first: bytes
) -> None:
    found = half_done(storage)
    manifest = f"_statemaint/trash/{the_run(found)}/manifest/rollback.jsonl"
    found._files[manifest] = (first + b"\n", 0.0)
    (detail,) = reported(maintain(found, EAGER))
    assert detail.startswith(f"{manifest} cannot be read: whether that rollback has ended is")
    with pytest.raises(DamagedError, match="cannot roll back to batch 20: _statemaint/trash"):
        rollback(found, 20, trash_for=DAY)
    for path in [one for one in found.files if one.startswith("_statemaint/trash/")]:
        del found._files[path]
    assert reported(maintain(found, EAGER)) == []


def test_entries_that_were_noted_without_a_checksum_are_known_by_their_times(
    storage: MemoryStorage,
) -> None:
    found = half_done(storage)
    manifest = f"_statemaint/trash/{the_run(found)}/manifest/rollback.jsonl"
    first, *rest = found.files[manifest].splitlines()
    fields = json.loads(first)
    fields["logs"]["removed"] = [row[:3] for row in fields["logs"]["removed"]]
    found._files[manifest] = (b"\n".join([json.dumps(fields).encode(), *rest]) + b"\n", 0.0)
    (detail,) = reported(maintain(found, EAGER))
    assert "to batch 22" in detail


def test_one_of_an_earlier_build_did_not_note_the_logs(storage: MemoryStorage) -> None:
    found = half_done(storage)
    manifest = f"_statemaint/trash/{the_run(found)}/manifest/rollback.jsonl"
    found._files[manifest] = (b'{"path": "state/0/0/25.snapshot", "until": 1}\n', 0.0)
    assert reported(maintain(found, EAGER, dry_run=True)) == []


def test_metadata_of_operators_that_it_moves_does_not_hide_it(storage: MemoryStorage) -> None:
    found = half_done(storage)
    manifest = f"_statemaint/trash/{the_run(found)}/manifest/rollback.jsonl"
    first, *rest = found.files[manifest].splitlines()
    fields = json.loads(first)
    fields["logs"]["removed"].append(["state/0/_metadata/v2/24", 1, 0.0, 1])
    found._files[manifest] = (b"\n".join([json.dumps(fields).encode(), *rest]) + b"\n", 0.0)
    assert reported(maintain(found, EAGER))


def test_without_any_rollback_the_trash_is_not_listed_for_it(storage: MemoryStorage) -> None:
    watched = HookedStorage(storage)
    plan_checkpoint(watched, EAGER)
    assert "_statemaint/ledger/rollback" in watched.paths("list")
    assert "_statemaint/trash" not in watched.paths("list")
