"""The record of a query in its checkpoint."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from statemaint.errors import (
    ConfigError,
    DamagedError,
    LeaseHeldError,
    NotACheckpointError,
    RefusedLinkError,
    StatemaintError,
    StorageError,
    Superseded,
    UnsupportedError,
)
from statemaint.execute.lease import acquire
from statemaint.maintain import maintain, undo
from statemaint.maintain.record import (
    note_savepoint,
    note_verification,
    read_record,
    recorded,
    recorded_recovery,
    trash_size,
    write_record,
)
from statemaint.model.policy import Policy
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan.actions import Request
from statemaint.records.claims import Holder
from statemaint.records.runs import METRICS
from statemaint.recover import repair, rollback
from statemaint.report.facts import RunFacts
from statemaint.report.record import (
    Cause,
    LastRun,
    LastSavepoint,
    LastVerification,
    Record,
    next_record,
)
from statemaint.report.run import Report
from statemaint.storage import MemoryStorage, ReadOnly
from tests.support.checkpoints import offsets_bytes, write_checkpoint
from tests.support.faults import Clock, HookedStorage, refuse
from tests.support.metrics import last_record

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0.0)


def maintained_before() -> tuple[MemoryStorage, Record]:
    """Returns a storage that a run `a` has maintained some time ago, and its record."""
    clock = Clock(1000.0)
    storage = write_checkpoint(MemoryStorage(clock=clock))
    recorded(storage, partial(maintain, storage, Policy(), run="a"))
    record = read_record(storage)
    assert record is not None
    clock.now = 2000.0
    return storage, record


def test_a_record_is_read_as_it_was_written() -> None:
    storage = MemoryStorage()
    assert read_record(storage) is None
    record = next_record(None, LastRun("r", 5.0))
    write_record(storage, record)
    assert read_record(storage) == record


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"v": 2}', b'{"v": 1}', b"null"])
def test_one_that_is_none_of_ours_is_as_none(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage()
    storage.write(METRICS, [content])
    assert read_record(storage) is None
    assert "not a record of this version" in caplog.text


def test_the_trash_is_counted() -> None:
    storage = MemoryStorage()
    assert trash_size(storage) == (0, 0)
    storage.write("_statemaint/trash/r/state/0/0/1.delta", [b"1234"])
    assert trash_size(storage) == (1, 4)


SOUND: Any = {"healthy": True, "verdict": Verdict.HEALTHY, "looked": Looked.ENDS}
BROKEN: Any = {"healthy": False, "verdict": Verdict.BROKEN, "looked": Looked.ENDS}


def test_a_verification_is_noted_and_a_later_run_keeps_it() -> None:
    storage = MemoryStorage(clock=Clock(70.0))
    note_verification(storage, (), **SOUND)
    never_ran = read_record(storage)
    verified = LastVerification(70.0, healthy=True)
    assert never_ran == Record(None, verified=verified, verdicts={Looked.ENDS: Verdict.HEALTHY})
    assert next_record(never_ran, LastRun("r", 5.0)).verified == never_ran.verified
    record = next_record(None, LastRun("r", 5.0))
    write_record(storage, record)
    note_verification(storage, {"BROKEN_CHAIN"}, **BROKEN)
    noted = read_record(storage)
    assert noted is not None
    assert noted.verified == LastVerification(70.0, healthy=False)
    assert next_record(noted, LastRun("s", 90.0)).verified == noted.verified


def test_a_sample_can_only_make_the_verdict_worse() -> None:
    storage, verdicts = MemoryStorage(), []
    for found in (SOUND, BROKEN, SOUND):
        note_verification(storage, (), **found, sampled=True)
        record = read_record(storage)
        assert record
        verdicts.append(dict(record.verdicts))
    assert verdicts == [{}, {Looked.ENDS: Verdict.BROKEN}, {Looked.ENDS: Verdict.BROKEN}]


def test_a_savepoint_is_noted_and_nothing_else_changes() -> None:
    storage, saved = MemoryStorage(), LastSavepoint(80.0, batch=3, bytes=10, seconds=2.0)
    note_savepoint(storage, saved)
    assert read_record(storage) == Record(None, savepoint=saved)
    note_verification(storage, (), **SOUND)
    write_record(storage, next_record(read_record(storage), LastRun("r", 90.0)))
    known = read_record(storage)
    assert known
    assert known.savepoint == saved
    newer = replace(saved, ended=100.0)
    note_savepoint(storage, newer)
    assert read_record(storage) == replace(known, savepoint=newer)


def test_where_nothing_can_be_written_a_verification_ends_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = MemoryStorage()
    write_record(storage, next_record(None, LastRun("r", 5.0)))
    note_verification(ReadOnly(storage), (), **SOUND)
    assert "the verification is not in the metrics" in caplog.text


def test_a_run_without_airflow_has_its_figures_and_adds_to_the_totals() -> None:
    storage = write_checkpoint(MemoryStorage())
    for run in ("a", "b"):
        recorded(storage, partial(maintain, storage, TIGHT, run=run))
    record, last = last_record(storage)
    assert (last.committed, last.lag, last.failed) == (24, 0, ())
    assert record.success == last.ended
    assert record.totals["files"] == 32
    storage.delete("state/0/0/20.delta")
    recorded(storage, partial(maintain, storage, TIGHT, run="c"))
    halted = read_record(storage)
    assert halted is not None
    assert halted.last is not None
    assert halted.last.failed == (Cause.DAMAGE,)
    assert halted.success == record.success


def test_a_run_that_fails_before_its_plan_is_recorded_and_leaves_what_was_known() -> None:
    storage, first = maintained_before()
    acquire(storage, Holder("other"), seconds=600.0)
    with pytest.raises(LeaseHeldError):
        recorded(storage, partial(maintain, storage, TIGHT.override(min_deltas_for_snapshot=1)))
    refused = read_record(storage)
    assert refused is not None
    assert refused.last is not None
    assert (refused.last.failed, refused.last.facts) == ((Cause.LEASE,), None)
    assert (refused.success, refused.known) == (first.success, first.last)
    assert refused.totals["runs/failed"] == 1
    assert refused.trash is not None
    assert (refused.known and refused.known.ended, refused.trash.seen) == (1000.0, 2000.0)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("no such partition"),
        NotACheckpointError("file:/x", "it is empty"),
        Superseded("x", "it moved on"),
        RefusedLinkError("_statemaint/trash", "it is a link"),
    ],
)
def test_a_run_that_was_refused_for_its_arguments_changes_no_record(error: StatemaintError) -> None:
    def refused() -> Report:
        raise error

    storage = MemoryStorage()
    with pytest.raises(type(error)):
        recorded(storage, refused)
    assert not [*storage.list("")]


def test_a_first_run_that_fails_at_planning_has_a_record() -> None:
    storage = write_checkpoint(MemoryStorage())
    storage.write("offsets/24", [offsets_bytes(codec="gzip")], overwrite=True)
    with pytest.raises(UnsupportedError):
        recorded(storage, partial(maintain, storage, TIGHT))
    record, last = last_record(storage)
    assert (last.failed, record.success) == ((Cause.PLAN,), None)


def test_a_run_of_a_part_counts_in_the_totals_and_the_last_run_of_all_stays() -> None:
    storage = write_checkpoint(MemoryStorage(), partitions=2)
    storage.delete("state/0/1/20.delta")
    part = partial(maintain, storage, TIGHT, request=Request(partitions=frozenset({0})))
    done = recorded(storage, part, part=True)
    record = read_record(storage)
    assert record is not None
    assert (record.last, record.success, record.known) == (None, None, None)
    assert record.totals["files"] == done.files_deleted.total() > 0
    recorded(storage, partial(maintain, storage, TIGHT, run="a"))
    recorded(storage, part, part=True)
    record, last = last_record(storage)
    assert (last.run, last.failed, record.success) == ("a", (Cause.DAMAGE,), None)
    assert (record.totals["runs/succeeded"], record.totals["runs/failed"]) == (2, 1)
    assert next_record(record, last).totals == record.totals


def test_totals_do_not_fall_when_a_run_is_repeated_that_did_more_before() -> None:
    def ended(run: str, snapshots: int, *failed: Cause) -> LastRun:
        return LastRun(run, 5.0, failed, facts=RunFacts(sums={"snapshots": snapshots}))

    record = next_record(next_record(None, ended("a", 3)), ended("b", 7, Cause.DAMAGE))
    cleared = next_record(record, ended("b", 0))
    assert (cleared.totals["snapshots"], cleared.totals["runs/failed"]) == (10, 1)
    assert next_record(cleared, ended("b", 9)).totals["snapshots"] == 12
    assert next_record(cleared, ended("c", 1)).totals["snapshots"] == 11


def test_a_repair_a_rollback_and_an_undo_leave_the_record_and_no_figure_changes() -> None:
    storage, first = maintained_before()
    storage.write("state/0/0/20.snapshot", [b"torn"], overwrite=True)
    repaired = recorded_recovery(storage, partial(repair, storage, trash_for=600.0))
    record, last = last_record(storage)
    assert (last.run, last.ended) == (repaired.run, 2000.0)
    assert (last.failed, last.done.sums["snapshots"]) == ((), 1)
    assert last.done.counts["deleted"] == {"bad_snapshot": 1}
    assert last.done.counts["requests"]["list"] > 0
    assert (record.success, record.known) == (first.success, first.last)
    assert record.trash is not None
    assert (record.trash.files, record.trash.seen) == (1, 2000.0)
    assert record.totals["files"] == first.totals["files"] + 1
    assert Record.from_json(record.to_json()) == record
    rolled = recorded_recovery(storage, partial(rollback, storage, 22, trash_for=600.0))
    back = recorded_recovery(storage, partial(undo, storage, rolled.run))
    record, last = last_record(storage)
    assert (last.run, last.done.sums) == (back.undo, {})
    assert record.totals["runs/succeeded"] == 4
    assert record.totals["files"] == first.totals["files"] + 1 + len(rolled.removed)


def test_a_recovery_that_cannot_repair_or_take_the_lease_is_recorded_as_failed() -> None:
    storage = write_checkpoint(MemoryStorage())
    storage.write("state/0/0/20.snapshot", [b"torn"], overwrite=True)
    lease = acquire(storage, Holder("other"), seconds=600.0)
    with pytest.raises(LeaseHeldError):
        recorded_recovery(storage, partial(repair, storage, trash_for=600.0))
    record, last = last_record(storage)
    assert last.failed == (Cause.LEASE,)
    lease.release()
    storage.delete("state/0/0/23.delta")
    assert recorded_recovery(storage, partial(repair, storage, trash_for=600.0)).incomplete
    record, last = last_record(storage)
    assert (last.failed, record.success) == ((Cause.DAMAGE,), None)


def test_a_rollback_to_a_damaged_batch_leaves_the_verdict_of_the_query() -> None:
    storage, first = maintained_before()
    storage.delete("state/0/0/19.delta")
    with pytest.raises(DamagedError, match="cannot roll back to batch 18"):
        recorded_recovery(storage, partial(rollback, storage, 18, trash_for=600.0))
    record, last = last_record(storage)
    assert (last.failed, record.totals["runs/failed"]) == ((Cause.PLAN,), 1)
    assert (record.verdicts, record.known) == (first.verdicts, first.last)


def test_a_run_whose_listing_fails_leaves_nothing_where_nobody_has_seen_a_checkpoint() -> None:
    storage = HookedStorage(before=refuse("list", error="refused"))
    with pytest.raises(StorageError, match="refused"):
        recorded(storage, partial(maintain, storage, TIGHT))
    with pytest.raises(StorageError, match="refused"):
        recorded_recovery(storage, partial(repair, storage, trash_for=600.0))
    assert not storage.files
    write_record(storage, Record(None))
    with pytest.raises(StorageError, match="refused"):
        recorded(storage, partial(maintain, storage, TIGHT))
    _, last = last_record(storage)
    assert last.failed == (Cause.STORAGE,)
