"""Snapshots whose log was replaced after they were proved: by a rewind, or by something else.

The judge loads by Spark's own rule with code of its own, and knows the true state of each version.
"""

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.codec.integrity.digest import digest, digest_key
from statemaint.codec.rocksdb.changelog import PUT, Change
from statemaint.errors import StatemaintError
from statemaint.maintain import maintain, undo
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan import Request
from statemaint.planning import scan_checkpoint
from statemaint.recover import plan_repair, repair, rollback
from statemaint.scan import scan
from statemaint.storage import MemoryStorage
from tests.certify.files import decode, encode
from tests.support.checkpoints import COMMIT, offsets_bytes, state_at
from tests.support.faults import Crash, HookedStorage, on
from tests.support.ledgers import ledger_lines
from tests.support.rewound import HOME, RewoundQuery
from tests.support.rocks import PROVIDER, write_changelog, write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=10, grace=0, orphan_age=0)
RARE = Policy(
    min_deltas_for_snapshot=50, min_batches_to_retain=10, grace=0, orphan_age=0, rebase=False
)
MONTH = 30 * 86400.0
STALE = f"{HOME}/20.snapshot"


def codes(findings: object) -> set[str]:
    return {one.code.value for one in findings}  # type: ignore[attr-defined]


@pytest.fixture(params=[True, False], ids=["tagged", "by time"])
def query(request: pytest.FixtureRequest) -> RewoundQuery:
    """20 batches, maintained: 20.snapshot is written and proved."""
    found = RewoundQuery(tagged=request.param)
    found.run(0, 19)
    assert maintain(found.storage, TIGHT).exit_code == 0
    assert "20.snapshot" in found.names
    return found


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
    assert query.wrong == []
    assert verify(query.storage, deep=True).findings == ()
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
    query.storage.write(f"{HOME}/10.snapshot", [encode([(b"wrong", b"1")])], overwrite=True)
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
    assert query.wrong == []
    assert verify(query.storage, deep=True).findings == ()
    assert "20.snapshot" in query.names


def test_several_rewinds_in_a_row_end_in_the_truth(query: RewoundQuery) -> None:
    rewound(query, 24)
    maintain(query.storage, TIGHT)
    query.rewind(20)
    query.run(20, 26, source="c")
    query.rewind(18)
    query.run(18, 33, source="d")
    assert maintain(query.storage, TIGHT).exit_code == 0
    assert query.wrong == []
    assert verify(query.storage, deep=True).findings == ()


def test_a_copy_of_a_checkpoint_keeps_its_proofs(query: RewoundQuery) -> None:
    copied = MemoryStorage(query.storage.files, clock=lambda: 9_000_000.5, tagged=False)
    assert verify(copied, deep=True).findings == ()
    assert maintain(copied, TIGHT).snapshots_written == 0


def test_a_repair_looks_earlier_and_ends_in_the_truth(query: RewoundQuery) -> None:
    rewound(query, 24)
    done = repair(query.storage, trash_for=MONTH)
    assert [one.path for one in done.removed] == [STALE]
    assert query.wrong == []
    assert verify(query.storage, deep=True).findings == ()


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
    found.storage.write(STALE, [encode(found.truth[20].items())])
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


# -- a log that something else has changed


def swapped(query: RewoundQuery, one: int, other: int) -> None:
    """Swaps two deltas; each keeps its time, as `mv` does."""
    first, second = (f"{HOME}/{version}.delta" for version in (one, other))
    for path, to in ((first, "aside"), (second, first), ("aside", second)):
        query.storage.move(path, to)


@pytest.fixture
def attested() -> RewoundQuery:
    """24 batches with a proved 24.snapshot, and one more batch; every delta writes one key."""
    found = RewoundQuery(keys=1)
    found.run(0, 23)
    assert maintain(found.storage, TIGHT).exit_code == 0
    found.run(24, 24)
    swapped(found, 20, 24)
    return found


def test_swapped_deltas_put_the_log_in_doubt_and_no_advice_moves_the_snapshot_away(
    attested: RewoundQuery,
) -> None:
    found = doctor(attested.storage)
    assert codes(found.findings) == {"SNAPSHOT_MISMATCH"}
    assert found.goes_back_to is None
    assert not any("rollback" in advice for advice in found.next)
    assert "20.delta, 24.delta were replaced" in found.next[0]
    assert not verify(attested.storage).healthy


@pytest.mark.parametrize("batch", range(19, 25))
def test_no_rollback_to_a_batch_in_doubt_is_carried_out(attested: RewoundQuery, batch: int) -> None:
    before = attested.storage.files
    with pytest.raises(StatemaintError, match=r"its rows may be wrong.*20\.delta, 24\.delta"):
        rollback(attested.storage, batch, trash_for=MONTH)
    assert attested.storage.files == before


def test_a_rollback_below_all_doubt_ends_in_the_truth(attested: RewoundQuery) -> None:
    rollback(attested.storage, 18, trash_for=MONTH)
    assert attested.wrong == []
    assert verify(attested.storage, deep=True).healthy


def test_neither_repair_nor_maintenance_touches_what_is_in_doubt(attested: RewoundQuery) -> None:
    before = attested.storage.files
    assert plan_repair(attested.storage).actions == ()
    report = maintain(attested.storage, TIGHT, request=Request(force_snapshot=True))
    assert codes(report.findings) == {"SNAPSHOT_MISMATCH"}
    now = attested.storage.files
    assert {path for path in now if path.startswith("state/")} == {
        path for path in before if path.startswith("state/")
    }
    swapped(attested, 20, 24)
    assert maintain(attested.storage, TIGHT).exit_code == 0
    assert verify(attested.storage, deep=True).findings == ()
    assert attested.wrong == []


def test_checksums_that_fit_what_the_snapshot_says_stay(attested: RewoundQuery) -> None:
    """As on local disk, where Hadoop keeps one beside each file: those of before the swap."""
    for one, other in ((20, 24), (24, 20)):
        content = attested.storage.files[f"{HOME}/{other}.delta"]
        attested.storage.write(f"{HOME}/.{one}.delta.crc", [hadoop(content)])
    found = verify(attested.storage, deep=True)
    assert codes(found.findings) == {"SNAPSHOT_MISMATCH", "STALE_CHECKSUM"}
    plan = plan_repair(attested.storage)
    assert plan.actions == ()
    assert len(plan.unrepaired) == 3
    before = attested.storage.files
    repair(attested.storage, trash_for=MONTH)
    assert attested.storage.files == before
    assert not any("rollback" in advice for advice in doctor(attested.storage).next)


@pytest.fixture
def agreeing() -> RewoundQuery:
    """A swap that no version from 22 on shows: each delta writes the same key."""
    found = RewoundQuery(keys=1)
    found.run(0, 23)
    assert maintain(found.storage, TIGHT).exit_code == 0
    found.run(24, 24)
    swapped(found, 20, 21)
    assert found.wrong == [20, 21]
    return found


def test_a_snapshot_that_agrees_confirms_its_own_version_and_none_below(
    agreeing: RewoundQuery,
) -> None:
    for maintained in (False, True):
        if maintained:
            assert maintain(agreeing.storage, TIGHT).exit_code == 0
        for deep in (False, True):
            found = verify(agreeing.storage, deep=deep)
            (one,) = found.findings
            assert (one.code, one.batches) == (FindingCode.LOG_REPLACED, (19, 20, 21, 22))
            assert not found.healthy
        looked = doctor(agreeing.storage)
        assert looked.restarts
        assert looked.loadable == (*range(19), 23, 24)
    with pytest.raises(StatemaintError, match="nothing shows whether version 20 to 23 is right"):
        rollback(agreeing.storage, 21, trash_for=MONTH)
    swapped(agreeing, 20, 21)
    assert verify(agreeing.storage, deep=True).findings == ()
    assert agreeing.wrong == []


LEAN = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=1, grace=0, orphan_age=0)


def test_nothing_is_made_of_a_version_in_doubt_and_nothing_below_it_goes(
    agreeing: RewoundQuery,
) -> None:
    agreeing.purge(20)
    before = agreeing.names
    for _ in range(3):  # when it is noticed, and when it is known
        assert maintain(agreeing.storage, LEAN).exit_code == 0
        assert agreeing.names == before
    assert codes(maintain(agreeing.storage, LEAN).findings) == {"LOG_REPLACED"}
    swapped(agreeing, 20, 21)
    assert agreeing.wrong == []
    agreeing.run(25, 49)
    agreeing.purge(40)
    assert maintain(agreeing.storage, LEAN).exit_code == 0
    assert min(agreeing.names) == "41.delta"
    assert agreeing.wrong == []


def test_a_snapshot_in_the_doubted_part_protects_nothing(agreeing: RewoundQuery) -> None:
    """A run that did not know yet has put one there."""
    agreeing.storage.write(f"{HOME}/21.snapshot", [encode(agreeing.loaded[21].items())])
    agreeing.purge(21)
    for _ in range(3):
        assert maintain(agreeing.storage, LEAN).exit_code == 0
        assert "1.delta" in agreeing.names


def test_nothing_leaves_the_trash_while_the_log_is_in_doubt(agreeing: RewoundQuery) -> None:
    """What is in there may be all that is left of what was replaced."""
    path = "_statemaint/trash/run-1/state/0/0/20.delta"
    agreeing.storage.write(path, [b"as it was before"])
    line = {"path": f"{HOME}/20.delta", "bytes": 16, "until": 1.0}
    manifest = "_statemaint/trash/run-1/manifest/0-0.page-000001.jsonl"
    agreeing.storage.write(manifest, [json.dumps(line).encode() + b"\n"])
    for _ in range(2):  # when it is noticed, and when it is known
        assert maintain(agreeing.storage, TIGHT).exit_code == 0
        assert path in agreeing.storage.files
    swapped(agreeing, 20, 21)
    for _ in range(2):
        assert maintain(agreeing.storage, TIGHT).exit_code == 0
    assert path not in agreeing.storage.files


@pytest.fixture
def edge() -> RewoundQuery:
    """10.snapshot is the oldest file but 10.delta; that one and 11.delta changed places."""
    found = RewoundQuery(keys=1)
    found.run(0, 19)
    found.purge(9)
    assert maintain(found.storage, TIGHT).exit_code == 0
    assert min(found.names) == "10.delta"
    assert {"10.snapshot", "20.snapshot"} <= found.names
    swapped(found, 10, 11)
    return found


def forgets_its_proof(query: RewoundQuery, name: str) -> None:
    """Leaves the ledger as a run does that is killed before it has proved a snapshot."""
    path = "_statemaint/attestations/0/0/default.json"
    noted = json.loads(query.storage.files[path])
    proofs = [one for one in noted["attestations"] if not one["path"].endswith(f"/{name}")]
    assert len(proofs) == len(noted["attestations"]) - 1
    content = json.dumps(noted | {"attestations": proofs}).encode()
    query.storage.write(path, [content], overwrite=True)


def without_snapshot(query: RewoundQuery, name: str) -> None:
    forgets_its_proof(query, name)
    query.storage.delete(f"{HOME}/{name}")


def test_a_log_that_was_edited_at_its_lowest_end_is_compared_with_all_above(
    edge: RewoundQuery,
) -> None:
    """A run was killed before it proved 20.snapshot, which alone knows what 11.delta was."""
    forgets_its_proof(edge, "20.snapshot")
    edge.run(20, 29)
    swapped(edge, 11, 20)
    before = edge.names
    for _ in range(2):
        report = maintain(edge.storage, TIGHT)
        assert codes(report.findings) >= {"SNAPSHOT_MISMATCH"}
        assert edge.names == before
    assert plan_repair(edge.storage).actions == ()
    found = doctor(edge.storage)
    assert found.goes_back_to is None
    assert "the log below was changed after state/0/0/10.snapshot was proved" in found.next[0]
    swapped(edge, 11, 20)
    swapped(edge, 10, 11)
    assert maintain(edge.storage, TIGHT).exit_code == 0
    assert edge.wrong == []
    assert verify(edge.storage, deep=True).findings == ()


def test_where_nobody_bears_witness_no_batch_above_counts_as_good(edge: RewoundQuery) -> None:
    without_snapshot(edge, "20.snapshot")
    assert edge.wrong == [11]
    for _ in range(3):  # when it is noticed, and when it is known
        for deep in (False, True):
            (one,) = verify(edge.storage, deep=deep).findings
            assert (one.code, one.batches) == (FindingCode.LOG_REPLACED, tuple(range(10, 20)))
            assert one.damage
        report = maintain(edge.storage, TIGHT)
        assert codes(report.findings) == {"LOG_REPLACED"}
        assert report.exit_code == 0
    with pytest.raises(StatemaintError, match="its rows may be wrong"):
        rollback(edge.storage, 15, trash_for=MONTH)


def test_the_doubt_ends_when_the_files_are_put_back(edge: RewoundQuery) -> None:
    without_snapshot(edge, "20.snapshot")
    halted = Policy(min_deltas_for_snapshot=50, min_batches_to_retain=10, grace=0, orphan_age=0)
    assert codes(maintain(edge.storage, halted).findings) == {"LOG_REPLACED"}
    swapped(edge, 10, 11)
    assert verify(edge.storage, deep=True).findings == ()
    assert maintain(edge.storage, TIGHT).findings == ()
    assert edge.wrong == []


def test_the_doubt_outlives_the_next_proof_of_the_lowest_snapshot() -> None:
    """A run was cut short, so that its base has to be proved anew before the rest goes."""
    query = RewoundQuery(keys=1)
    query.run(0, 19)
    query.purge(9)
    assert maintain(query.storage, replace(TIGHT, max_deletes_per_run=2)).exit_code == 0
    assert "9.delta" in query.names
    swapped(query, 10, 11)
    without_snapshot(query, "20.snapshot")
    rare = replace(TIGHT, min_deltas_for_snapshot=50)
    for _ in range(3):
        assert codes(maintain(query.storage, rare).findings) == {"LOG_REPLACED"}
        assert min(query.names) == "10.delta"
        (one,) = verify(query.storage, deep=True).findings
        assert (one.path, one.batches) == (f"{HOME}/10.delta", tuple(range(10, 20)))
    query.storage.write(f"{HOME}/20.snapshot", [encode([(b"other", b"1")])])
    assert codes(maintain(query.storage, rare).findings) == {"LOG_REPLACED", "SNAPSHOT_MISMATCH"}
    assert plan_repair(query.storage).actions == ()
    query.storage.delete(f"{HOME}/20.snapshot")
    swapped(query, 10, 11)
    assert verify(query.storage, deep=True).findings == ()


def test_a_doubt_is_noted_once_where_files_have_whole_seconds() -> None:
    """The comparison that confirms 20.snapshot does not read 10.delta, which is in doubt too."""
    query = RewoundQuery(keys=1, step=1.0, first=1_000_000.0)
    query.run(0, 19)
    query.purge(9)
    assert maintain(query.storage, TIGHT).exit_code == 0
    swapped(query, 10, 11)
    assert maintain(query.storage, TIGHT).exit_code == 0
    again = maintain(query.storage, TIGHT)
    assert (again.plan.actions, codes(again.findings)) == ((), {"LOG_REPLACED"})


def test_an_executors_snapshot_above_is_a_witness(edge: RewoundQuery) -> None:
    without_snapshot(edge, "20.snapshot")
    edge.storage.write(f"{HOME}/15.snapshot", [encode(edge.truth[15].items())])
    (one,) = verify(edge.storage).findings
    assert (one.code, one.batches) == (FindingCode.LOG_REPLACED, tuple(range(10, 14)))
    edge.storage.write(f"{HOME}/15.snapshot", [encode([(b"other", b"1")])], overwrite=True)
    found = verify(edge.storage).findings
    assert codes(found) == {"LOG_REPLACED", "SNAPSHOT_MISMATCH"}
    assert {one.batches for one in found} == {tuple(range(10, 20)), tuple(range(9, 20))}


def test_a_snapshot_that_was_never_proved_is_compared_before_a_newer_one_is_made(
    query: RewoundQuery,
) -> None:
    """A file of the log below it, which no proof names, was changed meanwhile."""
    forgets_its_proof(query, "20.snapshot")
    query.run(20, 29)
    swapped(query, 20, 15)
    before = query.names
    report = maintain(query.storage, TIGHT)
    assert codes(report.findings) == {"SNAPSHOT_MISMATCH"}
    assert query.names == before
    swapped(query, 20, 15)
    assert maintain(query.storage, TIGHT).exit_code == 0
    assert "30.snapshot" in query.names
    assert query.wrong == []


def overwritten(query: RewoundQuery) -> None:
    """An executor uploads its own snapshot of version 20 late: the same rows in another order."""
    rows = reversed(query.truth[20].items())
    query.storage.write(STALE, [encode(rows)], overwrite=True)


def test_the_proof_of_a_file_that_was_overwritten_still_says_what_the_log_was(
    query: RewoundQuery,
) -> None:
    edited = encode([(b"counter", b"another8")])
    query.storage.write(f"{HOME}/20.delta", [edited], overwrite=True)
    overwritten(query)
    before = query.names
    for _ in range(2):  # a run in between forgets nothing
        assert codes(maintain(query.storage, TIGHT).findings) == {"SNAPSHOT_MISMATCH"}
        query.run(len(query.truth) - 1, len(query.truth) - 1)
        before |= {f"{len(query.truth) - 1}.delta"}
        found = plan_repair(query.storage)
        assert found.actions == ()
        assert "20.delta was replaced after another file of this name was proved" in str(
            found.unrepaired
        )
    assert query.names == before


def test_the_proof_of_an_overwritten_file_does_not_condemn_what_a_rewound_query_wrote(
    query: RewoundQuery,
) -> None:
    rewound(query, 24)
    overwritten(query)
    assert verify(query.storage).findings == ()
    assert maintain(query.storage, TIGHT).findings == ()
    assert query.wrong == []
    assert verify(query.storage, deep=True).findings == ()


def test_the_proof_of_an_overwritten_file_ends_with_the_next_proof(query: RewoundQuery) -> None:
    overwritten(query)
    (store,) = scan_checkpoint(query.storage).stores
    assert store.lapsed == {STALE}
    query.run(20, 29)
    assert maintain(query.storage, TIGHT).exit_code == 0
    (store,) = scan_checkpoint(query.storage).stores
    assert {one.version for one in store.attestations} == {20, 30}
    assert store.former == ()


def test_a_snapshot_in_the_doubted_part_of_a_log_stays(agreeing: RewoundQuery) -> None:
    """An executor uploads its snapshot of version 21 late; what differs from it is the log."""
    assert maintain(agreeing.storage, TIGHT).exit_code == 0
    agreeing.storage.write(f"{HOME}/21.snapshot", [encode(agreeing.truth[21].items())])
    plan = plan_repair(agreeing.storage)
    assert plan.actions == ()
    assert f"{HOME}/20.delta was replaced; put the original back" in str(plan.unrepaired)


def test_a_snapshot_below_one_that_shows_the_log_in_doubt_stays(attested: RewoundQuery) -> None:
    """An executor uploads its snapshot of version 20 late, and nobody has compared it."""
    attested.storage.write(f"{HOME}/20.snapshot", [encode(attested.truth[20].items())])
    plan = plan_repair(attested.storage)
    assert plan.actions == ()
    assert f"the log below it is in doubt, as {HOME}/24.snapshot shows" in str(plan.unrepaired)


def test_a_snapshot_above_one_that_is_disputed_is_not_blamed_for_it() -> None:
    """A rewound query wrote the last delta again, and its commit, which would tell, is purged."""
    query = RewoundQuery()
    query.run(0, 5)
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.rewind(5)
    query.run(5, 7, source="b")
    query.purge(6)
    query.storage.write(f"{HOME}/7.snapshot", [encode(query.truth[7].items())])
    found = verify(query.storage, deep=True).findings
    assert {one.path for one in found if one.damage} == {f"{HOME}/6.snapshot"}
    assert plan_repair(query.storage).actions == ()
    assert query.wrong == []


def test_the_snapshot_below_is_blamed_where_the_log_proves_the_one_above() -> None:
    """It is needed for a retained version, and no retained version is its own."""
    query = RewoundQuery()
    query.run(0, 11)
    query.storage.write(f"{HOME}/7.snapshot", [encode([(b"wrong", b"1")])])
    query.storage.write(f"{HOME}/10.snapshot", [encode(query.truth[10].items())])
    query.purge(8)
    assert query.wrong == [9]
    looked = doctor(query.storage)
    assert {one.path for one in looked.findings} == {f"{HOME}/7.snapshot"}


def test_a_log_that_is_not_in_the_order_of_its_times_disproves_no_snapshot() -> None:
    """Two files that were moved, and kept their times; the snapshot is younger than both."""
    query = RewoundQuery(keys=1)
    query.run(0, 11)
    query.storage.write(f"{HOME}/10.snapshot", [encode(query.truth[10].items())])
    swapped(query, 10, 11)
    assert codes(verify(query.storage, deep=True).findings) == {"SNAPSHOT_MISMATCH"}
    plan = plan_repair(query.storage)
    assert plan.actions == ()
    assert "10.delta was written after state/0/0/11.delta, which no query does" in str(
        plan.unrepaired
    )


def test_two_snapshots_of_executors_that_agree_are_not_disproved_by_an_edited_log() -> None:
    query = RewoundQuery()
    query.run(0, 5)
    query.storage.write(f"{HOME}/6.snapshot", [encode(query.truth[6].items())])
    query.storage.write(f"{HOME}/4.delta", [encode([(b"edited", b"4")])], overwrite=True)
    query.run(6, 7)
    query.storage.write(f"{HOME}/7.snapshot", [encode(query.truth[7].items())])
    query.purge(6)
    found = verify(query.storage, deep=True).findings
    assert {one.path for one in found} == {f"{HOME}/6.snapshot"}
    assert plan_repair(query.storage).actions == ()


def test_a_right_snapshot_is_not_blamed_for_a_wrong_one_below() -> None:
    """Nobody has compared those of executors, and one of them is cut off."""
    query = RewoundQuery()
    query.run(0, 13)
    wrong, right = encode([(b"wrong", b"1")]), encode(query.truth[12].items())
    for version, content in ((4, b"cut"), (7, wrong), (12, right)):
        query.storage.write(f"{HOME}/{version}.snapshot", [content])
    query.purge(10)
    found = verify(query.storage, deep=True).findings
    assert {one.path for one in found} == {f"{HOME}/4.snapshot", f"{HOME}/7.snapshot"}
    done = repair(query.storage, trash_for=MONTH)
    assert {one.path for one in done.removed} == {f"{HOME}/4.snapshot", f"{HOME}/7.snapshot"}
    assert verify(query.storage, deep=True).healthy
    assert query.wrong == []


def _begun(query: RewoundQuery, version: int) -> None:
    """Plans a batch and writes its changes, and no commit."""
    query.storage.write(f"offsets/{version - 1}", [offsets_bytes()], overwrite=True)
    delta = encode([(b"running", b"batch")])
    query.storage.write(f"{HOME}/{version}.delta", [delta], overwrite=True)


def test_an_executor_may_snapshot_the_batch_that_is_running() -> None:
    query = RewoundQuery()
    query.run(0, 9)
    _begun(query, 11)
    query.storage.write(f"{HOME}/11.snapshot", [encode([(b"running", b"batch")])])
    assert verify(query.storage, deep=True).findings == ()
    # What a rewind has left looks alike, but for the plan of the batch that runs again.
    query.storage.write("offsets/10", [offsets_bytes()], overwrite=True)
    assert codes(verify(query.storage).findings) == {"SNAPSHOT_ABOVE_TARGET"}
    query.storage.delete("offsets/10")
    assert codes(verify(query.storage).findings) == {"SNAPSHOT_ABOVE_TARGET"}
    _begun(query, 11)
    assert codes(verify(query.storage).findings) == {"SNAPSHOT_ABOVE_TARGET"}


@pytest.mark.parametrize("version", [3, 10])
def test_an_unproved_snapshot_is_not_disproved_by_a_change_that_came_later(version: int) -> None:
    """Nobody knows which of the two is wrong, so neither maintenance nor repair decides."""
    query = RewoundQuery()
    query.run(0, 9)
    query.storage.write(f"{HOME}/10.snapshot", [encode(query.truth[10].items())])
    query.run(10, 24)
    edited = f"{HOME}/{version}.delta"
    query.storage.write(edited, [encode([(b"edited", b"3")])], overwrite=True)
    assert query.wrong == list(range(version, 10))
    report = maintain(query.storage, TIGHT)
    assert codes(report.findings) == {"SNAPSHOT_MISMATCH"}
    assert query.wrong == list(range(version, 10))
    plan = plan_repair(query.storage)
    assert plan.actions == ()
    assert f"{edited} was written after it, and not by a query that was rewound" in str(
        plan.unrepaired
    )


def test_a_swap_of_the_last_two_deltas_below_a_snapshot_is_no_rewind(
    query: RewoundQuery,
) -> None:
    """Copied over one another they are newer than the snapshot; their commits are not."""
    one, other = (query.storage.files[f"{HOME}/{version}.delta"] for version in (19, 20))
    query.storage.write(f"{HOME}/19.delta", [other], overwrite=True)
    query.storage.write(f"{HOME}/20.delta", [one], overwrite=True)
    assert codes(maintain(query.storage, TIGHT).findings) == {"SNAPSHOT_MISMATCH"}
    assert "20.snapshot" in query.names


def test_a_swap_is_no_rewind_either_once_the_commits_are_purged() -> None:
    query = RewoundQuery()
    query.run(0, 9)
    assert maintain(query.storage, TIGHT).exit_code == 0
    contents = query.storage.files
    for version, other in ((9, 10), (10, 9)):  # by `cp`, in this order
        content = contents[f"{HOME}/{other}.delta"]
        query.storage.write(f"{HOME}/{version}.delta", [content], overwrite=True)
    query.run(10, 20)
    query.purge(15)
    assert query.wrong == []  # 10.snapshot hides it
    assert codes(maintain(query.storage, TIGHT).findings) == {"SNAPSHOT_MISMATCH"}
    assert query.wrong == []


def test_a_late_task_that_writes_the_same_rows_in_another_order_spoils_nothing(
    query: RewoundQuery,
) -> None:
    path = f"{HOME}/20.delta"
    rows = decode(query.storage.files[path])
    query.storage.write(
        path, [encode([row for row in rows if len(row) == 2][::-1])], overwrite=True
    )
    assert verify(query.storage, deep=True).findings == ()
    assert maintain(query.storage, TIGHT).findings == ()
    assert "20.snapshot" in query.names


# -- an undo


def test_an_undo_brings_no_stale_snapshot_back(query: RewoundQuery) -> None:
    rewound(query, 24)
    done = repair(query.storage, trash_for=MONTH)
    query.run(25, 29, source="b")
    undo(query.storage, done.run)
    assert query.wrong == []
    assert verify(query.storage, deep=True).findings == ()


def test_an_undo_of_maintenance_leaves_a_stale_snapshot_in_the_trash(query: RewoundQuery) -> None:
    rewound(query, 29)
    run = maintain(query.storage, TIGHT).run
    for last in (29, 31):
        query.run(30, last, source="b")
        left = undo(query.storage, run).left
        assert STALE in str(left)
        assert query.wrong == []
        assert verify(query.storage, deep=True).findings == ()


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
