import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statemaint.airflow.plans import read_plan
from statemaint.airflow.publish import publish_held
from statemaint.airflow.settings import Options, QuerySettings, unknown_options
from statemaint.airflow.tasks import (
    Planned,
    finish,
    maintain_query,
    plan_query,
    reported,
)
from statemaint.maintain import list_runs, maintain
from statemaint.maintain.bundles import Bundle, costs_of
from statemaint.maintain.record import read_record, recorded
from statemaint.maintain.run import apply
from statemaint.maintain.work import TaskResults
from statemaint.metrics.options import Targets
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from statemaint.records.runs import METRICS
from statemaint.report.plan_file import MaintenanceFile, parse_plan
from statemaint.report.record import Cause, run_ended
from statemaint.report.task import BundleReport, Failure, PlanSummary, dumped
from statemaint.storage import LocalStorage
from statemaint.storage.s3.errors import S3Error
from tests.support.checkpoints import COMMIT, changes, delta_bytes, offsets_bytes
from tests.systems.airflow.support import (
    FLOOR,
    TARGET,
    damaged,
    neglected,
    snapshots,
    takings,
    tree_hash,
    uncommitted,
    unreadable,
    work_on,
)

POLICY = Policy(min_batches_to_retain=5, grace=0.0)
# A port that nothing listens on; nobody may use it without being root.
NOWHERE = "http://127.0.0.1:1"


def settings(
    checkpoint: Path, gateway: str | None = None, textfile: Path | None = None, **more: object
) -> QuerySettings:
    targets = Targets(gateway, textfile=textfile)
    given = QuerySettings("hourly", str(checkpoint), POLICY, targets=targets)
    return replace(given, **more)  # type: ignore[arg-type]


def maintained(where: QuerySettings, bundle: Bundle, options: Options = Options()) -> BundleReport:  # noqa: B008 -- frozen
    return work_on(where, bundle, options, run="manual__1")


def only(partition: int) -> Bundle:
    return Bundle(0, (partition,), TARGET)


def add_batch(checkpoint: Path, batch: int) -> None:
    """Goes on as the query does: one more delta in each partition, and its commit."""
    storage = LocalStorage(checkpoint)
    for partition in range(4):
        content = delta_bytes(changes(batch + 1, partition))
        storage.write(f"state/0/{partition}/{batch + 1}.delta", [content])
    storage.write(f"offsets/{batch}", [offsets_bytes()])
    storage.write(f"commits/{batch}", [COMMIT])


def parts(planned: Planned) -> list[tuple[int, ...]]:
    """Returns the partitions of each task."""
    return [bundle.partitions for bundle in planned.bundles]


def test_plan_maps_every_partition_with_work_at_one_target(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    planned = plan_query(where, Options())
    assert parts(planned) == [(0,), (1,), (2,), (3,)]
    assert {bundle.target for bundle in planned.bundles} == {TARGET}


def test_plan_leaves_partitions_without_work_out(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    for partition in (0, 1, 3):
        maintained(where, only(partition))
    assert parts(plan_query(where, Options())) == [(2,)]


def test_plan_makes_as_many_tasks_of_many_partitions_as_the_operator_sets(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c", partitions=20), max_tasks=8)
    planned = parts(plan_query(where, Options()))
    assert sorted(map(len, planned)) == [2, 2, 2, 2, 3, 3, 3, 3]
    assert sorted(number for part in planned for number in part) == list(range(20))


def test_plan_maps_a_damaged_partition_so_that_its_task_can_say_so(tmp_path: Path) -> None:
    where = settings(damaged(tmp_path / "c"))
    assert (2,) in parts(plan_query(where, Options()))


def test_plan_has_nothing_to_do_before_the_first_commit(tmp_path: Path) -> None:
    planned = plan_query(settings(uncommitted(tmp_path / "c")), Options())
    assert (planned.bundles, planned.failure, planned.handover) == ((), None, None)


def test_plan_fails_for_good_when_a_commit_cannot_be_read(tmp_path: Path) -> None:
    failure = plan_query(settings(unreadable(tmp_path / "c")), Options()).failure
    assert failure is not None
    assert failure.reason.startswith("UNREADABLE_COMMIT: commits/24")
    assert not failure.retry


def test_plan_fails_for_good_where_there_is_no_checkpoint(tmp_path: Path) -> None:
    failure = plan_query(settings(tmp_path / "none"), Options()).failure
    assert failure is not None
    assert failure.reason.startswith(f"NOT_A_CHECKPOINT: {tmp_path / 'none'}")
    assert not failure.retry


def unlistable(checkpoint: Path) -> None:
    """Puts a link to itself where the state should be."""
    (checkpoint / "state").rename(checkpoint / "elsewhere")
    (checkpoint / "state").symlink_to("state")


def test_plan_may_be_tried_again_when_the_storage_fails(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    unlistable(checkpoint)
    failure = plan_query(settings(checkpoint), Options()).failure
    assert failure is not None
    assert failure.reason.startswith("STORAGE: state")
    assert failure.retry


def test_a_run_may_ask_for_another_policy_than_the_file_has(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), policy=Policy(min_deltas_for_snapshot=30))
    lower = Options(min_deltas_for_snapshot=5)
    assert plan_query(where, Options()).bundles == ()
    assert len(plan_query(where, lower).bundles) == 4
    assert len(plan_query(where, Options(force_snapshot=True)).bundles) == 4


def test_the_params_of_a_run_are_its_options() -> None:
    params = {
        "dry_run": True,
        "force_snapshot": False,
        "min_deltas_for_snapshot": None,
        "min_batches_to_retain": 7,
    }
    assert Options.of(params) == Options(dry_run=True, min_batches_to_retain=7)
    assert Options.of(params).change(Policy()) == Policy(min_batches_to_retain=7)


def test_maintain_snapshots_its_own_partitions_at_the_target_and_no_other(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    done = maintained(settings(checkpoint), Bundle(0, (1, 2), TARGET))
    assert done.failure is None
    assert snapshots(checkpoint) == {1: [FLOOR, TARGET], 2: [FLOOR, TARGET]}


def test_maintain_keeps_to_the_target_although_the_query_went_on(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    (first, *_) = plan_query(settings(checkpoint), Options()).bundles
    add_batch(checkpoint, TARGET)
    maintained(settings(checkpoint), first)
    assert snapshots(checkpoint)[0][-1] == TARGET


def test_maintaining_again_changes_nothing(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    maintained(settings(checkpoint), only(0))
    before = tree_hash(checkpoint)
    again = maintained(settings(checkpoint), only(0))
    assert again.failure is None
    assert tree_hash(checkpoint) == before


def test_a_summary_counts_what_was_done(tmp_path: Path) -> None:
    done = maintained(settings(neglected(tmp_path / "c")), only(3))
    assert (done.label, done.failure, done.done, done.halted) == ("op 0 / part 3", None, 1, 0)
    assert (done.files, done.snapshots) == (16, 2)


def test_a_damaged_partition_fails_for_good_with_its_reason_and_has_a_summary(
    tmp_path: Path,
) -> None:
    done = maintained(settings(damaged(tmp_path / "c")), only(2))
    assert done.failure is not None
    assert done.failure.reason.startswith("BROKEN_CHAIN: state/0/2/7.delta is missing")
    assert not done.failure.retry
    assert (done.halted, done.findings[0]["code"]) == (1, "BROKEN_CHAIN")


def test_damage_elsewhere_does_not_fail_a_partition(tmp_path: Path) -> None:
    assert maintained(settings(damaged(tmp_path / "c")), only(1)).failure is None


def test_a_storage_that_fails_while_a_store_is_maintained_may_be_tried_again(
    tmp_path: Path,
) -> None:
    checkpoint = neglected(tmp_path / "c")
    ledger = checkpoint / "_statemaint/ledger/0/0"
    ledger.parent.mkdir(parents=True)
    ledger.touch()  # where its directory belongs
    done = maintained(settings(checkpoint), only(0))
    assert done.failure is not None
    assert done.failure.reason.startswith("STORAGE_FAILED: ")
    assert done.failure.retry


def test_a_storage_that_cannot_be_listed_may_be_tried_again(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    unlistable(checkpoint)
    done = maintained(settings(checkpoint), only(0))
    assert not done.inspected
    assert done.failure is not None
    assert done.failure.retry


def test_a_dry_run_shows_the_whole_plan_with_its_reasons_and_writes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    checkpoint = neglected(tmp_path / "c")
    before = tree_hash(checkpoint)
    with takings() as taken:
        where = settings(checkpoint, gateway=taken.url, plans=tmp_path / "plans")
        planned = plan_query(where, Options(dry_run=True), Holder("run"), run="manual__1:2")
    assert tree_hash(checkpoint) == before
    assert taken.groups == {}
    assert any("would delete 64 files (" in line for line in caplog.messages)
    assert len(caplog.messages) < 10
    assert all(line.startswith("DRY RUN") for line in caplog.messages)
    kept = read_plan(planned.shown["statemaint_plan"])
    assert kept is not None
    assert (kept.steps, len(kept.actions)) == (72, 72)
    assert {step.path for step in kept.actions if step.action == "write_snapshot"} == {
        f"state/0/{partition}/{version}.snapshot"
        for partition in range(4)
        for version in (FLOOR, TARGET)
    }
    assert (planned.bundles, planned.failure) == ((), None)
    assert planned.note
    file = tmp_path / "plans/hourly/manual__1-2.json"
    assert planned.note.startswith("DRY RUN, nothing was changed. 8 snapshots would be written, 64")
    assert str(file) in planned.note
    assert len(json.loads(file.read_text())["actions"]) == 72


def test_the_plan_of_a_dry_run_can_be_applied(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    where = settings(checkpoint, plans=tmp_path / "plans")
    plan_query(where, Options(dry_run=True), run="r")
    content = (tmp_path / "plans/hourly/r.json").read_bytes()
    plan = parse_plan("r.json", content)
    assert isinstance(plan, MaintenanceFile)
    apply(LocalStorage(checkpoint), plan)
    assert snapshots(checkpoint) == {number: [FLOOR, TARGET] for number in range(4)}


def test_a_dry_run_of_a_damaged_partition_fails_as_the_real_one_would(tmp_path: Path) -> None:
    planned = plan_query(settings(damaged(tmp_path / "c")), Options(dry_run=True))
    assert planned.failure is not None
    assert planned.failure.reason.startswith("DRY RUN: BROKEN_CHAIN: state/0/2/7.delta is missing")
    assert not planned.failure.retry
    assert planned.note
    assert "Broken: BROKEN_CHAIN" in planned.note


def test_a_dry_run_whose_plan_cannot_be_written_is_shown_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plans").touch()
    where = settings(neglected(tmp_path / "c"), plans=tmp_path / "plans")
    assert plan_query(where, Options(dry_run=True), run="r").note
    assert any("DRY RUN: the plan is not written to" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        (
            {"dry_runn": True},
            "the run's configuration has 'dry_runn', which is not an option; known",
        ),
        ({"dry_run": True, "x": 1, "a": 2}, "the run's configuration has 'a', 'x', which is not"),
        ({"dry_run": True}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_key_that_is_no_option_is_refused(conf: dict[str, object] | None, said: str) -> None:
    failure = unknown_options(conf, Options.__slots__)
    assert (failure is None) == (said is None)
    if failure:
        assert said in failure.reason
        assert not failure.retry


def test_a_run_of_many_bundles_is_one_push_of_all_partitions(tmp_path: Path) -> None:
    with takings() as taken:
        where = settings(neglected(tmp_path / "c"), gateway=taken.url)
        played(where)
    assert [*taken.groups] == ["/metrics/job/statemaint/query/hourly"]
    assert value(taken.query("hourly"), "partitions") == 4
    assert value(taken.query("hourly"), "last_run_snapshots_written") == 8


def test_requests_of_a_bundle_are_pushed_once(tmp_path: Path) -> None:
    where = replace(settings(neglected(tmp_path / "c")), max_tasks=1)
    planned = plan_query(where, Options(), Holder("run"))
    done = work_on(where, planned.bundles[0])
    assert done.facts
    with takings() as taken:
        where = replace(where, targets=Targets(taken.url))
        finish(where, planned.results([done]), run="r")
    pushed = taken.query("hourly")
    lines = [one for one in pushed.splitlines() if "_last_run_storage_requests{" in one]
    assert sum(float(one.split()[-1]) for one in lines) == sum(
        done.facts.counts["requests"].values()
    )


def test_a_run_that_fails_says_why_and_has_no_success(tmp_path: Path) -> None:
    with takings() as taken:
        played(settings(damaged(tmp_path / "c"), gateway=taken.url))
    pushed = taken.query("hourly")
    assert 'code="BROKEN_CHAIN"' in pushed
    assert "statemaint_last_success_timestamp_seconds{" not in pushed
    assert failures(pushed) == {"damage"}


def errored(*codes: str) -> list[BundleReport]:
    """Returns the reports of tasks that failed before they inspected anything."""
    return [BundleReport("", inspected=False, failure=Failure(f"{one}: why")) for one in codes]


@pytest.mark.parametrize(
    ("failure", "errors", "planned", "causes"),
    [
        ("LEASE_HELD: another", (), 0, {"lease"}),
        ("STORAGE: no answer", (), 0, {"storage"}),
        ("CONFIG: no such connection", (), 0, {"plan"}),
        (None, (), 0, {"plan"}),  # it was killed
        (None, ("STORAGE",), 1, {"plan", "storage"}),
    ],
)
def test_a_run_without_a_plan_pushes_that_it_failed_and_why(
    tmp_path: Path, failure: str | None, errors: tuple[str, ...], planned: int, causes: set[str]
) -> None:
    found = run_ended("r", planned, errored(*errors), PlanSummary(), ended=1.0, failure=failure)
    if failure is None and not planned:
        with takings() as taken:
            finish(settings(neglected(tmp_path / "c"), gateway=taken.url), TaskResults())
        assert failures(taken.query("hourly")) == causes
    else:
        assert {*map(str, found.failed)} == causes - ({"plan"} if planned else set())
    assert found.storage_errors == ("storage" in causes)


@pytest.mark.parametrize(
    ("code", "cause", "exit_code"),
    [
        ("CORRUPT_FILE", Cause.DAMAGE, 3),
        ("STALE_CHECKSUM", Cause.DAMAGE, 3),
        ("BROKEN_CHAIN", Cause.DAMAGE, 3),
        ("FAULT", Cause.TASK, 1),
        ("LEASE_LOST", Cause.LEASE, 4),
    ],
)
def test_a_task_that_failed_before_it_inspected_anything_fails_the_run(
    code: str, cause: Cause, exit_code: int
) -> None:
    ended = run_ended("r", 1, errored(code), PlanSummary(), ended=1.0)
    assert (ended.failed, ended.exit_code) == ((cause,), exit_code)


def test_a_run_that_was_refused_for_its_options_changes_no_metric(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), textfile=tmp_path / "metrics")
    storage = LocalStorage(tmp_path / "c")
    recorded(storage, lambda: maintain(storage, where.policy))
    before = tree_hash(tmp_path)
    mistyped = Options(partitions=(99,))
    shown = maintain_query(where, mistyped, Holder("manual"), run="manual").shown
    assert [*shown] == ["statemaint_refused"]
    assert "99" in shown["statemaint_refused"]
    assert tree_hash(tmp_path) == before


def test_a_run_that_cannot_plan_leaves_the_reason_and_no_figures(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    played(where)
    passed = TaskResults(failure="STORAGE: s3://bucket: no answer")
    report, xcoms = reported(where, passed, run="r")
    record = read_record(LocalStorage(tmp_path / "c"))
    assert record
    assert record.known
    assert record.last
    assert record.last.failed == (Cause.STORAGE,)
    assert record.known.run != "r"
    assert not report["success"]
    assert xcoms["statemaint_failed"] == "STORAGE: s3://bucket: no answer"
    assert not {"statemaint_fleet", "statemaint_partitions"} & set(xcoms)


def test_a_task_that_was_killed_is_a_cause_of_its_own() -> None:
    ended = run_ended("r", 2, errored("STORAGE"), PlanSummary(), ended=1.0)
    assert ended.failed == (Cause.STORAGE, Cause.TASK)


def test_totals_go_on_from_run_to_run_with_any_pushgateway(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    for expected in (0, 1):
        with takings() as taken:
            played(settings(checkpoint, gateway=taken.url), again=expected > 0)
        pushed = taken.query("hourly")
        assert value(pushed, 'runs_total{query="hourly",result="succeeded"}') == expected + 1
        assert value(pushed, "reclaimed_files_total") == 64
    played(settings(checkpoint, gateway=NOWHERE), again=True)
    with takings() as taken:
        played(settings(checkpoint, gateway=taken.url), again=True)
    assert value(taken.query("hourly"), "push_losses_total") == 1


def test_a_dry_run_pushes_nothing_and_stores_no_record(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    with takings() as taken:
        plan_query(settings(checkpoint, gateway=taken.url), Options(dry_run=True))
    assert taken.groups == {}
    assert read_record(LocalStorage(checkpoint)) is None


def test_a_wait_for_another_runs_lease_is_pushed(tmp_path: Path) -> None:
    with takings() as taken:
        publish_held(settings(neglected(tmp_path / "c"), gateway=taken.url))
    assert value(taken.query("hourly"), "lease_held_timestamp_seconds") > 0


def value(pushed: str, name: str) -> float:
    """Returns the value of one series in what was pushed."""
    full = f"statemaint_{name}" if "{" in name else f"statemaint_{name}{{"
    (line,) = [one for one in pushed.splitlines() if one.startswith(full)]
    return float(line.split()[-1])


def failures(pushed: str) -> set[str]:
    """Returns the causes of a run's failure in what was pushed."""
    found = re.findall(r'_last_run_failed{cause="(\w+)",query="hourly"} 1\.0', pushed)
    return {*found}


def test_a_pushgateway_that_does_not_answer_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = settings(neglected(tmp_path / "c"), gateway=NOWHERE)
    assert played(where)["success"]
    (warning,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert warning.getMessage().startswith("metrics are not published: ")


def test_an_address_that_cannot_be_one_does_not_fail_maintenance(tmp_path: Path) -> None:
    assert played(settings(neglected(tmp_path / "c"), gateway="http://[oops"))["success"]


def test_a_record_that_cannot_be_read_does_not_fail_the_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = neglected(tmp_path / "c")
    where = settings(checkpoint)
    planned = plan_query(where, Options(), Holder("run"))
    (checkpoint / METRICS).symlink_to(Path(METRICS).name)
    finish(where, planned.results())
    assert "record of" in caplog.text


def test_partitions_without_a_task_are_pushed_too(tmp_path: Path) -> None:
    with takings() as taken:
        where = settings(neglected(tmp_path / "c"), gateway=taken.url)
        played(where)
        taken.clear()
        planned = plan_query(where, Options())
        assert planned.bundles == ()
        finish(where, planned.results())
    assert value(taken.query("hourly"), "partitions") == 4
    assert value(taken.query("hourly"), "last_success_timestamp_seconds") > 0


def test_a_repaired_partition_without_work_is_pushed_as_well_again(tmp_path: Path) -> None:
    checkpoint = damaged(tmp_path / "c")
    patient = Policy(min_deltas_for_snapshot=30)
    with takings() as taken:
        where = settings(checkpoint, policy=patient, gateway=taken.url)
        played(where)
        assert halted(taken.query("hourly")) == 1
        LocalStorage(checkpoint).write("state/0/2/7.delta", [delta_bytes(changes(7, 2))])
        taken.clear()
        played(where, again=True)
    assert halted(taken.query("hourly")) == 0


def test_where_the_logs_are_damaged_every_store_is_pushed_as_halted(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    (checkpoint / "commits/20").write_bytes(b"")
    with takings() as taken:
        where = settings(checkpoint, gateway=taken.url)
        planned = plan_query(where, Options())
        assert planned.failure
        assert "UNREADABLE_COMMIT" in planned.failure.reason
        finish(where, planned.results())
    assert halted(taken.query("hourly")) == 4
    assert failures(taken.query("hourly")) == {"damage"}
    assert 'code="UNREADABLE_COMMIT",query="hourly"} 1.0' in taken.query("hourly")


def test_report_writes_the_querys_metrics_as_a_file(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), textfile=tmp_path / "metrics")
    played(where)
    text = (tmp_path / "metrics/statemaint_hourly.prom").read_text()
    assert 'statemaint_last_committed_batch{query="hourly"} 24.0' in text
    assert 'statemaint_snapshot_lag_versions{query="hourly"} 0.0' in text


def test_the_querys_lag_is_that_of_its_worst_partition_with_or_without_a_task(
    tmp_path: Path,
) -> None:
    where = settings(neglected(tmp_path / "c"), textfile=tmp_path / "metrics")
    planned = plan_query(replace(where, policy=Policy(min_deltas_for_snapshot=30)), Options())
    assert planned.decided.lag == TARGET
    finish(where, planned.results())
    text = (tmp_path / "metrics/statemaint_hourly.prom").read_text()
    assert f'statemaint_snapshot_lag_versions{{query="hourly"}} {TARGET}.0' in text


def played(
    where: QuerySettings, *, leave_out: tuple[int, ...] = (), again: bool = False
) -> dict[str, Any]:
    """Runs the three tasks one after the other; returns the report.

    The lease of a run stays closed for some seconds: what comes again takes none.
    """
    planned = plan_query(where, Options(), None if again else Holder("run"))
    bundles = [one for one in planned.bundles if one.partitions != leave_out]
    told = [work_on(where, one) for one in bundles]
    return finish(where, planned.results(told))


def test_a_run_that_failed_on_damage_has_that_exit_code_in_the_ledger(tmp_path: Path) -> None:
    where = settings(damaged(tmp_path / "c"))
    planned = plan_query(where, Options(), Holder("run"))
    done = [work_on(where, one) for one in planned.bundles]
    report = finish(where, planned.results(done), run="r")
    (run,) = list_runs(LocalStorage(where.checkpoint))
    assert (report["success"], run.exit_code, run.tasks) == (False, 3, 3)
    assert run.files_deleted == report["files"] > 0


def test_report_does_not_look_at_the_checkpoint_again(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), textfile=tmp_path / "metrics")
    planned = plan_query(where, Options())
    told = [work_on(where, one) for one in planned.bundles]
    (tmp_path / "c").rename(tmp_path / "elsewhere")
    report = finish(where, planned.results(told))
    assert report["success"]
    assert "last_committed_batch" in (tmp_path / "metrics/statemaint_hourly.prom").read_text()


def halted(pushed: str) -> float:
    """Returns the number of halted stores in what was pushed."""
    return value(pushed, 'stores{outcome="halted",query="hourly"}')


def test_report_adds_up_and_names_who_did_not_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    where = settings(damaged(tmp_path / "c"))
    files = [f"{part}/{version}.delta" for part in (0, 1) for version in range(1, FLOOR)]
    size = sum((tmp_path / "c/state/0" / file).stat().st_size for file in files)
    report = played(where, leave_out=(3,))
    done = {name: report[name] for name in ("query", "target", "snapshots", "files", "bytes")}
    assert done == {
        "query": "hourly",
        "target": TARGET,
        "snapshots": 4,
        "files": 32,
        "bytes": size,
    }
    assert (report["halted"], report["findings"]) == (1, ["BROKEN_CHAIN"])
    assert (report["without_report"], report["success"], report["maintained"]) == (1, False, False)
    assert "op 0 / part 3 gave no report; its task's log says why" in caplog.messages
    table = next(line for line in reversed(caplog.messages) if line.startswith("hourly\n"))
    assert [line.split()[0] for line in table.splitlines()[1:]] == [
        "partitions",
        *["op"] * 3,
        "all",
    ]


def test_report_says_what_was_done_what_is_broken_and_what_to_do(tmp_path: Path) -> None:
    where = settings(damaged(tmp_path / "check point"))
    report = played(where)
    (broken,) = report["broken"]
    assert broken["code"] == "BROKEN_CHAIN"
    assert broken["detail"].startswith("state/0/2/7.delta is missing")
    (step,) = report["todo"]
    assert step["runbook"] == "docs/runbook.md#broken_chain"
    assert step["command"] == f"statemaint doctor '{where.checkpoint}'"
    lines = report["note"].splitlines()
    assert lines[0].startswith("6 snapshots written, 48 files deleted (")
    assert any(line.startswith("Broken: BROKEN_CHAIN: state/0/2/7.delta") for line in lines)
    assert lines[-1] == f"Next: `{step['command']}`, docs/runbook.md#broken_chain"


def test_a_note_fits_into_airflows(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c", partitions=30)
    for partition in range(30):
        (checkpoint / f"state/0/{partition}/7.delta").unlink()
    report = played(settings(checkpoint))
    assert len(report["note"]) <= 1000
    assert report["note"].endswith(" ...")


@pytest.mark.parametrize(
    ("make", "success", "maintained"),
    [(neglected, True, True), (damaged, False, False), (uncommitted, True, False)],
    ids=["work", "damage", "no work"],
)
def test_only_a_success_that_changed_something_counts_as_maintenance(
    tmp_path: Path, make: Callable[[Path], Path], *, success: bool, maintained: bool
) -> None:
    report = played(settings(make(tmp_path / "c")))
    assert (report["success"], report["maintained"]) == (success, maintained)


def test_a_plan_that_failed_is_what_the_report_is_about(tmp_path: Path) -> None:
    where = settings(unreadable(tmp_path / "c"), textfile=tmp_path / "metrics")
    planned = plan_query(where, Options())
    assert planned.failure
    report = finish(where, planned.results())
    assert not report["success"]
    assert report["note"].startswith("Nothing was maintained: UNREADABLE_COMMIT: commits/24")
    assert report["todo"][0]["code"] == "UNREADABLE_COMMIT"
    text = (tmp_path / "metrics/statemaint_hourly.prom").read_text()
    assert re.search(r'last_run_failed\{cause="damage",query="hourly".*\} 1.0', text)
    assert 'stores{outcome="halted",query="hourly"} 4.0' in text


def test_report_pushes_what_concerns_the_whole_query(tmp_path: Path) -> None:
    with takings() as taken:
        played(settings(neglected(tmp_path / "c"), gateway=taken.url))
    assert taken.query("hourly").count("\nstatemaint_last_committed_batch{") == 1


def test_report_does_not_mind_a_pushgateway_out_of_reach(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = played(settings(neglected(tmp_path / "c"), gateway=NOWHERE))
    assert report["success"]
    assert any("metrics are not published" in line for line in caplog.messages)


def test_the_next_plan_learns_how_slow_each_partition_was(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    planned = plan_query(where, Options())
    done = [BundleReport(one.label, seconds=1.0 + one.partitions[0]) for one in planned.bundles]
    costs = costs_of(planned.bundles, {one.label: one.seconds for one in done})
    assert list(costs) == [f"op 0 / part {number}" for number in range(4)]
    two = plan_query(replace(where, max_tasks=2), Options(), costs=costs)
    assert parts(two) == [(0, 3), (1, 2)]


def test_missing_credentials_are_not_tried_again_but_a_busy_server_is() -> None:
    denied = S3Error("state", "access denied", reason="AccessDenied", status=403)
    busy = S3Error("state", "too busy", reason="SlowDown", status=503)
    assert not Failure.of(denied).retry
    assert Failure.of(busy).retry


def test_a_plan_without_credentials_fails_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("STATEMAINT_S3_ENDPOINT", NOWHERE)
    where = QuerySettings("hourly", "s3://lake/checkpoint", POLICY)
    failure = plan_query(where, Options()).failure
    assert failure is not None
    assert "no credentials were found" in failure.reason
    assert not failure.retry


def test_summaries_stay_small_enough_for_xcom(tmp_path: Path) -> None:
    checkpoint = damaged(tmp_path / "c")
    for number in range(500):
        (checkpoint / f"state/0/2/odd-{number}").touch()
    done = maintained(settings(checkpoint), only(2))
    assert done.finding_count == 501
    assert len(json.dumps(dumped(done))) < 5000


def test_a_run_of_some_partitions_leaves_the_others_and_keeps_the_floor_of_all(
    tmp_path: Path,
) -> None:
    checkpoint = neglected(tmp_path / "c")
    where, some = settings(checkpoint), Options(operators=(0,), partitions=(1, 3))
    planned = plan_query(where, some)
    assert parts(planned) == [(1,), (3,)]
    done = [maintained(where, one, some) for one in planned.bundles]
    report = finish(where, planned.results(done))
    assert report["scope"] == "operator 0 and partition 1, 3"
    assert report["note"].startswith(
        "Only operator 0 and partition 1, 3, as set in the form.\n\n4 "
    )
    assert snapshots(checkpoint) == {1: [FLOOR, TARGET], 3: [FLOOR, TARGET]}
    assert parts(plan_query(where, Options())) == [(0,), (2,)]


@pytest.mark.parametrize("options", [Options(partitions=(1,)), Options()])
def test_a_run_of_some_partitions_leaves_the_trash_and_the_querys_metrics_alone(
    tmp_path: Path, options: Options
) -> None:
    checkpoint = neglected(tmp_path / "c")
    at_once = POLICY.override(trash_for=0.001)
    with takings() as pushed:
        where = settings(checkpoint, gateway=pushed.url, policy=at_once)
        planned = plan_query(where, options, Holder("run"))
        done = [maintained(where, one, options) for one in planned.bundles]
        finish(where, planned.results(done))
        assert (pushed.query("hourly") == "") is bool(options.scope)
    trash = checkpoint / "_statemaint/trash"
    assert any(trash.rglob("*.delta")) is bool(options.scope)


def test_a_partition_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    failure = plan_query(settings(neglected(tmp_path / "c")), Options(partitions=(9,))).failure
    assert failure is not None
    assert failure.reason.startswith("CONFIG: ")
    assert "no store matches the operators [], partitions [9]" in failure.reason


def test_a_form_says_which_part(tmp_path: Path) -> None:
    params = {"dry_run": True, "force_snapshot": False, "min_deltas_for_snapshot": None,
              "min_batches_to_retain": None, "operators": None, "partitions": [3, 1]}  # fmt: skip
    options = Options.of(params)
    assert (options.scope, options.partitions, options.operators) == ("partition 1, 3", (3, 1), ())
    planned = plan_query(settings(neglected(tmp_path / "c")), options)
    assert planned.note is not None
    assert "DRY RUN: Only partition 1, 3, as set in the form." in planned.note
