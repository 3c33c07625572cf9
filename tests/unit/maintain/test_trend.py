"""The trend of a query in its checkpoint: every run that writes the record adds to it."""

from functools import partial

import pytest

from statemaint.errors import DamagedError
from statemaint.maintain import maintain
from statemaint.maintain.record import read_record, read_trend, recorded, recorded_recovery
from statemaint.model.policy import Policy
from statemaint.model.verdict import Verdict
from statemaint.records.runs import TREND
from statemaint.recover import rollback
from statemaint.report.run import Report
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, refuse

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0.0)


def run(storage: MemoryStorage, name: str, *, part: bool = False) -> Report:
    return recorded(storage, partial(maintain, storage, TIGHT, run=name), part=part)


def test_each_run_leaves_a_point_also_one_without_work() -> None:
    clock = Clock(1000.0)
    storage = write_checkpoint(MemoryStorage(clock=clock), partitions=2)
    run(storage, "a")
    clock.now = 2000.0
    run(storage, "b")
    first, second = read_trend(storage).points
    assert (first.time, first.verdict, first.chain, first.damage) == (1000, Verdict.HEALTHY, 0, 0)
    record = read_record(storage)
    assert record
    assert record.last
    facts = record.last.done
    assert second == first._replace(time=2000, seconds=second.seconds)
    assert (second.bytes, second.files) == (facts.sums["bytes"], facts.sums["files"])


def test_damage_shows_in_the_point_of_its_run() -> None:
    storage = write_checkpoint(MemoryStorage())
    run(storage, "a")
    storage.delete("state/0/0/24.delta")
    run(storage, "b")
    sound, damaged = read_trend(storage).points
    assert (sound.verdict, damaged.verdict) == (Verdict.HEALTHY, Verdict.DEGRADED)
    assert (sound.damage, damaged.damage) == (0, 1)


def test_a_run_reads_the_trend_once_and_writes_it_once() -> None:
    storage = HookedStorage(write_checkpoint(MemoryStorage()))
    run(storage, "a")
    storage.calls.clear()
    run(storage, "b")
    assert [verb for verb, path in storage.calls if path == TREND] == ["read", "write"]


def test_a_run_of_a_part_a_dry_run_and_a_recovery_leave_no_point() -> None:
    storage = write_checkpoint(MemoryStorage())
    run(storage, "a", part=True)
    maintain(storage, TIGHT, dry_run=True)
    recorded_recovery(storage, partial(rollback, storage, 22, trash_for=600.0))
    storage.delete("state/0/0/20.delta")
    with pytest.raises(DamagedError):
        recorded_recovery(storage, partial(rollback, storage, 21, trash_for=600.0))
    assert read_record(storage)
    assert not [entry for entry in storage.list("_statemaint") if entry.path == TREND]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"v": 2}',
        b"\xff",
        b"[" * 100_000,
        b'{"v": 1e999}',
        b'{"v": 1, "points": [%s]}' % b",".join([b"[]"] * 500_000),
    ],
)
def test_a_file_of_another_build_is_replaced_and_nothing_else_is_lost(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    storage = write_checkpoint(MemoryStorage())
    run(storage, "a")
    storage.replace(TREND, [content])
    assert read_trend(storage).points == ()
    assert "not a trend of this version" in caplog.text
    run(storage, "b")
    record = read_record(storage)
    assert record
    assert record.totals["runs/succeeded"] == 2
    assert len(read_trend(storage).points) == 1


def test_a_trend_that_cannot_be_read_is_left_alone_and_the_run_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = write_checkpoint(MemoryStorage())
    run(storage, "a")
    before = storage.read(TREND)
    report = run(HookedStorage(storage, before=refuse("read", TREND)), "b")
    assert report.exit_code == 0
    assert "the run is not in the trend" in caplog.text
    assert storage.read(TREND) == before
    record = read_record(storage)
    assert record
    assert record.last
    assert record.last.run == "b"


def test_where_the_trend_cannot_be_written_the_run_succeeds_and_is_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = write_checkpoint(MemoryStorage())
    report = run(HookedStorage(storage, before=refuse("write", TREND)), "a")
    assert report.exit_code == 0
    assert "the run is not in the trend" in caplog.text
    assert read_record(storage)
    assert read_trend(storage).points == ()
