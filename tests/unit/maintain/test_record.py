"""The record of a query in its checkpoint."""

import pytest

from statemaint.maintain import maintain
from statemaint.maintain.record import (
    PATH,
    note_run,
    note_verification,
    read_record,
    trash_size,
    write_record,
)
from statemaint.model.policy import Policy
from statemaint.report.record import Cause, LastRun, LastVerification, next_record
from statemaint.storage import MemoryStorage, ReadOnly
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock


def test_it_is_read_as_it_was_written() -> None:
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
    storage.write(PATH, [content])
    assert read_record(storage) is None
    assert "not a record of this version" in caplog.text


def test_the_trash_is_counted() -> None:
    storage = MemoryStorage()
    assert trash_size(storage) == (0, 0)
    storage.write("_statemaint/trash/r/state/0/0/1.delta", [b"1234"])
    assert trash_size(storage) == (1, 4)


def test_a_verification_is_noted_and_a_later_run_keeps_it() -> None:
    storage = MemoryStorage(clock=Clock(70.0))
    note_verification(storage, healthy=False)
    assert read_record(storage) is None  # of what never ran there are no metrics
    record = next_record(None, LastRun("r", 5.0))
    write_record(storage, record)
    note_verification(storage, healthy=False)
    noted = read_record(storage)
    assert noted is not None
    assert noted.verified == LastVerification(70.0, healthy=False)
    assert next_record(noted, LastRun("s", 90.0)).verified == noted.verified


def test_where_nothing_can_be_written_a_verification_ends_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = MemoryStorage()
    write_record(storage, next_record(None, LastRun("r", 5.0)))
    note_verification(ReadOnly(storage), healthy=True)
    assert "the verification is not in the metrics" in caplog.text


def test_a_run_without_airflow_has_its_figures_and_adds_to_the_totals() -> None:
    storage = MemoryStorage()
    write_checkpoint(storage)
    policy = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0.0)
    for run in ("a", "b"):
        report = maintain(storage, policy, run=run)
        note_run(storage, report)
        note_run(storage, report)  # a report that is repeated counts once
    record = read_record(storage)
    assert record is not None
    assert (record.last.committed, record.last.lag, record.last.failed) == (24, 0, ())
    assert record.success == record.last.ended
    assert record.totals["files"] == 32
    storage.delete("state/0/0/20.delta")
    note_run(storage, maintain(storage, policy, run="c"))
    halted = read_record(storage)
    assert halted is not None
    assert halted.last.failed == (Cause.DAMAGE,)
    assert halted.success == record.success
