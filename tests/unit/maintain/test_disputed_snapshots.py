"""A snapshot and a log that differ: which of the two is wrong, or that nobody can know it."""

import pytest

from statemaint.audit import doctor, verify
from statemaint.maintain import maintain
from statemaint.planning import scan_checkpoint
from statemaint.recover import plan_repair, repair
from tests.certify.files import decode, encode
from tests.support.checkpoints import offsets_bytes
from tests.support.rewound import HOME, TIGHT, RewoundQuery, codes

MONTH = 30 * 86400.0
STALE = f"{HOME}/20.snapshot"


def test_a_snapshot_that_was_never_proved_is_compared_before_a_newer_one_is_made(
    query: RewoundQuery,
) -> None:
    """A file of the log below it, which no proof names, was changed meanwhile."""
    query.forget_proof("20.snapshot")
    query.run(20, 29)
    query.swap(20, 15)
    before = query.names
    report = maintain(query.storage, TIGHT)
    assert codes(report.findings) == {"SNAPSHOT_MISMATCH"}
    assert query.names == before
    query.swap(20, 15)
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
    query.rewind(15)
    query.run(15, 24, source="b")
    overwritten(query)
    assert verify(query.storage).findings == ()
    assert maintain(query.storage, TIGHT).findings == ()
    query.must_be_right()


def test_the_proof_of_an_overwritten_file_ends_with_the_next_proof(query: RewoundQuery) -> None:
    overwritten(query)
    (store,) = scan_checkpoint(query.storage).stores
    assert store.lapsed == {STALE}
    query.run(20, 29)
    assert maintain(query.storage, TIGHT).exit_code == 0
    (store,) = scan_checkpoint(query.storage).stores
    assert {one.version for one in store.attestations} == {20, 30}
    assert store.former == ()


def test_a_snapshot_above_one_that_is_disputed_is_not_blamed_for_it() -> None:
    """A rewound query wrote the last delta again, and its commit, which would tell, is purged."""
    query = RewoundQuery()
    query.run(0, 5)
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.rewind(5)
    query.run(5, 7, source="b")
    query.purge(6)
    query.upload(7)
    found = verify(query.storage, deep=True).findings
    assert {one.path for one in found if one.damage} == {f"{HOME}/6.snapshot"}
    assert plan_repair(query.storage).actions == ()
    assert query.wrong == []


def test_the_snapshot_below_is_blamed_where_the_log_proves_the_one_above() -> None:
    """It is needed for a retained version, and no retained version is its own."""
    query = RewoundQuery()
    query.run(0, 11)
    query.upload(7, {b"wrong": b"1"})
    query.upload(10)
    query.purge(8)
    assert query.wrong == [9]
    looked = doctor(query.storage)
    assert {one.path for one in looked.findings} == {f"{HOME}/7.snapshot"}


def test_a_log_that_is_not_in_the_order_of_its_times_disproves_no_snapshot() -> None:
    """Two files that were moved, and kept their times; the snapshot is younger than both."""
    query = RewoundQuery(keys=1)
    query.run(0, 11)
    query.upload(10)
    query.swap(10, 11)
    assert codes(verify(query.storage, deep=True).findings) == {"SNAPSHOT_MISMATCH"}
    plan = plan_repair(query.storage)
    assert plan.actions == ()
    assert "10.delta was written after state/0/0/11.delta, which no query does" in str(
        plan.unrepaired
    )


def test_two_snapshots_of_executors_that_agree_are_not_disproved_by_an_edited_log() -> None:
    query = RewoundQuery()
    query.run(0, 5)
    query.upload(6)
    query.storage.write(f"{HOME}/4.delta", [encode([(b"edited", b"4")])], overwrite=True)
    query.run(6, 7)
    query.upload(7)
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
    query.upload(11, {b"running": b"batch"})
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
    query.upload(10)
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
