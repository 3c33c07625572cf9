"""The record of a query: its last run, and totals that never fall."""

import json
from dataclasses import replace

import pytest

from statemaint.model.verdict import Looked, Verdict
from statemaint.report.facts import RunFacts
from statemaint.report.record import (
    Cause,
    CountedTrash,
    LastRun,
    LastSavepoint,
    LastVerification,
    Record,
    next_record,
    with_loss,
    with_verdict,
)

FACTS = RunFacts(
    sums={"snapshots": 2, "written": 30, "deleted": 700},
    counts={"deleted": {"below_base": 5, "orphan_sst": 1}, "requests": {"list": 3, "read": 4}},
)


def run(name: str, *failed: Cause, facts: RunFacts | None = FACTS, ended: float = 10.0) -> LastRun:
    return LastRun(name, ended, failed, facts=facts, storage_errors=len(failed))


def test_totals_add_up_over_runs() -> None:
    record = next_record(next_record(None, run("a")), run("b", Cause.STORAGE))
    assert record.totals == {
        "runs/succeeded": 1,
        "runs/failed": 1,
        "storage_errors": 1,
        "snapshots": 4,
        "written": 60,
        "deleted": 1400,
        "files": 12,
        "requests/list": 6,
        "requests/read": 8,
    }


def test_a_run_that_reports_twice_is_counted_once() -> None:
    record = next_record(None, run("a"))
    assert next_record(next_record(record, run("b")), run("b")).totals["deleted"] == 1400
    # What has no name may be another run.
    unnamed = next_record(next_record(record, run("")), run(""))
    assert unnamed.totals["deleted"] == 2100


def test_the_last_success_stays_while_runs_fail() -> None:
    record = next_record(None, run("a", Cause.PLAN, facts=None))
    assert record.success is None
    record = next_record(record, run("b", ended=20))
    assert next_record(record, run("c", Cause.DAMAGE, ended=30)).success == 20


def test_a_lost_push_is_counted_by_the_next_run_too() -> None:
    record = with_loss(with_loss(next_record(None, run("a"))))
    assert next_record(record, run("b")).totals["losses"] == 2


def test_figures_that_a_run_did_not_look_at_stay_with_their_time() -> None:
    counted = replace(run("a", ended=10), trash_files=3, trash_bytes=90)
    failed = next_record(next_record(None, counted), run("b", Cause.PLAN, facts=None, ended=20))
    again = next_record(failed, run("c", Cause.LEASE, facts=None, ended=30))
    assert again.known == counted
    assert again.trash == CountedTrash(3, 90, seen=10)
    later = next_record(again, replace(run("d", ended=40), trash_files=0, trash_bytes=0))
    assert (later.known, later.looked, later.trash) == (
        later.last,
        None,
        CountedTrash(0, 0, seen=40),
    )


def test_a_record_of_an_earlier_build_has_the_figures_of_its_last_run() -> None:
    last = replace(run("a", ended=10), trash_files=3, trash_bytes=90)
    stored = next_record(None, last).to_json()
    earlier = Record.from_json({k: v for k, v in stored.items() if k not in ("looked", "trash")})
    assert (earlier.known, earlier.trash) == (last, CountedTrash(3, 90, seen=10))


def test_a_verification_stays_while_runs_go_on() -> None:
    record = Record(run("a"), verified=LastVerification(5, healthy=False))
    assert next_record(record, run("b")).verified == LastVerification(5, healthy=False)


@pytest.mark.parametrize(
    "record",
    [
        Record(run("a", Cause.LEASE, facts=None)),
        Record(None, verified=LastVerification(5, healthy=False)),
        Record(None, savepoint=LastSavepoint(5.5, batch=1, bytes=2, seconds=3.5)),
        next_record(next_record(None, run("a")), run("b", Cause.PLAN, facts=None)),
        next_record(Record(run("a"), verified=LastVerification(5, healthy=True)), run("b")),
    ],
)
def test_a_record_is_stored_and_read(record: Record) -> None:
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_record_of_a_later_build_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2"):
        Record.from_json({"v": 2})


def test_a_look_replaces_the_verdicts_of_looks_that_were_not_deeper() -> None:
    record = Record(None, verdicts={Looked.NAMES: Verdict.HEALTHY, Looked.ENDS: Verdict.BROKEN})
    run = with_verdict(record, Looked.NAMES, Verdict.DEGRADED)
    assert run.verdicts == {Looked.NAMES: Verdict.DEGRADED, Looked.ENDS: Verdict.BROKEN}
    assert with_verdict(run, Looked.ROWS, Verdict.HEALTHY).verdicts == {
        Looked.ROWS: Verdict.HEALTHY
    }
    assert Record.from_json(json.loads(json.dumps(run.to_json()))).verdicts == run.verdicts


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (LastRun("r", 1.0), Verdict.EMPTY),
        (LastRun("r", 1.0, (Cause.STORAGE,)), Verdict.UNKNOWN),
        (LastRun("r", 1.0, (Cause.PLAN,)), Verdict.UNKNOWN),
        (LastRun("r", 1.0, (Cause.LEASE,)), None),
        (LastRun("r", 1.0, (Cause.DAMAGE,), work=RunFacts()), None),
        (LastRun("r", 1.0, committed=3, facts=RunFacts(highest={"verdict": 2})), Verdict.DEGRADED),
        (LastRun("r", 1.0, committed=3, facts=RunFacts()), None),
        (
            LastRun("r", 1.0, (Cause.STORAGE,), facts=RunFacts(highest={"verdict": 4})),
            Verdict.BROKEN,
        ),
    ],
)
def test_a_run_leaves_its_verdict_in_the_record(last: LastRun, expected: Verdict | None) -> None:
    assert next_record(None, last).verdicts.get(Looked.NAMES) is expected
