"""A log that something other than its query has changed after a snapshot of it was proved."""

import json
from dataclasses import replace

import pytest

from statemaint.audit import doctor, verify
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.errors import StatemaintError
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.recover import plan_repair, repair, rollback
from tests.support.rewound import HOME, TIGHT, RewoundQuery, codes

MONTH = 30 * 86400.0


@pytest.fixture
def attested() -> RewoundQuery:
    """24 batches with a proved 24.snapshot, and one more batch; every delta writes one key."""
    found = RewoundQuery(keys=1)
    found.run(0, 23)
    assert maintain(found.storage, TIGHT).exit_code == 0
    found.run(24, 24)
    found.swap(20, 24)
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
    attested.swap(20, 24)
    assert maintain(attested.storage, TIGHT).exit_code == 0
    attested.must_be_right()


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
    found.swap(20, 21)
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
    agreeing.swap(20, 21)
    agreeing.must_be_right()


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
    agreeing.swap(20, 21)
    assert agreeing.wrong == []
    agreeing.run(25, 49)
    agreeing.purge(40)
    assert maintain(agreeing.storage, LEAN).exit_code == 0
    assert min(agreeing.names) == "41.delta"
    assert agreeing.wrong == []


def test_a_snapshot_in_the_doubted_part_protects_nothing(agreeing: RewoundQuery) -> None:
    """A run that did not know yet has put one there."""
    agreeing.upload(21, agreeing.loaded[21])
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
    agreeing.swap(20, 21)
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
    found.swap(10, 11)
    return found


def without_snapshot(query: RewoundQuery, name: str) -> None:
    query.forget_proof(name)
    query.storage.delete(f"{HOME}/{name}")


def test_a_log_that_was_edited_at_its_lowest_end_is_compared_with_all_above(
    edge: RewoundQuery,
) -> None:
    """A run was killed before it proved 20.snapshot, which alone knows what 11.delta was."""
    edge.forget_proof("20.snapshot")
    edge.run(20, 29)
    edge.swap(11, 20)
    before = edge.names
    for _ in range(2):
        report = maintain(edge.storage, TIGHT)
        assert codes(report.findings) >= {"SNAPSHOT_MISMATCH"}
        assert edge.names == before
    assert plan_repair(edge.storage).actions == ()
    found = doctor(edge.storage)
    assert found.goes_back_to is None
    assert "the log below was changed after state/0/0/10.snapshot was proved" in found.next[0]
    edge.swap(11, 20)
    edge.swap(10, 11)
    assert maintain(edge.storage, TIGHT).exit_code == 0
    edge.must_be_right()


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
    edge.swap(10, 11)
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
    query.swap(10, 11)
    without_snapshot(query, "20.snapshot")
    rare = replace(TIGHT, min_deltas_for_snapshot=50)
    for _ in range(3):
        assert codes(maintain(query.storage, rare).findings) == {"LOG_REPLACED"}
        assert min(query.names) == "10.delta"
        (one,) = verify(query.storage, deep=True).findings
        assert (one.path, one.batches) == (f"{HOME}/10.delta", tuple(range(10, 20)))
    query.upload(20, {b"other": b"1"})
    assert codes(maintain(query.storage, rare).findings) == {"LOG_REPLACED", "SNAPSHOT_MISMATCH"}
    assert plan_repair(query.storage).actions == ()
    query.storage.delete(f"{HOME}/20.snapshot")
    query.swap(10, 11)
    assert verify(query.storage, deep=True).findings == ()


def test_a_doubt_is_noted_once_where_files_have_whole_seconds() -> None:
    """The comparison that confirms 20.snapshot does not read 10.delta, which is in doubt too."""
    query = RewoundQuery(keys=1, step=1.0, first=1_000_000.0)
    query.run(0, 19)
    query.purge(9)
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.swap(10, 11)
    assert maintain(query.storage, TIGHT).exit_code == 0
    again = maintain(query.storage, TIGHT)
    assert (again.plan.actions, codes(again.findings)) == ((), {"LOG_REPLACED"})


def test_an_executors_snapshot_above_is_a_witness(edge: RewoundQuery) -> None:
    without_snapshot(edge, "20.snapshot")
    edge.upload(15)
    (one,) = verify(edge.storage).findings
    assert (one.code, one.batches) == (FindingCode.LOG_REPLACED, tuple(range(10, 14)))
    edge.upload(15, {b"other": b"1"})
    found = verify(edge.storage).findings
    assert codes(found) == {"LOG_REPLACED", "SNAPSHOT_MISMATCH"}
    assert {one.batches for one in found} == {tuple(range(10, 20)), tuple(range(9, 20))}


def test_a_snapshot_in_the_doubted_part_of_a_log_stays(agreeing: RewoundQuery) -> None:
    """An executor uploads its snapshot of version 21 late; what differs from it is the log."""
    assert maintain(agreeing.storage, TIGHT).exit_code == 0
    agreeing.upload(21)
    plan = plan_repair(agreeing.storage)
    assert plan.actions == ()
    assert f"{HOME}/20.delta was replaced; put the original back" in str(plan.unrepaired)


def test_a_snapshot_below_one_that_shows_the_log_in_doubt_stays(attested: RewoundQuery) -> None:
    """An executor uploads its snapshot of version 20 late, and nobody has compared it."""
    attested.upload(20)
    plan = plan_repair(attested.storage)
    assert plan.actions == ()
    assert f"the log below it is in doubt, as {HOME}/24.snapshot shows" in str(plan.unrepaired)
