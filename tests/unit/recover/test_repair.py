"""What can be repaired, on what proof; and what is left alone."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module

import google_crc32c
import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.codec.integrity import checksum_file
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.codec.rocksdb.snapshot_zip import parse_metadata
from statemaint.errors import LeaseHeldError, Superseded
from statemaint.execute.lease import leased
from statemaint.maintain import list_runs, maintain, undo
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, RemoveReason, RepairStep
from statemaint.plan.recovery.repair_steps import rebuilt
from statemaint.planning import scan_checkpoint
from statemaint.records.claims import Holder
from statemaint.records.runs import FOLDER as RUNS
from statemaint.recover import plan_repair, repair
from statemaint.report.to_json import recovery_fingerprint, recovery_json
from statemaint.storage import MemoryStorage, Without
from tests.checkpoints.archive import contents
from tests.matrix.test_damage import HDFS, IDS, ROCKS, cut, empty, flip, maintained, table, versions
from tests.support.checkpoints import delta_bytes, snapshot_bytes, state_at, write_checkpoint
from tests.support.faults import Clock, HookedStorage, each_crash
from tests.support.ledgers import ledger_lines
from tests.support.rocks import rocks_store
from tests.support.rocks_query import Habits, Query

MONTH = 30 * 86_400.0
TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
Spoil = Callable[[bytes], bytes]


@pytest.fixture
def storage() -> MemoryStorage:
    """Batches 16 to 24 are in the log of two partitions, whose chains begin with version 1."""
    return write_checkpoint(MemoryStorage())


def snapshot(storage: MemoryStorage, version: int, *, of: int | None = None) -> str:
    path = f"state/0/0/{version}.snapshot"
    storage.write(path, [snapshot_bytes(state_at(of or version))], overwrite=True)
    return path


def spoil(storage: MemoryStorage, path: str, change: Spoil = cut) -> bytes:
    bad = change(storage.files[path])
    storage.write(path, [bad], overwrite=True)
    return bad


def removed(plan: RecoveryPlan) -> list[tuple[str, str]]:
    return [(one.path, one.reason.value) for one in plan.actions if isinstance(one, Remove)]


def written(plan: RecoveryPlan) -> list[str]:
    return [one.path for one in plan.actions if not isinstance(one, Remove)]


# -- bad snapshots


@pytest.mark.parametrize("kind", [HDFS, ROCKS, IDS])
@pytest.mark.parametrize("change", [cut, empty, flip(10), flip(60)])
def test_the_newest_snapshot_is_made_anew_from_the_log(kind: str, change: Spoil) -> None:
    storage = MemoryStorage(dict(maintained(kind)))
    before = digest_stores(storage)
    path = versions(dict(storage.files), "(?:snapshot|zip)")[-1]
    bad = spoil(storage, path, change)
    if "CORRUPT_FILE" not in {one.code for one in verify(storage, deep=True).findings}:
        return  # a time in a zip, which nobody reads
    done = repair(storage, trash_for=MONTH)
    assert [one.action.path for one in done.written] == [path]
    assert digest_stores(storage) == before
    # The tables of a bad zip are nobody's now; maintenance deletes them when they are old enough.
    assert {one.code for one in verify(storage, deep=True).findings} <= {"ORPHAN_FILE"}
    assert storage.files[f"_statemaint/trash/{done.run}/{path}"] == bad
    assert repair(storage, trash_for=MONTH).run == ""


def test_a_plan_says_what_and_proves_it_and_writes_nothing(storage: MemoryStorage) -> None:
    path = snapshot(storage, 20)
    spoil(storage, path)
    before = dict(storage.files)
    plan = plan_repair(storage)
    assert storage.files == before
    assert (removed(plan), written(plan)) == ([(path, "bad_snapshot")], [path])
    (step,) = plan.repairs
    assert step.proof
    (_, right), *_ = digest_stores(MemoryStorage({**before}), version=19)[1]
    assert step.proof.rows == len(state_at(20)) == right.rows + 1
    assert (step.proof.files, step.proof.start) == (20, 0)
    assert (plan.findings, plan.unrepaired) == ((), ())
    assert plan.versions_checked == 2 * 9
    shown = recovery_json(plan)
    assert shown["actions"] == [
        {"action": "remove", "operator": 0, "partition": 0, "store": "default", "version": 20,
         "path": path, "bytes": len(before[path]), "reason": "bad_snapshot"},
        {"action": "write_snapshot", "operator": 0, "partition": 0, "store": "default",
         "version": 20, "path": path, "reason": "rebuilt"},
    ]  # fmt: skip
    assert shown["proofs"] == [
        {"operator": 0, "partition": 0, "store": "default", "version": 20,
         "digest": step.proof.digest, "rows": step.proof.rows, "files": 20, "start": 0}
    ]  # fmt: skip


def test_one_that_no_retained_version_is_loaded_from_is_dropped(storage: MemoryStorage) -> None:
    path, good = snapshot(storage, 5), snapshot(storage, 10)
    storage.write("state/0/0/.5.snapshot.crc", [b"crc"])
    spoil(storage, path)
    done = repair(storage, trash_for=MONTH)
    assert done.written == ()
    assert [one.path for one in done.removed] == ["state/0/0/.5.snapshot.crc", path]
    assert good in storage.files
    assert path not in storage.files
    assert verify(storage, deep=True).findings == ()


def test_one_whose_log_is_gone_stays(storage: MemoryStorage) -> None:
    path = snapshot(storage, 12)
    for version in range(1, 13):
        storage.delete(f"state/0/0/{version}.delta")
    spoil(storage, path)
    before = dict(storage.files)
    done = repair(storage, trash_for=MONTH)
    assert storage.files == before
    assert done.plan.unrepaired == (f"{path} stays: without it, BROKEN_CHAIN at state/0/0/1.delta",)
    assert {one.code for one in done.plan.findings} == {"CORRUPT_FILE"}


def test_one_below_what_loads_stays_as_well_when_its_log_is_gone(storage: MemoryStorage) -> None:
    path = snapshot(storage, 5)
    snapshot(storage, 10)
    storage.delete("state/0/0/3.delta")
    spoil(storage, path)
    (reason,) = plan_repair(storage).unrepaired
    assert (
        reason == f"{path} stays: the log does not give version 5: state/0/0: files are missing; "
        "put them back from a copy"
    )


def test_one_above_another_that_is_bad_waits_for_that(storage: MemoryStorage) -> None:
    """Both are repaired where the log goes down to the empty state, the lower one first."""
    lower, upper = snapshot(storage, 10), snapshot(storage, 20)
    for path in (lower, upper):
        spoil(storage, path)
    plan = plan_repair(storage)
    assert written(plan) == [lower, upper]
    repair(storage, trash_for=MONTH)
    assert verify(storage, deep=True).findings == ()

    for version in range(1, 11):
        storage.delete(f"state/0/0/{version}.delta")
    for path in (lower, upper):
        spoil(storage, path)
    plan = plan_repair(storage)
    assert plan.actions == ()
    assert [one.partition(" ")[0] for one in plan.unrepaired] == [lower, upper]


def test_one_that_claims_another_state_than_the_log_is_made_anew(storage: MemoryStorage) -> None:
    path = snapshot(storage, 20, of=19)
    assert [one.code for one in verify(storage, deep=True).findings] == ["SNAPSHOT_MISMATCH"]
    assert [one.action.path for one in repair(storage, trash_for=MONTH).written] == [path]
    assert storage.files[path] != snapshot_bytes(state_at(19))
    assert verify(storage, deep=True).findings == ()


def test_one_that_was_proved_once_stays_for_it_is_the_log_that_has_changed(
    storage: MemoryStorage,
) -> None:
    assert maintain(storage, TIGHT).exit_code == 0
    spoiled = delta_bytes([(b"wrong-01", bytes(8))])
    storage.write("state/0/0/22.delta", [spoiled], overwrite=True)
    before = dict(storage.files)
    done = repair(storage, trash_for=MONTH)
    assert storage.files == before
    (reason,) = done.plan.unrepaired
    assert reason.startswith("state/0/0/25.snapshot stays: it was equal to the log when it was")


def test_one_that_differs_from_a_snapshot_that_nobody_proved_stays(storage: MemoryStorage) -> None:
    """Either of them may be wrong: the log that would tell is gone."""
    snapshot(storage, 12)
    path = snapshot(storage, 20, of=19)
    for version in range(1, 13):
        storage.delete(f"state/0/0/{version}.delta")
    plan = plan_repair(storage)
    assert plan.actions == ()
    (reason,) = plan.unrepaired
    assert reason == (
        f"{path} stays: the chain that it differs from begins with state/0/0/12.snapshot, which is "
        "not proved; one of the two is wrong"
    )


def test_an_attempt_that_does_not_count_is_not_made_anew() -> None:
    storage = MemoryStorage(dict(maintained(IDS)))
    newest = versions(dict(storage.files), "zip")[-1]
    dead = re.sub(r"_[0-9a-f-]+\.zip", "_00000000-1111-2222-3333-444444444444.zip", newest)
    storage.write(dead, [storage.files[newest][:50]])
    done = repair(storage, trash_for=MONTH)
    assert ([one.path for one in done.removed], done.written) == ([dead], ())
    assert verify(storage, deep=True).healthy


def test_a_log_whose_rows_lie_in_the_wrong_partition_is_not_believed() -> None:
    """Two changes were swapped between partitions: the snapshot above them is what is right."""
    files = dict(maintained(HDFS))
    newest = int(versions(files, "snapshot")[-1].rpartition("/")[2].partition(".")[0])
    for name in (f"{newest - 1}.delta", f".{newest - 1}.delta.crc"):
        one, other = f"state/0/0/{name}", f"state/0/1/{name}"
        files[one], files[other] = files[other], files[one]
    files = {path: content for path, content in files.items() if not path.startswith("_")}
    storage = MemoryStorage(files)
    assert {"SNAPSHOT_MISMATCH"} == {one.code for one in verify(storage, deep=True).findings}
    plan = plan_repair(storage)
    assert plan.actions == ()
    assert len(plan.unrepaired) == 2
    assert all("stays: without it, WRONG_PARTITION at state/0/" in one for one in plan.unrepaired)


@pytest.mark.parametrize("kind", [ROCKS, IDS])
def test_a_zip_that_lacks_a_table_is_made_anew(kind: str) -> None:
    storage = MemoryStorage(dict(maintained(kind)))
    zips = versions(dict(storage.files), "zip")
    lowest = table({path: one for path, one in storage.files.items() if path != zips[0]})
    storage.delete(lowest)
    assert {one.code for one in verify(storage).findings} == {"MISSING_SST"}
    done = repair(storage, trash_for=MONTH)
    assert [one.action.path for one in done.written] == [zips[-1]]
    assert verify(storage, deep=True).healthy


@pytest.mark.parametrize("kind", ["aggregation", "aggregation-ids"])
def test_a_bad_table_that_two_zips_share_spoils_both(kind: str) -> None:
    files = dict(contents("rocks-maintained-4.3.0")[f"rocks-{kind}-maintained"])
    storage, zips = MemoryStorage(files), versions(files, "zip")
    before = digest_stores(storage)
    shared = set.intersection(*({one.stored for one in parse_metadata(files[path]).ssts}
                                for path in zips[-2:]))  # fmt: skip
    path = f"state/0/0/SSTs/{max(shared)}"  # which the zip below them lacks
    spoil(storage, path, lambda content: content[:20] + b"????" + content[24:])
    done = repair(storage, trash_for=MONTH)
    assert [one.action.path for one in done.written] == zips[-2:]
    assert path in {one.path for one in done.removed}
    assert digest_stores(storage) == before
    assert verify(storage, deep=True).healthy


def test_a_zip_of_an_attempt_that_does_not_count_takes_the_place_of_no_bad_one() -> None:
    """A rewind left it. The next changelog's lineage begins with the bad one, which is needed."""
    store = rocks_store(
        "1_ac 2_bc 2_bz:a 3_cc 4_xz:a 4_dc 5_ec sa", ids=dict(enumerate("abcde", 1))
    )
    (bad,) = [one for one in store.files if one.entry.name == "2_b.zip"]
    gone = (Remove(bad.entry, RemoveReason.BAD_SNAPSHOT, store.id, 2),)
    step = RepairStep(Finding(FindingCode.CORRUPT_FILE, "", store.id, 2), gone, 2)
    without = replace(store, files=tuple(one for one in store.files if one != bad))
    found = rebuilt(step, store, without, range(4, 6))
    assert found is not None
    assert (found.path, len(found.chain.deltas)) == (bad.entry.path, 2)
    lacking = tuple(one for one in without.files if one.entry.name != "1_a.changelog")
    assert rebuilt(step, store, replace(without, files=lacking), range(4, 6)) is None


def without_its_base() -> MemoryStorage:
    """Versions 7 and 8 have lineages that begin with version 6, whose zip somebody has deleted."""
    storage = MemoryStorage()
    query = Query(storage, Habits(window=3, ids=True))
    query.restart(None)
    for number in range(6):
        query.commit([(0, number)])
    maintain(storage, TIGHT, request=Request(force_snapshot=True))
    query.restart(None)
    for number in range(2):
        query.commit([(0, number)])
    (base,) = [path for path in storage.files if path.endswith(".zip")]
    storage.delete(base)
    return storage


def test_a_lineage_that_lacks_its_zip_gets_one_from_the_log() -> None:
    storage = without_its_base()
    lost = [one for one in verify(storage).findings if one.damage]
    assert [(one.code, one.version) for one in lost] == [
        (FindingCode.LINEAGE_BROKEN, 7), (FindingCode.LINEAGE_BROKEN, 8),
    ]  # fmt: skip
    assert "see what `statemaint repair` can repair from the log" in doctor(storage).next
    before = digest_stores(storage)
    done = repair(storage, trash_for=MONTH)
    assert [one.action.version for one in done.written] == [7]
    assert (done.removed, done.plan.findings) == ((), verify(storage).findings)
    assert verify(storage, deep=True).healthy
    assert digest_stores(storage) == before
    assert recovery_json(done.plan)["proofs"][0]["version"] == 7
    assert plan_repair(storage).actions == ()


def test_no_zip_is_written_from_a_log_that_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    repairing = import_module("statemaint.recover.repair")  # the package has a function of it
    monkeypatch.setattr(repairing, "was_replaced", lambda _: True)
    plan = plan_repair(without_its_base())
    assert plan.actions == ()
    assert "is in doubt" in str(plan.unrepaired)
    assert FindingCode.LINEAGE_BROKEN in {one.code for one in plan.findings}


def test_where_the_log_does_not_give_it_either_it_stays_broken() -> None:
    storage = without_its_base()
    damaged = next(path for path in storage.files if "/2_" in path)
    storage.write(damaged, [b"no changelog"], overwrite=True)
    plan = plan_repair(storage)
    assert plan.actions == ()
    assert FindingCode.LINEAGE_BROKEN in {one.code for one in plan.findings}


def test_a_bad_table_stays_while_a_zip_that_stays_refers_to_it() -> None:
    files = dict(contents("rocks-maintained-4.3.0")["rocks-aggregation-maintained"])
    storage, zips = MemoryStorage(files), versions(files, "zip")
    path = f"state/0/0/SSTs/{parse_metadata(files[zips[0]]).ssts[0].stored}"
    spoil(storage, path, lambda content: content[:20] + b"????" + content[24:])
    plan = plan_repair(storage)
    assert plan.actions == ()
    assert f"{path} stays: a remaining zip refers to it" in "\n".join(plan.unrepaired)


def test_the_only_zip_of_a_store_with_column_families_stays() -> None:
    """The log alone does not say which there are."""
    storage = MemoryStorage(dict(contents("rocks-4.3.0")["rocks-timed"]))
    zips = versions(dict(storage.files), "zip")
    assert [path.rpartition("/")[2] for path in zips] == ["1.zip"]
    spoil(storage, zips[0])
    assert plan_repair(storage).unrepaired[0].endswith("no zip lists the column families")


@pytest.mark.parametrize("steps", [1, 3])
def test_a_step_is_proved_without_reading_other_partitions_again(steps: int) -> None:
    storage = write_checkpoint(HookedStorage())
    other = Counter(opened_by(storage, verified, partition=1))
    for version in range(18, 18 + steps):
        spoil(storage, snapshot(storage, version))
    own = Counter(opened_by(storage, verified, partition=0))
    assert len(plan_repair(storage).repairs) == steps
    assert Counter(opened_by(storage, plan_repair, partition=1)) == other
    assert Counter(opened_by(storage, plan_repair, partition=0)) > own


def verified(storage: MemoryStorage) -> object:
    return verify(storage, deep=True)


def opened_by(
    storage: HookedStorage, read: Callable[[MemoryStorage], object], *, partition: int
) -> list[str]:
    storage.calls.clear()
    read(storage)
    return [path for path in storage.paths("open") if path.startswith(f"state/0/{partition}/")]


# -- checksums


STALE = b"crc\0\0\0\2\0" + b"\1\2\3\4"


def with_stale_checksum(storage: MemoryStorage, name: str) -> str:
    path = f"state/0/0/.{name}.crc"
    storage.write(path, [STALE])
    assert "STALE_CHECKSUM" in {one.code for one in verify(storage, deep=True).findings}
    return path


def test_a_checksum_of_another_file_goes_where_the_file_is_sound(storage: MemoryStorage) -> None:
    """The snapshot above is equal to the log, and so each change between them is right."""
    path = with_stale_checksum(storage, "20.delta")
    snapshot(storage, 22)
    done = repair(storage, trash_for=MONTH)
    assert [(one.path, one.reason) for one in done.removed] == [(path, RemoveReason.STALE_CHECKSUM)]
    (proof,) = [step.proof for step in done.plan.repairs]
    assert proof
    assert proof.rows == len(state_at(20))
    assert verify(storage, deep=True).findings == ()


def test_a_checksum_of_another_file_stays_where_the_file_is_damaged(storage: MemoryStorage) -> None:
    path = with_stale_checksum(storage, "20.delta")
    spoil(storage, "state/0/0/20.delta")
    plan = plan_repair(storage)
    assert plan.actions == ()
    assert plan.unrepaired == (f"{path} stays: state/0/0/20.delta is damaged itself",)


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_a_codec_that_checks_nothing_needs_a_witness(codec: str) -> None:
    storage = write_checkpoint(MemoryStorage(), codec=codec)
    path = with_stale_checksum(storage, "20.delta")
    (reason,) = plan_repair(storage).unrepaired
    assert reason == (
        f"{path} stays: it is unclear whether it or state/0/0/20.delta is wrong; put both "
        "back from a copy"
    )
    right = snapshot_bytes(state_at(22), codec=codec)
    storage.write("state/0/0/22.snapshot", [right])
    assert removed(plan_repair(storage)) == [(path, "stale_checksum")]
    storage.delete("state/0/0/21.delta")
    assert removed(plan_repair(storage)) == []


def test_a_snapshot_is_compared_with_the_log_below_it() -> None:
    storage = write_checkpoint(MemoryStorage(), codec="zstd")
    storage.write("state/0/0/22.snapshot", [snapshot_bytes(state_at(22), codec="zstd")])
    path = with_stale_checksum(storage, "22.snapshot")
    assert removed(plan_repair(storage)) == [(path, "stale_checksum")]
    for version in range(1, 22):
        storage.delete(f"state/0/0/{version}.delta")
    assert removed(plan_repair(storage)) == []


@pytest.mark.parametrize(
    ("codec", "row_checksums", "sure"),
    [("lz4", False, True), ("zstd", True, True), ("zstd", False, False)],
)
def test_a_checksum_that_is_none_goes_where_the_file_checks_itself(
    codec: str, *, row_checksums: bool, sure: bool
) -> None:
    storage = write_checkpoint(MemoryStorage(), codec=codec, row_checksums=row_checksums)
    path = "state/0/0/.20.delta.crc"
    storage.write(path, [b"\0" * 12])
    assert removed(plan_repair(storage)) == ([(path, "stale_checksum")] if sure else [])


def test_one_of_other_bytes_may_be_right_although_the_file_is_whole(storage: MemoryStorage) -> None:
    """Another change was put in its place: only the checksum knows."""
    storage.write("state/0/0/.20.delta.crc", [hadoop(storage.files["state/0/0/20.delta"])])
    assert verify(storage, deep=True).findings == ()
    storage.write("state/0/0/20.delta", [storage.files["state/0/1/20.delta"]], overwrite=True)
    plan = plan_repair(storage)
    assert plan.actions == ()
    assert plan.unrepaired[0].startswith(
        "state/0/0/.20.delta.crc stays: it is unclear whether it or"
    )


def test_no_snapshot_of_a_repair_is_taken_for_one_of_an_executor(storage: MemoryStorage) -> None:
    """Both hold the state of a log with a wrong change, to which only its checksum objects."""
    paths = [snapshot(storage, version) for version in (17, 20)]
    for path in paths:
        spoil(storage, path)
    right, wrong = storage.files["state/0/0/12.delta"], storage.files["state/0/0/11.delta"]
    storage.write("state/0/0/.12.delta.crc", [hadoop(right)])
    storage.write("state/0/0/12.delta", [wrong], overwrite=True)
    assert [one.action.path for one in repair(storage, trash_for=MONTH).written] == paths
    again = plan_repair(storage)
    assert removed(again) == []
    assert [one.code for one in again.findings] == [FindingCode.STALE_CHECKSUM]
    assert scan_checkpoint(storage).stores[0].ours == frozenset(paths)


def test_sparks_own_checksum_goes_with_what_hadoop_keeps_beside_it(storage: MemoryStorage) -> None:
    storage.write("state/0/0/20.delta.crc", [b'{"algorithm":"CRC32C","value":"AAAAAA=="}'])
    storage.write("state/0/0/.20.delta.crc.crc", [b"crc"])
    (unreadable, _) = verify(storage, deep=True).findings
    assert (unreadable.code, unreadable.path) == ("STALE_CHECKSUM", "state/0/0/20.delta.crc")
    assert unreadable.batches == (19, 20, 21, 22, 23, 24)
    assert "cannot be read (not a Spark checksum file: KeyError" in unreadable.detail
    done = repair(storage, trash_for=MONTH)
    assert [one.path for one in done.removed] == [
        "state/0/0/.20.delta.crc.crc",
        "state/0/0/20.delta.crc",
    ]
    assert verify(storage, deep=True).findings == ()


@pytest.mark.parametrize("by", ["state/0/0/.20.snapshot.crc", "state/0/0/20.snapshot.crc"])
def test_a_snapshot_that_does_not_decode_goes_with_the_checksum_that_shows_it(
    storage: MemoryStorage, by: str
) -> None:
    """The checksum is right, and nothing else speaks for the file."""
    path = snapshot(storage, 20)
    before = digest_stores(storage)
    right = storage.files[path]
    of_spark = checksum_file.spark(google_crc32c.value(right), len(right), 0.0)
    storage.write(by, [hadoop(right) if "/." in by else of_spark])
    assert verify(storage, deep=True).findings == ()
    spoil(storage, path, cut)
    done = repair(storage, trash_for=MONTH)
    assert sorted(one.path for one in done.removed) == sorted([by, path])
    assert [one.action.path for one in done.written] == [path]
    assert digest_stores(storage) == before
    assert verify(storage, deep=True).healthy


def test_of_two_cures_of_a_checksum_the_gentler_one_is_taken(storage: MemoryStorage) -> None:
    """The snapshot equals the log: it is the checksum that is wrong."""
    path = snapshot(storage, 20)
    side = with_stale_checksum(storage, "20.snapshot")
    plan = plan_repair(storage)
    assert (removed(plan), written(plan)) == ([(side, "stale_checksum")], [])
    assert plan.unrepaired == ()
    assert path in storage.files


def test_a_whole_snapshot_of_other_rows_may_be_right_where_a_checksum_speaks_against_it(
    storage: MemoryStorage,
) -> None:
    """Nothing says which of the three is wrong: the snapshot, its checksum, or the log."""
    snapshot(storage, 20, of=19)
    side = with_stale_checksum(storage, "20.snapshot")
    storage.write("state/0/0/18.snapshot", [snapshot_bytes(state_at(17))])
    plan = plan_repair(storage)
    assert (side, "stale_checksum") not in removed(plan)


# -- above the commit log


def test_snapshots_above_a_rewound_log_go(storage: MemoryStorage) -> None:
    paths = [snapshot(storage, 26), snapshot(storage, 28)]
    storage.write("state/0/0/.28.snapshot.crc", [b"crc"])
    before = digest_stores(storage)
    done = repair(storage, trash_for=MONTH)
    assert removed(done.plan) == [
        (paths[0], "above_target"),
        ("state/0/0/.28.snapshot.crc", "above_target"),
        (paths[1], "above_target"),
    ]
    proofs = [step.proof for step in done.plan.repairs]
    (_, right), *_ = before[1]
    assert [one.digest for one in proofs if one] == [right.digest] * 2
    assert digest_stores(storage) == before
    assert verify(storage, deep=True).findings == ()


@pytest.mark.parametrize("kind", [HDFS, ROCKS, IDS])
def test_a_schema_that_cannot_be_read_goes_and_a_restart_writes_it_anew(kind: str) -> None:
    storage = MemoryStorage(dict(maintained(kind)))
    path, before = "state/0/0/_metadata/schema", digest_stores(storage)
    bad = spoil(storage, path)
    done = repair(storage, trash_for=MONTH)
    assert removed(done.plan) == [(path, "unreadable_schema")]
    (step,) = done.plan.repairs
    assert step.proof
    assert step.proof.digest == before[1][0][1].digest
    assert [one.code for one in done.plan.findings] == ["MISSING_SCHEMA"]
    assert storage.files[f"_statemaint/trash/{done.run}/{path}"] == bad
    assert digest_stores(storage) == before


# -- when not at all


def test_a_healthy_checkpoint_is_left_alone(storage: MemoryStorage) -> None:
    before = dict(storage.files)
    done = repair(storage, trash_for=MONTH)
    assert (done.run, done.plan.actions, done.plan.findings) == ("", (), ())
    assert storage.files == before


def test_a_lost_change_is_for_people(storage: MemoryStorage) -> None:
    spoil(storage, "state/0/0/20.delta")
    plan = plan_repair(storage)
    assert (plan.actions, plan.unrepaired) == ((), ())
    assert [one.code for one in plan.findings] == ["CORRUPT_FILE"]


def test_another_run_is_waited_for(storage: MemoryStorage) -> None:
    spoil(storage, snapshot(storage, 20))
    with leased(storage, Holder("other")), pytest.raises(LeaseHeldError):
        repair(storage, trash_for=MONTH)


def test_what_was_looked_at_is_what_is_done(storage: MemoryStorage) -> None:
    path = snapshot(storage, 20)
    spoil(storage, path)
    looked = recovery_fingerprint(plan_repair(storage))
    spoil(storage, snapshot(storage, 10))
    with pytest.raises(Superseded):
        repair(storage, trash_for=MONTH, expected=looked)
    storage.delete("state/0/0/10.snapshot")
    assert repair(storage, trash_for=MONTH, expected=looked).run


@pytest.mark.parametrize("after", [False, True])
def test_killed_anywhere_and_run_again_it_comes_to_the_same(
    storage: MemoryStorage, *, after: bool
) -> None:
    spoil(storage, snapshot(storage, 20))
    snapshot(storage, 27)
    number, right = 0, digest_stores(Without(storage, ["state/0/0/20.snapshot"]), version=25)
    act = partial(repair, trash_for=MONTH)
    for number, again in each_crash(storage, Clock(1000), act, after=after):
        act(again)
        assert verify(again, deep=True).healthy, number
        assert digest_stores(again) == right
    assert number > 7


def test_a_repair_is_in_the_ledger_and_among_the_runs(storage: MemoryStorage) -> None:
    path = snapshot(storage, 20)
    spoil(storage, path)
    done = repair(storage, trash_for=MONTH)
    (line,) = ledger_lines(storage, "repair")
    assert line["path"] == path
    (run,) = list_runs(storage)
    assert (run.run, run.snapshots_written, run.files_deleted) == (done.run, 1, 1)
    assert f"{RUNS}/{done.run}/mend.json" in storage.files
    assert repr(done).endswith(f", run {done.run}, 1 file moved, 1 snapshot written)")
    (remove,) = done.removed
    assert [*done._rows()] == [{"path": path, "reason": remove.reason.words}]
    assert run.bytes_written == len(storage.files[path])
    proofs = scan_checkpoint(storage).stores[0].attestations
    assert [(one.path, one.rows) for one in proofs] == [(path, len(state_at(20)))]


def test_a_bad_file_does_not_come_back_over_the_new_one(storage: MemoryStorage) -> None:
    path = snapshot(storage, 20)
    spoil(storage, path)
    done = repair(storage, trash_for=MONTH)
    assert list(undo(storage, done.run).left) == [path]
    assert verify(storage, deep=True).healthy


def test_a_bad_snapshot_that_is_all_of_a_store_stays() -> None:
    """Of an operator that the query does not have, for instance; without it there is no store."""
    storage = write_checkpoint(MemoryStorage())
    path = "state/1/0/999.snapshot"
    storage.write(path, [b"anything"])
    plan = plan_repair(storage)
    assert plan.removes == ()
    assert f"{path} stays: without it, its store has no files" in plan.unrepaired
