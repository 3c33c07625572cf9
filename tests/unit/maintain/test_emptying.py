"""What ran is reported, and what was deleted from the trash, whatever emptying it says."""

import json
from functools import partial
from itertools import count

import pytest
from prometheus_client import generate_latest

from statemaint.cli.maintain import end_with_report
from statemaint.cli.output import Settings, in_force
from statemaint.errors import LeaseLostError, StorageError
from statemaint.maintain import list_runs, maintain
from statemaint.maintain.record import recorded
from statemaint.maintain.run import end_run
from statemaint.metrics.families import families, registry_of
from statemaint.model.findings import Finding, FindingCode
from statemaint.records.claims import Holder
from statemaint.records.manifest import FOLDER
from statemaint.report.facts import RunFacts
from statemaint.report.record import Cause, LastRun, with_emptied
from statemaint.report.run import Emptied, Report
from statemaint.report.to_json import report_json
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, refuse
from tests.support.going_on import run as run_query
from tests.support.metrics import last_record, named, series_of
from tests.support.undone import DAY, KEEPING

REFUSED = "access denied, s3:DeleteObject is not allowed"


@pytest.fixture
def storage(clock: Clock) -> HookedStorage:
    """A checkpoint whose query has gone on since a run whose trash cannot be emptied."""
    found = write_checkpoint(HookedStorage(clock=clock), partitions=1)
    assert maintain(found, KEEPING, run="old").files_deleted.total() == 16
    clock.now += 2 * DAY
    run_query(found, 25, 45, retain=9)
    clock.now += DAY
    found.before = refuse("delete", f"{FOLDER}/*", REFUSED)
    return found


def in_trash(storage: MemoryStorage, run: str) -> list[str]:
    folder = f"{FOLDER}/{run}/"
    return [one for one in storage.files if one.startswith(folder) and "/manifest/" not in one]


def test_a_run_that_cannot_empty_the_trash_is_reported_with_all_that_it_did(
    storage: HookedStorage,
) -> None:
    report = maintain(storage, KEEPING, run="new")
    assert report.snapshots_written == 2
    assert report.files_deleted.total() == len(in_trash(storage, "new")) > 10
    (finding,) = report.findings
    assert finding.code is FindingCode.TRASH_NOT_EMPTIED
    assert "s3:DeleteObject is not allowed" in finding.detail
    assert report.exit_code == 5
    assert (report.emptied.files, report.emptied.bytes) == (0, 0)
    assert len(in_trash(storage, "old")) == 16


def test_the_ledger_has_the_exit_code_of_the_report(storage: HookedStorage) -> None:
    report = maintain(storage, KEEPING, run="new")
    new = next(one for one in list_runs(storage) if one.run == "new")
    assert new.exit_code == report.exit_code == 5
    assert (new.tasks, new.files_deleted) == (1, report.files_deleted.total())
    assert new.snapshots_written == 2


def test_the_next_run_holds_the_lease_and_empties_the_trash(storage: HookedStorage) -> None:
    maintain(storage, KEEPING, run="new")
    storage.works_again()
    report = maintain(storage, KEEPING, run="next")
    assert (report.exit_code, report.findings, report.emptied.files) == (0, (), 16)
    assert in_trash(storage, "old") == []


def test_a_lease_that_is_lost_while_the_trash_is_emptied_hides_no_work(
    storage: HookedStorage,
) -> None:
    storage.before = refuse("delete", f"{FOLDER}/*", LeaseLostError("memory:", 3))
    report = maintain(storage, KEEPING, run="new")
    assert report.snapshots_written == 2
    assert [one.code for one in report.findings] == [FindingCode.TRASH_NOT_EMPTIED]
    assert "lease 3 is lost" in report.findings[0].detail
    assert report.exit_code == 5


def printed(
    report: Report, capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> tuple[str, str]:
    with pytest.raises(SystemExit) as end, in_force(Settings(as_json=as_json)):
        end_with_report(report)
    assert end.value.code == report.exit_code
    out, err = capsys.readouterr()
    return out, err


def test_the_command_line_prints_the_report_its_id_and_the_finding(
    storage: HookedStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = printed(maintain(storage, KEEPING, run="new"), capsys, as_json=False)
    assert out.startswith("run new: memory:\nverdict     healthy: ")
    assert "\n2 snapshots written" in out
    assert "moved to the trash" in out
    assert err.startswith("TRASH_NOT_EMPTIED: expired files stay in the trash")


def test_the_files_and_bytes_that_were_emptied_are_reported(
    storage: HookedStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    storage.works_again()
    size = sum(len(storage.files[one]) for one in in_trash(storage, "old"))
    report = maintain(storage, KEEPING, run="new")
    assert (report.emptied.files, report.emptied.bytes) == (16, size)
    document = report_json(report)
    assert (document["trash_files_deleted"], document["trash_bytes_deleted"]) == (16, size)
    assert document["files_deleted"] == len(in_trash(storage, "new"))
    assert json.loads(printed(report, capsys, as_json=True)[0])["trash_files_deleted"] == 16
    out, _ = printed(report, capsys, as_json=False)
    assert f"16 files ({size / 1000:.1f} kB) deleted from the trash, where they had expired" in out


def test_a_run_without_other_work_reports_what_it_emptied(storage: HookedStorage) -> None:
    maintain(storage, KEEPING, run="new")
    storage.works_again()
    before = storage.requests["delete"]
    report = maintain(storage, KEEPING, run="next")
    assert (report.files_deleted.total(), report.emptied.files) == (0, 16)
    assert report.requests["delete"] == storage.requests["delete"] - before >= 17  # a manifest


def test_files_that_were_deleted_before_a_failure_are_counted(storage: HookedStorage) -> None:
    for number in range(1500):
        storage.write(f"{FOLDER}/old/state/0/0/{number}.x", [b"12"])

    tried = count()

    def check(verb: str, path: str) -> None:
        if verb == "delete" and path.startswith(FOLDER) and next(tried) >= 1000:
            raise StorageError(path, REFUSED)

    storage.before = check
    report = maintain(storage, KEEPING, run="new")
    assert report.emptied.files == 1000
    assert len(in_trash(storage, "old")) == 516


def test_metrics_show_what_was_emptied_and_that_it_failed(storage: HookedStorage) -> None:
    recorded(storage, partial(maintain, storage, KEEPING, run="new"))
    record, last = last_record(storage)
    assert (last.failed, last.storage_errors) == ((Cause.STORAGE,), 1)
    assert last.facts is not None
    assert last.facts.findings == {"TRASH_NOT_EMPTIED": 1}
    storage.works_again()
    size = sum(len(storage.files[one]) for one in in_trash(storage, "old"))
    recorded(storage, partial(maintain, storage, KEEPING, run="next"))
    record, last = last_record(storage)
    assert last.failed == ()
    shown = series_of(generate_latest(registry_of(families(named(), record))).decode())
    assert shown["last_run_trash_files_deleted", ()] == 16
    assert shown["last_run_trash_bytes_deleted", ()] == size
    assert shown["last_run_bytes_deleted", ()] == 0


# -- a run of several tasks


def test_the_end_of_a_run_of_several_tasks_notes_that_the_trash_is_not_empty(
    storage: HookedStorage, clock: Clock
) -> None:
    holder = Holder("shared")
    maintain(storage, KEEPING, run="new", holder=holder)  # notes the run
    emptied = end_run(storage, holder, sound=True, run="new", exit_code=0)
    assert [one.code for one in emptied.findings] == [FindingCode.TRASH_NOT_EMPTIED]
    new = next(one for one in list_runs(storage) if one.run == "new")
    assert new.exit_code == 5
    clock.now += 60
    storage.works_again()
    emptied = end_run(storage, holder, sound=True, run="new", exit_code=0)
    assert (emptied.files, emptied.findings) == (16, ())
    assert next(one for one in list_runs(storage) if one.run == "new").exit_code == 0


def test_a_run_that_failed_keeps_its_exit_code_and_its_trash(storage: HookedStorage) -> None:
    holder = Holder("shared")
    maintain(storage, KEEPING, run="new", holder=holder)
    emptied = end_run(storage, holder, sound=False, run="new", exit_code=3)
    assert (emptied.files, emptied.findings) == (0, ())
    assert next(one for one in list_runs(storage) if one.run == "new").exit_code == 3


def test_what_the_end_of_a_run_empties_counts_in_its_record() -> None:
    facts = RunFacts(sums={"deleted": 7, "trash_files": 0}, checkpoint={"CLOCK_SKEW": 1})
    last = LastRun("run", 1.0, failed=(Cause.LEASE,), facts=facts)
    done = with_emptied(last, Emptied(2, 10))
    assert (done.failed, done.storage_errors) == ((Cause.LEASE,), 0)
    assert done.facts is not None
    assert done.facts.sums == {"deleted": 7, "trash_files": 2, "trash_bytes": 10}
    finding = Finding(FindingCode.TRASH_NOT_EMPTIED, "denied")
    done = with_emptied(last, Emptied(2, 10, finding))
    assert (done.failed, done.storage_errors) == ((Cause.STORAGE, Cause.LEASE), 1)
    assert done.facts is not None
    assert done.facts.findings == {"CLOCK_SKEW": 1, "TRASH_NOT_EMPTIED": 1}
    assert with_emptied(LastRun("run", 1.0), Emptied(2, 10)).facts is None  # of no store
