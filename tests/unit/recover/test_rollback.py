"""Going back to a batch: what goes, in which order, when not at all, and the way back."""

import re
from collections.abc import Callable
from functools import partial

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.codec.rocksdb.snapshot_zip import parse_metadata
from statemaint.errors import ConfigError, DamagedError, LeaseHeldError, Superseded
from statemaint.execute.lease import acquire, leased
from statemaint.listing import Entry
from statemaint.maintain import list_runs, maintain, undo
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.plan.recovery.recovery_plan import Remove, RemoveReason, Rewind
from statemaint.plan.recovery.rollback import rolled_back
from statemaint.planning import scan_checkpoint
from statemaint.records.claims import Holder
from statemaint.records.pins import FOLDER, end_pin, write_pin
from statemaint.recover import plan_rollback, rollback
from statemaint.recover.carry_out import log_entries, rewind_of
from statemaint.report.to_json import recovery_fingerprint
from statemaint.storage import MemoryStorage, Without
from tests.checkpoints.archive import contents
from tests.support.checkpoints import (
    COMMIT,
    delta_bytes,
    names,
    of_the_query,
    offsets_bytes,
    snapshot_bytes,
    state_at,
    store,
    write_checkpoint,
)
from tests.support.faults import Clock, HookedStorage, PausingStorage, each_crash, on
from tests.support.ledgers import ledger_lines
from tests.support.marks import long

MONTH = 30 * 86_400.0
POLICY = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)


@pytest.fixture
def storage() -> MemoryStorage:
    """Batches 16 to 24 are in the log of two partitions; version 25 has a snapshot in one."""
    found = write_checkpoint(MemoryStorage())
    found.write("state/0/0/25.snapshot", [snapshot_bytes(state_at(25))])
    found.write("commits/.24.crc", [b"crc"])
    return found


# -- what goes


def test_everything_above_goes_state_first_and_then_the_logs_from_the_top(
    storage: MemoryStorage,
) -> None:
    plan = plan_rollback(storage, 22)
    assert [one.path for one in plan.removes] == [
        "state/0/0/25.delta",
        "state/0/1/25.delta",
        "state/0/0/25.snapshot",
        "state/0/0/24.delta",
        "state/0/1/24.delta",
        "commits/.24.crc",
        "commits/24",
        "offsets/24",
        "commits/23",
    ]
    assert {one.reason for one in plan.removes} == {RemoveReason.ROLLED_BACK}


def test_the_offsets_of_the_next_batch_stay_so_that_it_reads_the_same(
    storage: MemoryStorage,
) -> None:
    assert "offsets/23" not in [one.path for one in plan_rollback(storage, 22).removes]
    storage.write("offsets/23", [b"v1\n{"], overwrite=True)
    assert "offsets/23" in [one.path for one in plan_rollback(storage, 22).removes]


OF_22, OF_24 = (b"%b[22]" % offsets_bytes()[:-1], b"%b[24]\n[9]" % offsets_bytes()[:-1])
SOURCES = (("0", "[22]", "[24]"), ("1", "-", "[9]"))


@pytest.mark.parametrize(
    ("batch", "lost", "removed", "rewind"),
    [
        (22, "", "", Rewind(24, (7.0, 5.0), SOURCES, repeated=True)),
        (22, "", "offsets/23", Rewind(24, (7.0, 5.0), SOURCES)),
        (22, "offsets/24", "", Rewind(24, (7.0, 5.0), repeated=True)),
        (24, "", "", Rewind(24, (7.0, 7.0))),
    ],
)
def test_a_rewind_names_its_commits_and_offsets_and_says_if_the_next_batch_reads_the_same(
    batch: int, lost: str, removed: str, rewind: Rewind
) -> None:
    clock = Clock(5.0)
    storage = write_checkpoint(MemoryStorage(clock=clock))
    clock.now = 7.0
    for path, content in (("commits/24", COMMIT), ("offsets/22", OF_22), ("offsets/24", OF_24)):
        storage.write(path, [content], overwrite=True)
    storage.delete(lost)
    removes = [Remove(storage.stat(removed), RemoveReason.ROLLED_BACK)] if removed else []
    checkpoint, entries = scan_checkpoint(storage), log_entries(storage)
    assert rewind_of(storage, checkpoint, entries, batch, removes) == rewind


def test_the_newest_batch_leaves_only_what_is_not_committed(storage: MemoryStorage) -> None:
    assert plan_rollback(storage, 24).removes == ()
    storage.write("offsets/25", [offsets_bytes()])
    storage.write("state/0/1/26.delta", [delta_bytes([])])
    assert [one.path for one in plan_rollback(storage, 24).removes] == ["state/0/1/26.delta"]
    storage.write("offsets/25", [b""], overwrite=True)
    assert names(one.path for one in plan_rollback(storage, 24).removes) == ["26.delta", "25"]


def test_metadata_of_operators_goes_above_the_next_batch_and_side_files_with_their_files() -> None:
    logs = [
        Entry(f"{folder}/{name}", 1, 0.0)
        for folder in ("state/0/_metadata/v2", "commits", "offsets")
        for name in ("5", ".5.crc", "6", ".6.crc", "7", ".7.crc", "other", ".6.tmp")
    ]
    stores = [store("5d 6d 7d 7s 7c 7k 6c 8t x:odd")]
    found = rolled_back(stores, logs, 5, keep_next=True)
    assert names(one.path for one in found) == [
        ".7.delta.crc", "7.delta", ".7.snapshot.crc", "7.snapshot",
        ".7.crc", "7",  # metadata of the operator
        ".7.crc", "7", ".7.crc", "7", ".6.crc", "6",
    ]  # fmt: skip
    assert [one.path.partition("/")[0] for one in found[-6:]] == [
        "commits", "commits", "offsets", "offsets", "commits", "commits",
    ]  # fmt: skip
    assert len(rolled_back(stores, logs, 5, keep_next=False)) == len(found) + 2


@pytest.mark.parametrize("archive", ["4.3.0", long("rocks-4.3.0")])
def test_each_kind_of_query_goes_back_to_each_batch_that_loads(archive: str) -> None:
    """After it the batch is the newest, its state is as it was, and all is sound."""
    for kind, files in contents(archive).items():
        batches = doctor(MemoryStorage(files)).loadable
        for batch in (batches[0], batches[len(batches) // 2]):
            storage = MemoryStorage(dict(files))
            before = digest_stores(storage, version=batch + 1)
            rollback(storage, batch, trash_for=MONTH)
            found = verify(storage, deep=True)
            assert (found.healthy, found.checkpoint.committed) == (True, batch), (kind, batch)
            assert digest_stores(storage) == before
            assert max_version(storage) <= batch + 1


def max_version(storage: MemoryStorage) -> int:
    found = (re.search(r"^state/.*/(\d+)[^/]*\.(delta|snapshot|changelog|zip)", one)
             for one in of_the_query(storage))  # fmt: skip
    return max(int(one[1]) for one in found if one)


@pytest.mark.parametrize("kind", ["rocks-aggregation-maintained", "rocks-timed-ids-maintained"])
def test_tables_that_only_zips_above_refer_to_go_behind_them(kind: str) -> None:
    """Else they would be orphans, and an undo in a week would bring back zips without tables."""
    storage = MemoryStorage(dict(contents("rocks-maintained-4.3.0")[kind]))
    before = of_the_query(storage)
    done = rollback(storage, 9, trash_for=MONTH)
    gone = [one.path for one in done.removed if one.path.startswith("state/0/0/")]
    kinds = [path.rpartition(".")[2] for path in gone]
    assert kinds[: kinds.index("sst")].count("zip") == kinds.count("zip") > 0
    assert {*kinds[kinds.index("sst") :]} == {"sst"}
    tables = {path for path in before if path.endswith(".sst")}
    stay = {path for path in of_the_query(storage) if path.endswith(".zip")}
    used = {f"{path.rpartition('/')[0]}/SSTs/{one.stored}"
            for path in stay for one in parse_metadata(before[path]).ssts}  # fmt: skip
    assert used <= {path for path in of_the_query(storage) if path.endswith(".sst")}
    assert maintain(storage, POLICY).exit_code == 0
    undo(storage, done.run)
    assert tables <= of_the_query(storage).keys()
    assert digest_stores(storage, version=13)


def test_no_table_goes_where_a_zip_that_stays_cannot_be_read() -> None:
    files = dict(contents("rocks-maintained-4.3.0")["rocks-aggregation-maintained"])
    storage = MemoryStorage(files)
    assert any(one.path.endswith(".sst") for one in plan_rollback(storage, 9).removes)
    storage.write("state/0/0/8.zip", [b"none"], overwrite=True)
    mine = [one.path for one in plan_rollback(storage, 9).removes if "/0/0/" in one.path]
    assert not any(path.endswith(".sst") for path in mine)


# -- when not


def test_a_batch_that_is_not_committed_is_refused_with_those_that_are(
    storage: MemoryStorage,
) -> None:
    for batch in (15, 25):
        with pytest.raises(ConfigError) as error:
            plan_rollback(storage, batch)
        assert str(error.value) == (
            f"memory:: batch {batch} is not committed, the commit log has batches 16 to 24"
        )
    empty = MemoryStorage({"offsets/0": offsets_bytes()})
    with pytest.raises(ConfigError, match="the commit log is empty"):
        plan_rollback(empty, 0)


def test_a_batch_below_a_pinned_one_is_refused_until_the_pin_ends(storage: MemoryStorage) -> None:
    pin = write_pin(storage, 23, by="test", seconds=MONTH)
    before = dict(storage.files)
    with pytest.raises(ConfigError, match=f"to batch 22: {pin.path} pins batch 23; .*{pin.id}"):
        rollback(storage, 22, trash_for=MONTH)
    assert storage.files == before
    rollback(storage, 23, trash_for=MONTH)
    end_pin(storage, pin)
    rollback(storage, 22, trash_for=MONTH)
    assert "commits/23" not in storage.files


def test_a_pin_above_the_newest_batch_refuses_nothing(storage: MemoryStorage) -> None:
    write_pin(storage, 25, by="test", seconds=MONTH)
    rollback(storage, 22, trash_for=MONTH)


def test_a_file_that_is_no_pin_refuses_every_rollback_that_removes_a_batch(
    storage: MemoryStorage,
) -> None:
    storage.write(f"{FOLDER}/notes.txt", [b"{"])
    with pytest.raises(ConfigError, match="pins every batch"):
        rollback(storage, 22, trash_for=MONTH)


def test_a_batch_pinned_after_the_plan_is_kept_by_the_rollback(clock: Clock) -> None:
    """It looks again once it holds the lease, before it moves anything."""
    storage = write_checkpoint(HookedStorage(clock=clock))

    def pin_with_the_lease(verb: str, path: str) -> None:
        if verb == "write" and path.startswith("_statemaint/lease/"):
            storage.before = lambda _verb, _path: None
            write_pin(storage, 23, by="test", seconds=MONTH)

    storage.before = pin_with_the_lease
    with pytest.raises(ConfigError, match="pins batch 23"):
        rollback(storage, 22, trash_for=MONTH)
    assert "commits/24" in storage.files
    assert not [one for one in storage.files if "/trash/" in one]


def test_a_batch_that_does_not_load_in_every_store_is_refused(storage: MemoryStorage) -> None:
    storage.delete("state/0/1/20.delta")
    before = dict(storage.files)
    with pytest.raises(DamagedError, match="cannot roll back to batch 21: state/0/1") as error:
        rollback(storage, 21, trash_for=MONTH)
    assert error.value.code == "BROKEN_CHAIN"
    assert storage.files == before
    assert plan_rollback(storage, 18).versions_checked == 2 * 3


def test_a_batch_whose_log_does_not_fit_a_checksum_is_refused(storage: MemoryStorage) -> None:
    """Spark does not read that checksum: a wrong file would load, and give wrong rows."""
    storage.write("state/0/1/.22.delta.crc", [hadoop(b"what was there before")])
    assert doctor(storage).restarts
    with pytest.raises(DamagedError, match=r"cannot roll back to batch 23: .*\.22\.delta\.crc"):
        plan_rollback(storage, 23)
    assert plan_rollback(storage, 20).actions


def test_a_batch_of_which_a_store_would_have_nothing_left_is_refused(
    storage: MemoryStorage,
) -> None:
    """Executors have cleaned up below a snapshot; without any file a store is not even listed."""
    storage.write("state/0/1/25.snapshot", [snapshot_bytes(state_at(25, 1))])
    for version in range(1, 25):
        storage.delete(f"state/0/1/{version}.delta")
    before = dict(storage.files)
    with pytest.raises(DamagedError, match="state/0/1 has no file of version 23 or below") as error:
        rollback(storage, 22, trash_for=MONTH)
    assert error.value.code == "BROKEN_CHAIN"
    assert storage.files == before


def test_rows_out_of_place_are_told_and_refuse_nothing() -> None:
    """They load, and an old fault of Spark may have put them there long ago."""
    storage = MemoryStorage(contents("4.3.0")["aggregation2"])
    newest = max(doctor(storage).loadable)
    for name in (f"{newest - 3}.delta", f".{newest - 3}.delta.crc"):
        one, other = f"state/0/0/{name}", f"state/0/1/{name}"
        content = storage.files[one]
        storage.write(one, [storage.files[other]], overwrite=True)
        storage.write(other, [content], overwrite=True)
    plan = plan_rollback(storage, newest - 2)
    assert {finding.code for finding in plan.findings if finding.damage} == {"WRONG_PARTITION"}
    assert plan_rollback(storage, newest - 5).findings == ()


def test_without_offsets_there_is_no_way_back(storage: MemoryStorage) -> None:
    for batch in range(16, 25):
        storage.delete(f"offsets/{batch}")
    found = doctor(storage)
    assert (found.restarts, found.goes_back_to) == (False, None)


def test_a_batch_without_offsets_beside_it_is_not_named(storage: MemoryStorage) -> None:
    """A restart behind 24 reads the offsets of 23 as well, one behind 22 those of 21."""
    for batch in (23, 21):
        storage.delete(f"offsets/{batch}")
    assert doctor(storage).goes_back_to == 20


def test_damage_above_does_not_hold_it_up(storage: MemoryStorage) -> None:
    storage.write("state/0/1/24.delta", [b"nothing"], overwrite=True)
    storage.write("commits/24", [b""], overwrite=True)
    storage.write("offsets/24", [b"v1"], overwrite=True)
    assert doctor(storage).restarts is False
    rollback(storage, 22, trash_for=MONTH)
    assert verify(storage, deep=True).findings == ()


def test_what_a_restart_needs_beside_the_state_must_be_there(storage: MemoryStorage) -> None:
    storage.write("offsets/23", [b""], overwrite=True)
    storage.delete("offsets/21")
    with pytest.raises(DamagedError, match="a restart would read offsets/21, which is missing"):
        plan_rollback(storage, 22)


def test_another_run_is_waited_for(storage: MemoryStorage) -> None:
    with leased(storage, Holder("other")), pytest.raises(LeaseHeldError):
        rollback(storage, 22, trash_for=MONTH)


def test_a_plan_that_was_looked_at_is_the_one_that_is_done(storage: MemoryStorage) -> None:
    looked = recovery_fingerprint(plan_rollback(storage, 22))
    storage.write("commits/25", [COMMIT])
    storage.write("offsets/25", [offsets_bytes()])
    before = of_the_query(storage)
    with pytest.raises(Superseded, match="the files of the plan have changed"):
        rollback(storage, 22, trash_for=MONTH, expected=looked)
    assert of_the_query(storage) == before


@pytest.mark.parametrize("other", [False, True])
def test_a_rollback_is_planned_again_if_another_run_may_have_worked_since(*, other: bool) -> None:
    storage = write_checkpoint(MemoryStorage(), last=9, batches=range(4, 9), partitions=1)
    acquire(storage, Holder("earlier")).release()

    def meanwhile() -> None:
        storage.write("offsets/9", [offsets_bytes()])
        storage.write("commits/9", [COMMIT])
        if other:
            acquire(storage, Holder("other")).release()

    live = HookedStorage(storage, before=on("write", "_statemaint/lease/*", meanwhile, once=True))
    if other:
        done = rollback(live, 6, trash_for=MONTH)
        assert {"commits/9", "commits/8"} <= {one.path for one in done.removed}
    else:
        with pytest.raises(Superseded, match="commits/9: changed since this was planned"):
            rollback(live, 6, trash_for=MONTH)


# -- a query that runs all the same


def pausing(files: dict[str, bytes], at: int, change: Callable[..., None]) -> PausingStorage:
    return PausingStorage(files, clock=lambda: 1e9, pauses={at: change})


def begin_a_batch(storage: MemoryStorage) -> None:
    storage.write("offsets/25", [offsets_bytes()])


def calls_of(storage: MemoryStorage) -> list[tuple[str, str]]:
    counted = pausing(dict(storage.files), -1, lambda _: None)
    rollback(counted, 22, trash_for=MONTH)
    return counted.calls


def test_a_query_that_begins_a_batch_in_time_loses_nothing(storage: MemoryStorage) -> None:
    calls = calls_of(storage)
    first = next(number for number, (verb, _) in enumerate(calls) if verb == "move")
    last_look = max(n for n, one in enumerate(calls[:first]) if one == ("list", "offsets"))
    live = pausing(dict(storage.files), last_look, begin_a_batch)
    with pytest.raises(Superseded, match="offsets/25: changed since this was planned; stop the"):
        rollback(live, 22, trash_for=MONTH)
    assert of_the_query(live).items() >= of_the_query(storage).items()


def test_one_that_begins_later_is_told_how_to_go_back(storage: MemoryStorage) -> None:
    calls = calls_of(storage)
    first = next(number for number, (verb, _) in enumerate(calls) if verb == "move")
    live = pausing(dict(storage.files), first + 1, begin_a_batch)
    with pytest.raises(Superseded, match=r"5 files are in the trash already, `statemaint undo` of"):
        rollback(live, 22, trash_for=MONTH)
    (run,) = (one.run for one in list_runs(live))
    undo(live, run)
    assert of_the_query(live).items() >= of_the_query(storage).items()


def test_a_file_that_was_replaced_stays(storage: MemoryStorage) -> None:
    calls = calls_of(storage)
    first = next(number for number, (verb, _) in enumerate(calls) if verb == "move")

    def replaced(beside: MemoryStorage) -> None:
        beside.write("state/0/1/25.delta", [b"another attempt"], overwrite=True)

    live = pausing(dict(storage.files), first, replaced)
    why = r"25\.delta: was replaced since this was planned; plan again\n1 file is in the trash "
    with pytest.raises(Superseded, match=f"{why}already, `statemaint undo` of run .* brings it ba"):
        rollback(live, 22, trash_for=MONTH)
    assert live.files["state/0/1/25.delta"] == b"another attempt"

    live = pausing(dict(storage.files), first, lambda beside: beside.delete("state/0/1/25.delta"))
    with pytest.raises(Superseded, match=r"25\.delta: existed when this was planned"):
        rollback(live, 22, trash_for=MONTH)


def clean_up(storage: MemoryStorage) -> None:
    """As an executor does for which version 25 has a snapshot."""
    storage.delete("state/0/0/23.delta")


@pytest.mark.parametrize(
    ("moved", "said"), [(0, "executors; plan"), (3, r"; plan again\n5 files are in")]
)
def test_what_executors_delete_meanwhile_of_the_version_gone_back_to_ends_it(
    storage: MemoryStorage, moved: int, said: str
) -> None:
    calls = calls_of(storage)
    moves = [number for number, (verb, _) in enumerate(calls) if verb == "move"]
    look = max(n for n, one in enumerate(calls[: moves[0]]) if one == ("list", "offsets"))
    live = pausing(dict(storage.files), moves[moved - 1] if moved else look, clean_up)
    why = "23.delta: version 23 is loaded from it, and it was deleted or replaced since .*"
    with pytest.raises(Superseded, match=why + said):
        rollback(live, 22, trash_for=MONTH)
    assert live.files.keys() >= {"commits/23", "commits/24"}
    for run in list_runs(live):
        undo(live, run.run)
    before = of_the_query(storage)
    del before["state/0/0/23.delta"]
    assert of_the_query(live) == before


# -- in the middle of it, and back


def test_each_state_in_between_loads_what_stays(storage: MemoryStorage) -> None:
    removes = [one.path for one in plan_rollback(storage, 20).removes]
    for count in range(len(removes) + 1):
        found = doctor(Without(storage, removes[:count]))
        assert {16, 17, 18, 19, 20} <= set(found.loadable), removes[:count]
        # Never the state of one time under the logs of another.
        newest = max(found.checkpoint.batches)
        assert found.restarts == (count == 0 or newest in found.loadable)


@pytest.mark.parametrize("after", [False, True])
def test_killed_anywhere_and_run_again_it_comes_to_the_same(
    storage: MemoryStorage, *, after: bool
) -> None:
    whole = MemoryStorage(dict(storage.files))
    rollback(whole, 21, trash_for=MONTH)
    number, act = 0, partial(rollback, batch=21, trash_for=MONTH)
    for number, again in each_crash(storage, Clock(1000), act, after=after):
        act(again)
        assert of_the_query(again) == of_the_query(whole), number
    assert number >= 2 * len(plan_rollback(storage, 21).removes)


def test_undo_brings_everything_back_byte_for_byte(storage: MemoryStorage) -> None:
    before = of_the_query(storage)
    done = rollback(storage, 20, trash_for=MONTH)
    assert of_the_query(storage) != before
    found = undo(storage, done.run)
    assert (found.files, found.left) == (len(done.removed), {})
    assert of_the_query(storage) == before


def test_nothing_comes_back_once_the_query_has_gone_on(storage: MemoryStorage) -> None:
    done = rollback(storage, 22, trash_for=MONTH)
    storage.write("state/0/0/24.delta", [delta_bytes([(b"another1", bytes(8))])])
    before = dict(storage.files)
    with pytest.raises(ConfigError) as error:
        undo(storage, done.run)
    assert (
        f"state/0/0/24.delta is another file by now: the query has continued since run {done.run}"
        in (str(error.value))
    )
    assert {path: one for path, one in storage.files.items() if "/lease/" not in path} == {
        path: one for path, one in before.items() if "/lease/" not in path
    }


def test_both_halves_of_one_that_was_killed_come_back_the_later_first(
    storage: MemoryStorage,
) -> None:
    """Alone, the first half is a snapshot above the log, which Spark would load."""
    before = of_the_query(storage)
    killed = each_crash(storage, Clock(1000), partial(rollback, batch=22, trash_for=MONTH))
    again = next(left for _, left in killed if "state/0/0/25.snapshot" not in left.files)
    (first,) = {path.split("/")[2] for path in again.files if path.startswith("_statemaint/trash")}
    second = rollback(again, 22, trash_for=MONTH).run
    with pytest.raises(ConfigError, match=f"commits/24 was removed by run {second}; undo that run"):
        undo(again, first)
    undo(again, second)
    undo(again, first)
    assert of_the_query(again) == before


def test_maintenance_after_it_keeps_what_is_in_the_trash(storage: MemoryStorage) -> None:
    before = of_the_query(storage)
    done = rollback(storage, 22, trash_for=MONTH)
    assert maintain(storage, POLICY, request=Request()).exit_code == 0
    trash = {path for path in storage.files if path.startswith(f"_statemaint/trash/{done.run}/")}
    assert len(trash) == len(done.removed) + 1
    kept = {path.removeprefix(f"_statemaint/trash/{done.run}/") for path in trash}
    assert {path: before[path] for path in kept if path in before}.keys() == {
        one.path for one in done.removed
    }


# -- what is noted


def test_a_rollback_is_in_the_ledger_and_among_the_runs(storage: MemoryStorage) -> None:
    done = rollback(storage, 22, trash_for=MONTH)
    lines = ledger_lines(storage, "rollback")
    assert [one["path"] for one in lines] == [one.path for one in done.removed]
    assert {(one["run"], one["action"], one["reason"]) for one in lines} == {
        (done.run, "remove", "rolled_back")
    }
    (run,) = list_runs(storage)
    assert (run.run, run.files_deleted, run.in_trash, run.exit_code) == (done.run, 9, True, 0)
    assert run.bytes_deleted == sum(one.entry.size for one in done.removed)


def test_where_nothing_lies_above_nothing_is_written(storage: MemoryStorage) -> None:
    before = dict(storage.files)
    done = rollback(storage, 24, trash_for=MONTH)
    assert done.run == ""
    assert repr(done).endswith(", nothing done, 0 files moved, 0 snapshots written)")
    assert storage.files == before
    plan_rollback(storage, 20)
    assert storage.files == before


@pytest.mark.parametrize("path", ["commits/20", "offsets/20"])
@pytest.mark.parametrize("content", [b"", b"v1", b"v9\n{}", b"\xff\xfe"])
def test_logs_that_cannot_be_read_are_refused_in_one_line(
    storage: MemoryStorage, path: str, content: bytes
) -> None:
    storage.write(path, [content], overwrite=True)
    with pytest.raises(DamagedError) as error:
        plan_rollback(storage, 20)
    assert path in str(error.value)
    assert "\n" not in str(error.value)
