import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from statemaint.airflow.bundles import Bundle
from statemaint.airflow.tasks import (
    Maintained,
    Options,
    Planned,
    QuerySettings,
    finish,
    maintain_bundle,
    plan_query,
)
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
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
)

POLICY = Policy(min_batches_to_retain=5, grace=0.0)
# A port that nothing listens on; nobody may use it without being root.
NOWHERE = "http://127.0.0.1:1"


def settings(checkpoint: Path, **more: object) -> QuerySettings:
    return replace(QuerySettings("hourly", str(checkpoint), POLICY), **more)  # type: ignore[arg-type]


def maintained(where: QuerySettings, bundle: Bundle, options: Options = Options()) -> Maintained:  # noqa: B008 -- frozen
    return maintain_bundle(where, bundle, options, run="manual__1")


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


def test_plan_maps_every_partition_with_work_at_one_target(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    assert plan_query(where, Options()) == Planned(tuple(only(number) for number in range(4)))


def test_plan_leaves_partitions_without_work_out(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"))
    for partition in (0, 1, 3):
        maintained(where, only(partition))
    assert plan_query(where, Options()) == Planned((only(2),))


def test_plan_bundles_partitions_beyond_the_limit_of_tasks(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c", partitions=10), max_tasks=3)
    labels = [bundle.label for bundle in plan_query(where, Options()).bundles]
    assert labels == ["op 0 / parts 0-2", "op 0 / parts 3-5", "op 0 / parts 6-9"]


def test_plan_maps_a_damaged_partition_so_that_its_task_can_say_so(tmp_path: Path) -> None:
    where = settings(damaged(tmp_path / "c"))
    assert only(2) in plan_query(where, Options()).bundles


def test_plan_has_nothing_to_do_before_the_first_commit(tmp_path: Path) -> None:
    assert plan_query(settings(uncommitted(tmp_path / "c")), Options()) == Planned()


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
    assert plan_query(where, Options()) == Planned()
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
    assert done.summary is not None
    known = {name: done.summary[name] for name in ("label", "dry_run", "done", "halted", "files")}
    assert known == {
        "label": "op 0 / part 3",
        "dry_run": False,
        "done": 1,
        "halted": 0,
        "files": 16,
    }
    assert done.summary["snapshots"] == 2


def test_a_damaged_partition_fails_for_good_with_its_reason_and_has_a_summary(
    tmp_path: Path,
) -> None:
    done = maintained(settings(damaged(tmp_path / "c")), only(2))
    assert done.failure is not None
    assert done.failure.reason.startswith("BROKEN_CHAIN: state/0/2/7.delta is missing")
    assert not done.failure.retry
    assert done.summary is not None
    assert (done.summary["halted"], done.summary["findings"][0]["code"]) == (1, "BROKEN_CHAIN")


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
    assert done.summary is None
    assert done.failure is not None
    assert done.failure.retry


def test_a_dry_run_logs_what_would_be_done_and_writes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    checkpoint = neglected(tmp_path / "c")
    before = tree_hash(checkpoint)
    with takings() as taken:
        done = maintained(settings(checkpoint, gateway=taken.url), only(0), Options(dry_run=True))
    assert tree_hash(checkpoint) == before
    assert taken.groups == {}
    assert f"dry run: would write state/0/0/{TARGET}.snapshot (chain_too_long)" in caplog.messages
    size = (checkpoint / "state/0/0/1.delta").stat().st_size
    assert f"dry run: would delete state/0/0/1.delta (below_base, {size} B)" in caplog.messages
    assert done.summary is not None
    assert (done.summary["snapshots"], done.summary["files"]) == (2, 16)


def test_a_dry_run_of_a_damaged_partition_fails_as_the_real_one_would(tmp_path: Path) -> None:
    done = maintained(settings(damaged(tmp_path / "c")), only(2), Options(dry_run=True))
    assert done.failure is not None
    assert done.summary is not None
    assert (done.summary["done"], done.summary["halted"]) == (0, 1)


def test_a_long_dry_run_is_cut_short_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    checkpoint = neglected(tmp_path / "c", partitions=20)
    maintained(settings(checkpoint), Bundle(0, tuple(range(20)), TARGET), Options(dry_run=True))
    lines = [line for line in caplog.messages if line.startswith("dry run")]
    assert len(lines) == 201
    assert lines[-1] == "dry run: and 160 more like these"


def test_every_partition_of_a_bundle_is_pushed(tmp_path: Path) -> None:
    with takings() as taken:
        where = settings(neglected(tmp_path / "c"), gateway=taken.url)
        maintained(where, Bundle(0, (0, 1), TARGET))
    for partition in (0, 1):
        assert "statemaint_chain_length" in taken.group("hourly", partition)
    assert taken.group("hourly", 2) == ""


def test_a_partition_that_fails_is_pushed_all_the_same(tmp_path: Path) -> None:
    with takings() as taken:
        maintained(settings(damaged(tmp_path / "c"), gateway=taken.url), only(2))
    pushed = taken.group("hourly", 2)
    assert 'code="BROKEN_CHAIN"' in pushed
    assert "statemaint_last_success_timestamp_seconds" not in pushed


def test_a_pushgateway_that_does_not_answer_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = neglected(tmp_path / "c")
    done = maintained(settings(checkpoint, gateway=NOWHERE), only(0))
    assert done.failure is None
    assert snapshots(checkpoint) == {0: [FLOOR, TARGET]}
    (warning,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert warning.getMessage().startswith("metrics are not published: ")


def test_an_address_that_cannot_be_one_does_not_fail_maintenance(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), gateway="http://[oops")
    assert maintained(where, only(0)).failure is None


def test_metrics_can_be_files_instead(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), textfile=tmp_path / "metrics")
    maintained(where, Bundle(0, (0, 1), TARGET))
    names = sorted(file.name for file in (tmp_path / "metrics").iterdir())
    assert names == ["statemaint_hourly_0_0.prom", "statemaint_hourly_0_1.prom"]


def test_plan_pushes_the_partitions_that_no_task_will(tmp_path: Path) -> None:
    with takings() as taken:
        where = settings(neglected(tmp_path / "c"), gateway=taken.url)
        maintained(where, only(0))
        taken.groups.clear()
        plan_query(where, Options(dry_run=True))
        assert taken.groups == {}
        plan_query(where, Options())
    assert "statemaint_last_success_timestamp_seconds" in taken.group("hourly", 0)
    assert 'statemaint_chain_length{operator="0"' in taken.group("hourly", 0)
    assert taken.group("hourly", 1) == ""


def test_a_repaired_partition_without_work_is_pushed_as_well_again(tmp_path: Path) -> None:
    checkpoint = damaged(tmp_path / "c")
    patient = Policy(min_deltas_for_snapshot=30)
    with takings() as taken:
        where = settings(checkpoint, policy=patient, gateway=taken.url)
        assert plan_query(where, Options()).bundles == (only(2),)
        maintained(where, only(2))
        assert halted(taken.group("hourly", 2)) == 1
        LocalStorage(checkpoint).write("state/0/2/7.delta", [delta_bytes(changes(7, 2))])
        taken.groups.clear()
        assert plan_query(where, Options()).bundles == ()
    assert halted(taken.group("hourly", 2)) == 0


def test_where_the_logs_are_damaged_every_partition_is_pushed_as_halted(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    (checkpoint / "commits/20").write_bytes(b"")
    with takings() as taken:
        planned = plan_query(settings(checkpoint, gateway=taken.url), Options())
    assert planned.failure
    assert "UNREADABLE_COMMIT" in planned.failure.reason
    assert [halted(taken.group("hourly", partition)) for partition in range(4)] == [1, 1, 1, 1]


def test_report_writes_the_querys_metrics_as_a_file(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), textfile=tmp_path / "metrics")
    finish(where, (), (), Options(dry_run=True))
    assert not (tmp_path / "metrics").exists()
    finish(where, (), (), Options())
    text = (tmp_path / "metrics/statemaint_hourly.prom").read_text()
    assert 'statemaint_last_committed_batch{query="hourly"} 24.0' in text


def halted(pushed: str) -> float:
    """Returns the value of one gauge in what was pushed."""
    (line,) = [one for one in pushed.splitlines() if one.startswith("statemaint_halted{")]
    return float(line.split()[-1])


def test_report_adds_up_and_names_who_did_not_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    where = settings(damaged(tmp_path / "c"))
    files = [f"{part}/{version}.delta" for part in (0, 1) for version in range(1, FLOOR)]
    size = sum((tmp_path / "c/state/0" / file).stat().st_size for file in files)
    planned = plan_query(where, Options()).bundles
    told = [maintained(where, bundle).summary for bundle in planned if bundle != only(3)]
    extra = finish(where, planned, [one for one in told if one], Options())
    assert extra == {
        "query": "hourly",
        "target": TARGET,
        "snapshots": 4,
        "files": 32,
        "bytes": size,
        "halted": 1,
        "findings": ["BROKEN_CHAIN"],
        "without_report": 1,
    }
    assert "op 0 / part 3 gave no report; its task's log says why" in caplog.messages
    table = next(line for line in reversed(caplog.messages) if line.startswith("hourly\n"))
    assert [line.split()[0] for line in table.splitlines()[1:]] == [
        "partitions",
        *["op"] * 3,
        "all",
    ]


def test_report_pushes_what_concerns_the_whole_query(tmp_path: Path) -> None:
    with takings() as taken:
        where = settings(neglected(tmp_path / "c"), gateway=taken.url)
        finish(where, [], [], Options())
        finish(where, [], [], Options(dry_run=True))
    assert taken.query("hourly").count("\nstatemaint_last_committed_batch{") == 1


def test_report_does_not_mind_a_checkpoint_out_of_reach(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    extra = finish(settings(tmp_path / "none", gateway=NOWHERE), [], [], Options())
    assert extra["target"] is None
    assert any("metrics of the query are not published" in line for line in caplog.messages)


def test_summaries_stay_small_enough_for_xcom(tmp_path: Path) -> None:
    checkpoint = damaged(tmp_path / "c")
    for number in range(500):
        (checkpoint / f"state/0/2/odd-{number}").touch()
    done = maintained(settings(checkpoint), only(2))
    assert done.summary is not None
    assert done.summary["finding_count"] == 501
    assert len(json.dumps(done.summary)) < 5000
