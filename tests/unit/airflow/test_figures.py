from dataclasses import replace

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.figures import (
    PARTITIONS,
    QueryFigures,
    figures_json,
    figures_of_run,
    partitions_json,
    read_figures,
    read_partitions,
    withheld_texts,
)
from statemaint.airflow.settings import QuerySettings
from statemaint.listing import Entry
from statemaint.maintain.work import TaskResults
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.planner import plan
from statemaint.plan.reasons import WithheldReason
from statemaint.plan.withheld import Waiting
from statemaint.report.facts import RunFacts, Unit, planned_units
from statemaint.report.task import BundleReport, PlanSummary
from tests.support.checkpoints import NOW, checkpoint, store, versions

ABOUT = {"query": "revenue", "checkpoint": "/data", "committed": 24, "target": 25}
BROKEN = {"code": "BROKEN_CHAIN", "detail": "1.delta is missing", "damage": True}


def example() -> Checkpoint:
    """Twenty-five versions: two stores in one partition, and a partition that is broken."""
    return checkpoint(
        store(versions("d", 1, 25), StoreId(0, 0, "left")),
        store(versions("d", 1, 25) + " 20s", StoreId(0, 0, "right")),
        store(versions("d", 2, 25), StoreId(0, 1)),
        batches=range(16, 25),
    )


def units() -> list[Unit]:
    return planned_units(plan(example(), Policy(), NOW))


def shown(unit: Unit) -> Unit:
    """Returns a partition without the figures that only metrics have."""
    return unit._replace(seconds=0.0, halted=0)


def test_a_partition_adds_up_its_stores() -> None:
    first, _ = units()
    assert (first.operator, first.partition, first.chain) == (0, 0, 25)
    assert (first.files, first.bytes) == (51, 5100)
    assert (first.replay_files, first.replay_bytes) == (25 + 6, 3100)
    assert (first.damage, first.notices) == (0, 0)


def test_a_partition_with_a_store_that_does_not_load_has_no_chain() -> None:
    _, broken = units()
    assert broken.chain is None
    assert broken.replay_bytes == 0
    assert broken.damage == 1


def test_one_store_that_does_not_load_is_enough() -> None:
    half = checkpoint(
        store(versions("d", 1, 25), StoreId(0, 0, "left")),
        store(versions("d", 2, 25), StoreId(0, 0, "right")),
        batches=range(16, 25),
    )
    (unit,) = planned_units(plan(half, Policy(), NOW))
    assert (unit.chain, unit.replay_files) == (None, 25)


def test_nothing_loads_where_nothing_is_committed() -> None:
    empty = checkpoint(store("1d"), batches=[])
    (unit,) = planned_units(plan(empty, Policy(), NOW))
    assert unit.chain is None


def test_the_bytes_that_a_plan_would_delete_are_reclaimable() -> None:
    old = checkpoint(store(versions("d", 1, 25) + " 20s"), batches=range(22, 25))
    (unit,) = planned_units(plan(old, Policy(min_batches_to_retain=2), NOW))
    assert unit.reclaimable == 1900  # the deltas 1 to 19


def test_what_a_task_reports_replaces_what_the_plan_found() -> None:
    before, (first, *_) = units(), units()
    after = first._replace(chain=1)
    results = TaskResults(
        summary=PlanSummary(units=tuple(before)), reports=(BundleReport("op 0", units=(after,)),)
    )
    where = QuerySettings("revenue", "/nowhere", Policy())
    assert read_partitions(figures_of_run(where, results)[PARTITIONS]) == (
        (shown(after), shown(before[1])),
        (),
    )


def test_a_run_of_some_partitions_leaves_no_figures_of_the_query() -> None:
    where = QuerySettings("revenue", "/nowhere", Policy())
    sound = PlanSummary(target=25, units=tuple(units()[:1]), scope="partition 0")
    assert figures_of_run(where, TaskResults(summary=sound), success=True) == {}


def test_the_figures_of_a_query_are_sums_and_the_worst() -> None:
    found = read_figures(figures_json(units(), [BROKEN], {**ABOUT, "damage": 1}))
    assert found is not None
    assert (found.partitions, found.blocked) == (2, 1)
    assert (found.longest, found.longest_at) == (25, "op 0 / part 0")
    assert (found.files, found.bytes) == (75, 7500)
    assert found.damage == 2  # one of the checkpoint as a whole
    assert found.codes == ["BROKEN_CHAIN"]


def test_a_partition_that_does_not_load_has_no_longest_chain() -> None:
    (unit, *_) = units()
    found = read_figures(
        figures_json(
            [unit._replace(chain=None), unit._replace(partition=1, chain=0)], [BROKEN], ABOUT
        )
    )
    assert found is not None
    assert (found.blocked, found.longest) == (1, 0)


def test_what_the_parts_of_a_run_withheld_is_summed_by_reason() -> None:
    parts = [
        Waiting(WithheldReason.EXECUTORS, 2, 0, 30, 30, 60, 0.5, version=80),
        Waiting(WithheldReason.EXECUTORS, 1, 0, 25, 25, 50, 0.7, version=90),
    ]
    figures = withheld_texts(parts)
    found = read_figures(figures_json(units(), [], {**ABOUT, "withheld": figures}))
    assert found is not None
    (one,) = found.withheld
    assert (one.reason, one.snapshots) == ("executors_may_upload", 3)
    assert "until version 90 is committed" in one.text


def test_a_query_without_partitions_has_figures() -> None:
    found = read_figures(figures_json([], [], {**ABOUT, "failure": "STORAGE: no"}))
    assert found == QueryFigures(
        query="revenue", checkpoint="/data", committed=24, target=25, failure="STORAGE: no"
    )


def test_partitions_and_findings_come_back() -> None:
    written = partitions_json(units(), [BROKEN])
    read = read_partitions(written)
    assert read is not None
    assert read[0] == tuple(map(shown, units()))
    assert [one.model_dump(exclude={"v"}) for one in read[1]] == [BROKEN]


@pytest.mark.parametrize(
    "found", [None, 7, "text", [], {}, {"v": 2, "query": "a", "checkpoint": "b"}, {"query": 7}]
)
def test_figures_of_another_build_are_none(found: object) -> None:
    assert read_figures(found) is None


@pytest.mark.parametrize(
    "row", [[], [1, 2], [0] * 11, [None] * 10, [0, 0, -1, *[0] * 7], [0] * 9 + [2**63], ["a"] * 10]
)
def test_partitions_that_are_none_are_refused(row: list[object]) -> None:
    assert read_partitions({"units": [row]}) is None


def test_a_newer_field_is_passed_over() -> None:
    found = read_figures({**figures_json([], [], ABOUT), "news": 1})
    assert found is not None


def test_figures_have_the_newest_commit_and_the_version_and_time_of_a_restart() -> None:
    seen = replace(
        example(),
        commit=Entry("commits/24", 1, 500.0),
        commit_times={batch: batch * 3600.0 for batch in range(16, 25)},
    )
    decided = plan(seen, Policy(), NOW)
    facts = RunFacts(
        sums={"restart_share_ms": 4000, "restart_least_share_ms": 100},
        highest={"restart_start": 2.0, "restart_store": 3.0, "restart_least_store": 0.5,
                 "restart_limit": 30.0},
    )  # fmt: skip
    units = tuple(planned_units(decided))
    results = TaskResults(summary=PlanSummary.of(decided, (), units=units, facts=facts))
    settings = QuerySettings("revenue", "/nowhere", Policy())
    figures = QueryFigures.model_validate(figures_of_run(settings, results)["statemaint_fleet"])
    assert (figures.committed_at, figures.silent_after) == (500.0, 3 * 3600.0)
    assert figures.loads is None  # partition 1 lacks its first delta
    assert (figures.restart, figures.restart_least, figures.restart_limit) == (6.0, 2.5, 30.0)
