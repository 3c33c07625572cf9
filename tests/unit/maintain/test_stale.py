"""Snapshots whose log was replaced after they were proved: by a rewind, or by something else.

The judge loads by Spark's own rule with code of its own, and knows the true state of each version.
"""

from contextlib import suppress
from functools import partial
from itertools import count

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.codec.integrity.digest import digest, digest_key
from statemaint.codec.rocksdb.changelog import PUT, Change
from statemaint.maintain import maintain, undo
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.recover import repair
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.certify.files import encode
from tests.support.checkpoints import COMMIT, offsets_bytes, state_at
from tests.support.faults import Crash, HookedStorage, on
from tests.support.ledgers import ledger_lines
from tests.support.marks import long
from tests.support.rewound import HOME, TIGHT, RewoundQuery, codes
from tests.support.rocks import PROVIDER, write_changelog, write_rocks_checkpoint

RARE = Policy(
    min_deltas_for_snapshot=50, min_batches_to_retain=10, grace=0, orphan_age=0, rebase=False
)
MONTH = 30 * 86400.0
STALE = f"{HOME}/20.snapshot"


# -- a rewind


def rewound(query: RewoundQuery, last: int) -> None:
    query.rewind(15)
    query.run(15, last, source="b")


def test_a_rewind_makes_a_proved_snapshot_stale_and_verify_and_doctor_say_so(
    query: RewoundQuery,
) -> None:
    rewound(query, 29)
    assert query.wrong == list(range(20, 31)), "Spark begins at the snapshot of before the rewind"
    found = verify(query.storage)
    assert not found.healthy
    (stale,) = found.findings
    assert (stale.code, stale.path, stale.version) == (FindingCode.STALE_SNAPSHOT, STALE, 20)
    assert stale.batches == tuple(range(19, 30))
    assert "versions 16 to 20 were written again" in stale.detail
    looked = doctor(query.storage)
    assert not looked.restarts
    assert looked.next[0] == (
        "run `statemaint maintain`: it moves stale snapshots to the trash, the log has the state"
    )


@pytest.mark.parametrize("last", [19, 20, 23, 29, 45])
def test_maintenance_after_a_rewind_takes_the_state_from_the_log(
    query: RewoundQuery, last: int
) -> None:
    rewound(query, last)
    report = maintain(query.storage, TIGHT)
    assert report.exit_code == 0
    assert codes(report.findings) == {"STALE_SNAPSHOT"}
    query.must_be_right()
    assert maintain(query.storage, TIGHT).findings == ()
    assert query.wrong == []


def test_nothing_of_the_truth_goes_on_the_strength_of_a_stale_snapshot(
    query: RewoundQuery,
) -> None:
    rewound(query, 29)
    query.purge(25)
    lean = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=1, grace=0, orphan_age=0)
    for _ in range(3):
        assert maintain(query.storage, lean).exit_code == 0
        assert query.wrong == []
    assert "1.delta" not in query.names


def test_a_stale_snapshot_is_moved_to_the_trash_whatever_the_policy(query: RewoundQuery) -> None:
    poisoned = query.storage.files[STALE]
    rewound(query, 29)
    run = maintain(query.storage, TIGHT).run
    assert query.storage.files.get(STALE) is None
    assert query.storage.files[f"_statemaint/trash/{run}/{STALE}"] == poisoned


def test_what_a_stale_snapshot_hid_is_compared_before_it_goes() -> None:
    """An older snapshot of ours was overwritten with something that can be read, and is wrong."""
    query = RewoundQuery(tagged=False)
    query.run(0, 9)
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.run(10, 19)
    assert maintain(query.storage, TIGHT).exit_code == 0
    assert {"10.snapshot", "20.snapshot"} <= query.names
    query.rewind(15)
    query.run(15, 21, source="b")
    query.upload(10, {b"wrong": b"1"})
    report = maintain(query.storage, TIGHT)
    assert codes(report.findings) == {"STALE_SNAPSHOT", "SNAPSHOT_MISMATCH"}
    assert f"once {STALE}, which is stale, is deleted" in report.findings[-1].detail
    assert "20.snapshot" in query.names
    repair(query.storage, trash_for=MONTH)
    assert maintain(query.storage, TIGHT).exit_code == 0
    assert query.wrong == []


@pytest.mark.parametrize("name", ["10.snapshot", "18.delta"])
@pytest.mark.parametrize("late", [False, True], ids=["before its line", "before its move"])
def test_a_stale_snapshot_stays_once_its_replacement_is_changed_during_the_run(
    name: str, *, late: bool
) -> None:
    """The batches ran again and wrote the same rows in another order: the state is as it was."""
    query = RewoundQuery()
    query.run(0, 9)
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.run(10, 19)
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.rewind(15)
    query.run(15, 29, backwards=True)
    changed, wrong = query.storage, encode([(b"wrong", b"1")])
    change = partial(changed.write, f"{HOME}/{name}", [wrong], overwrite=True)
    folder = "_statemaint/trash" if late else "_statemaint/ledger"
    replacing = HookedStorage(changed, after=on("append", f"{folder}/*", change, once=True))
    query.storage = replacing
    report = maintain(replacing, TIGHT)
    assert replacing.files[f"{HOME}/{name}"] == wrong
    assert codes(report.findings) == {"STALE_SNAPSHOT", "SUPERSEDED"}
    assert STALE in replacing.files
    assert 20 not in query.wrong
    noted = [one["path"] for one in ledger_lines(replacing, "0/0") if one["action"] == "delete"]
    assert noted == [STALE] * late


def test_stale_snapshots_go_from_the_lowest_on() -> None:
    """Else a restart after a crash would begin with a lower one, which another one had hidden."""
    query = RewoundQuery()
    query.run(0, 2)
    query.purge(1)
    rebasing = Policy(min_deltas_for_snapshot=1, min_batches_to_retain=1, grace=100, orphan_age=0)
    assert maintain(query.storage, rebasing).exit_code == 0
    assert {"2.snapshot", "3.snapshot"} <= query.names
    query.rewind(0)
    query.run(0, 2, source="b")
    assert maintain(query.storage, rebasing).exit_code == 0
    found = ledger_lines(query.storage, "0/0")
    gone = [line["path"] for line in found if line.get("action") == "delete"]
    assert gone == [f"{HOME}/2.snapshot", f"{HOME}/3.snapshot"]
    assert query.wrong == []


@pytest.mark.parametrize("query", [True, long(False)], ids=["tagged", "by time"], indirect=True)
def test_a_run_that_is_killed_anywhere_leaves_the_truth_recoverable(query: RewoundQuery) -> None:
    rewound(query, 29)
    query.purge(25)
    whole, poison = query.storage, query.storage.files[STALE]
    for stop in range(1000):
        query.storage = crashing = query.crashing(whole, stop)
        with suppress(Crash):
            maintain(crashing, TIGHT)
        rebuilt = query.rebuilt(poison)
        assert [one for one in range(26, 31) if rebuilt.get(one) != query.truth[one]] == []
        query.storage = query.crashing(crashing, 1_000_000)
        assert maintain(query.storage, TIGHT).exit_code == 0
        assert query.wrong == []
        if crashing.changes <= stop // 2:
            break
    assert stop > 20


def test_a_rewind_on_the_same_input_that_writes_the_same_bytes_is_none(query: RewoundQuery) -> None:
    """The fingerprints decide: the files have other times and the bytes that they had."""
    query.rewind(15)
    query.run(15, 29)
    query.must_be_right()
    assert "20.snapshot" in query.names


def test_several_rewinds_in_a_row_end_in_the_truth(query: RewoundQuery) -> None:
    rewound(query, 24)
    maintain(query.storage, TIGHT)
    query.rewind(20)
    query.run(20, 26, source="c")
    query.rewind(18)
    query.run(18, 33, source="d")
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.must_be_right()


def test_a_copy_of_a_checkpoint_keeps_its_proofs(query: RewoundQuery) -> None:
    copied = MemoryStorage(query.storage.files, clock=lambda: 9_000_000.5, tagged=False)
    assert verify(copied, deep=True).findings == ()
    assert maintain(copied, TIGHT).snapshots_written == 0


def test_a_repair_looks_earlier_and_ends_in_the_truth(query: RewoundQuery) -> None:
    rewound(query, 24)
    done = repair(query.storage, trash_for=MONTH)
    assert [one.path for one in done.removed] == [STALE]
    query.must_be_right()


def test_a_snapshot_that_was_never_proved_is_compared_once_its_log_is_newer(
    query: RewoundQuery,
) -> None:
    """As after a run that was killed before its proof, or by an executor."""
    query.storage.delete("_statemaint/attestations/0/0/default.json")
    rewound(query, 29)
    assert codes(verify(query.storage).findings) == {"SNAPSHOT_MISMATCH"}
    assert not doctor(query.storage).restarts
    report = maintain(query.storage, TIGHT)
    assert codes(report.findings) == {"SNAPSHOT_MISMATCH"}
    assert report.files_deleted.total() == 0
    assert "it is older than 20.delta" in report.findings[0].detail
    repair(query.storage, trash_for=MONTH)
    assert query.wrong == []
    assert maintain(query.storage, TIGHT).exit_code == 0
    assert query.wrong == []


@pytest.fixture(params=[True, False], ids=["tagged", "by time"])
def adopted(request: pytest.FixtureRequest) -> RewoundQuery:
    """An executor has made 20.snapshot and deleted the log below; a run relies on it."""
    found = RewoundQuery(tagged=request.param)
    found.run(0, 19)
    found.upload(20)
    for version in range(1, 19):
        found.storage.delete(f"{HOME}/{version}.delta")
    found.run(20, 34)
    found.purge(24)
    assert maintain(found.storage, RARE).exit_code == 0
    (proof,) = scan(found.storage).stores[0].attestations
    assert (proof.path, proof.inputs) == (STALE, ())
    return found


def test_a_query_that_began_again_is_not_loaded_from_an_adopted_snapshot_of_before(
    adopted: RewoundQuery,
) -> None:
    """The commits of the first batches are purged by then: only the log shows what happened."""
    adopted.rewind(0)
    adopted.run(0, 45, source="b")
    adopted.purge(30)
    assert adopted.wrong == list(range(31, 47)), "Spark begins at the snapshot of before"
    assert codes(verify(adopted.storage).findings) == {"SNAPSHOT_MISMATCH"}
    report = maintain(adopted.storage, TIGHT)
    assert codes(report.findings) == {"SNAPSHOT_MISMATCH"}
    assert (report.snapshots_written, report.files_deleted.total()) == (0, 0)
    repair(adopted.storage, trash_for=MONTH)
    assert adopted.wrong == []
    assert maintain(adopted.storage, TIGHT).exit_code == 0
    assert adopted.wrong == []


def test_a_log_that_was_restored_below_an_adopted_snapshot_is_compared_once(
    adopted: RewoundQuery,
) -> None:
    adopted.rewind(0)
    adopted.run(0, 45)
    adopted.purge(30)
    report = maintain(adopted.storage, RARE)
    assert [type(one).__name__ for one in report.plan.actions][:2] == ["Attest", "Delete"]
    assert (report.findings, adopted.wrong) == ((), [])
    (proof,) = scan(adopted.storage).stores[0].attestations
    assert len(proof.inputs) == 20
    assert maintain(adopted.storage, RARE).plan.actions == ()


# -- RocksDB

STORE = StoreId(0, 0)
KEY = digest_key("11111111-2222-3333-4444-555555555555")


def test_a_rewind_of_a_query_on_rocksdb_makes_our_zip_stale() -> None:
    times = count(1_000_000.25, 1.5)
    storage = MemoryStorage(clock=lambda: next(times), tagged=False)
    write_rocks_checkpoint(storage, last=20, batches=range(20), partitions=1)
    maintain(storage, TIGHT)
    zip_path = f"{HOME}/20.zip"
    assert zip_path in storage.files
    for batch in range(15, 20):
        for log in ("commits", "offsets"):
            storage.delete(f"{log}/{batch}")
    truth = state_at(15)
    run_rocks(storage, 16, 30)
    truth |= {b"counter": (30).to_bytes(8), b"b": bytes(8)}
    assert codes(verify(storage).findings) >= {"STALE_SNAPSHOT"}
    assert not verify(storage).healthy
    assert maintain(storage, TIGHT).exit_code == 0
    assert zip_path not in storage.files
    assert verify(storage, deep=True).healthy
    ((_, found_digest),) = digest_stores(storage, version=30)[1]
    assert found_digest == digest(truth.items(), KEY)


def test_a_stale_zip_stays_once_a_table_of_the_zip_below_is_lost_while_the_run_works() -> None:
    times = count(1_000_000.25, 1.5)
    storage = MemoryStorage(clock=lambda: next(times), tagged=False)
    write_rocks_checkpoint(storage, last=10, batches=range(10), partitions=1)
    assert maintain(storage, TIGHT).exit_code == 0
    run_rocks(storage, 11, 20, source=b"a")
    assert maintain(storage, TIGHT).exit_code == 0
    assert {f"{HOME}/10.zip", f"{HOME}/20.zip"} <= storage.files.keys()
    for batch in range(15, 20):
        for log in ("commits", "offsets"):
            storage.delete(f"{log}/{batch}")
    run_rocks(storage, 16, 30)
    rocks = scan(storage).stores[0].rocks
    assert rocks is not None
    (below,) = rocks.parts[f"{HOME}/10.zip"]

    lose = on("append", "_statemaint/trash/*", lambda: storage.delete(below))
    losing = HookedStorage(storage, after=lose)
    report = maintain(losing, TIGHT)
    assert "SUPERSEDED" in codes(report.findings)
    assert below not in losing.files
    assert f"{HOME}/20.zip" in losing.files


def run_rocks(storage: MemoryStorage, first: int, last: int, *, source: bytes = b"b") -> None:
    """Runs the batches of some versions of a query on RocksDB."""
    for version in range(first, last + 1):
        storage.delete(f"{HOME}/{version}.changelog")
        changes: list[Change] = [(PUT, b"counter", version.to_bytes(8)), (PUT, source, bytes(8))]
        write_changelog(storage, STORE, version, changes)
        storage.write(f"offsets/{version - 1}", [offsets_bytes({"providerClass": PROVIDER})])
        storage.write(f"commits/{version - 1}", [COMMIT])


# -- an undo


def test_an_undo_brings_no_stale_snapshot_back(query: RewoundQuery) -> None:
    rewound(query, 24)
    done = repair(query.storage, trash_for=MONTH)
    query.run(25, 29, source="b")
    undo(query.storage, done.run)
    query.must_be_right()


def test_an_undo_of_maintenance_leaves_a_stale_snapshot_in_the_trash(query: RewoundQuery) -> None:
    rewound(query, 29)
    run = maintain(query.storage, TIGHT).run
    for last in (29, 31):
        query.run(30, last, source="b")
        left = undo(query.storage, run).left
        assert STALE in str(left)
        query.must_be_right()


def test_an_undo_of_a_repair_leaves_a_stale_snapshot_in_the_trash(query: RewoundQuery) -> None:
    rewound(query, 26)
    query.purge(21)
    done = repair(query.storage, trash_for=MONTH)
    assert STALE in [one.path for one in done.removed]
    query.run(27, 28, source="b")
    query.storage.delete(STALE)
    assert STALE in str(undo(query.storage, done.run).left)
    assert query.wrong == []


@pytest.mark.parametrize("last", [19, 29])
def test_what_lies_beside_a_stale_snapshot_goes_before_it(query: RewoundQuery, last: int) -> None:
    side = f"{HOME}/.20.snapshot.crc"
    query.storage.write(side, [hadoop(query.storage.files[STALE])])
    rewound(query, last)
    report = maintain(query.storage, TIGHT)
    gone = [one.path for one in report.plan.actions if one.path in (side, STALE)]
    assert gone[:2] == [side, STALE]
    assert side not in query.storage.files
    assert f"_statemaint/trash/{report.run}/{side}" in query.storage.files
    assert query.wrong == []
