from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.figures import QueryFigures
from statemaint.airflow.names import FILE_DAG
from statemaint.airflow.pages.fleet import Unjudged, fleet, outcome, row_of, totals, verdict
from statemaint.airflow.pages.query import AirflowRun, QueryRecord
from statemaint.model.verdict import Verdict

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
LOOKED = NOW - timedelta(hours=1)
RUN = AirflowRun("manual__1", "success", "manual", LOOKED, LOOKED)


def record(query: str = "revenue", *, run: AirflowRun | None = RUN, **figures: Any) -> QueryRecord:
    """A query that a run has found in order, except for some figures."""
    found = {"committed": 24, "target": 25, "partitions": 4, **figures}
    return QueryRecord(
        dag=f"statemaint__{query}",
        group="",
        query=query,
        last=run,
        figures=QueryFigures(query=query, checkpoint="/data", **found),
        looked=LOOKED,
    )


def test_a_query_whose_partitions_all_load_restarts() -> None:
    assert verdict(record()).state is Verdict.HEALTHY
    assert verdict(record()).why == "Every partition loads at version 25."


def test_a_query_with_a_partition_that_does_not_load_does_not_restart() -> None:
    found = verdict(record(blocked=1, damage=1, codes=["BROKEN_CHAIN", "UNKNOWN_FILE"]))
    assert found.state is Verdict.BROKEN
    assert found.why == "1 of 4 partitions does not load: BROKEN_CHAIN"


def test_a_query_with_damage_that_loads_is_degraded() -> None:
    assert verdict(record(damage=1, codes=["CORRUPT_FILE"])).state is Verdict.DEGRADED


def test_a_code_of_a_newer_build_counts_as_damage() -> None:
    assert "NEW_CODE" in verdict(record(damage=1, codes=["NEW_CODE"])).why


def test_a_query_whose_dag_airflow_has_deactivated_is_not_maintained() -> None:
    stale = replace(record(), stale=True, next_run=NOW)
    assert verdict(stale).state is Unjudged.UNMAINTAINED
    assert verdict(stale).why == (
        "Airflow has deactivated the DAG statemaint__revenue, as no DAG file defines it any more: "
        "nothing maintains the query. If it was removed on purpose, `airflow dags delete "
        "statemaint__revenue`."
    )
    assert row_of(stale, NOW).next == "never"
    assert fleet([record("another"), stale], NOW)[0].record is stale
    assert row_of(stale, NOW).due > row_of(replace(record(), next_run=NOW), NOW).due


def test_a_query_whose_pool_does_not_exist_is_not_maintained() -> None:
    poolless = replace(record(), missing_pool="a pool")
    assert verdict(poolless).state is Unjudged.UNMAINTAINED
    assert "the pool 'a pool', which does not exist: `airflow pools set 'a pool'" in (
        verdict(poolless).why
    )


def test_notices_leave_no_doubt() -> None:
    assert verdict(record(notices=3, codes=["UNKNOWN_FILE"])).state is Verdict.HEALTHY


def test_a_storage_that_failed_shows_nothing() -> None:
    assert verdict(record(damage=1, codes=["STORAGE_FAILED"])).state is Verdict.UNKNOWN
    could_not = record(partitions=0, failure="STORAGE: denied", target=None, committed=None)
    assert verdict(could_not).state is Verdict.UNKNOWN
    assert "STORAGE: denied" in verdict(could_not).why


def test_a_query_that_has_committed_nothing_is_not_broken() -> None:
    nothing = record(committed=None, target=None, blocked=4, notices=1)
    assert verdict(nothing).state is Verdict.EMPTY


def test_a_query_without_a_run_was_never_looked_at() -> None:
    never = replace(record(run=None), figures=None, looked=None)
    assert verdict(never).state is Unjudged.NEVER
    assert row_of(never, NOW).outcome.text == "never ran"
    assert row_of(never, NOW).age == "never"


def test_figures_of_another_build_are_unknown() -> None:
    assert verdict(replace(record(), figures=None)).state is Verdict.UNKNOWN


def test_partitions_without_a_report_are_named() -> None:
    assert "2 are as the plan found them" in verdict(record(unreported=2)).why


def test_mistakes_in_the_queries_file_are_the_first_row_and_the_worst_query_the_next() -> None:
    failed = replace(RUN, state="failed")
    rows = fleet(
        [
            record("small", replay_bytes=1),
            record("large", replay_bytes=10),
            record("failed", run=failed),
            replace(record("never"), figures=None, looked=None),
            replace(record("invalid"), invalid="queries.yaml:10: no such key"),
            record("doubtful", damage=1, codes=["CORRUPT_FILE"]),
            record("broken", blocked=1, damage=1),
            replace(record("queries file"), dag=FILE_DAG, invalid="queries.yaml:2: no such key"),
            record("empty", committed=None, target=None),
        ],
        NOW,
    )
    assert [row.record.query for row in rows] == [
        "queries file",
        "invalid",
        "broken",
        "never",
        "doubtful",
        "empty",
        "failed",
        "large",
        "small",
    ]
    assert [row.attention for row in rows] == [True] * 5 + [False, True, False, False]
    assert rows[0].verdict.mark == "bad"
    assert totals(rows)["queries"] == 8


def test_totals_add_up_the_rows() -> None:
    rows = fleet(
        [
            record("a", bytes=10, replay_bytes=1, reclaimable=2, trash_bytes=3),
            record("b", bytes=20, blocked=1, damage=1, trash_bytes=None),
            replace(record("c"), figures=None, looked=None),
        ],
        NOW,
    )
    assert totals(rows) == {
        "queries": 3,
        "broken": 1,
        "invalid": 0,
        "unmaintained": 0,
        "silent": 0,
        "degraded": 0,
        "unknown": 1,
        "failed": 0,
        "partitions": 8,
        "bytes": 30,
        "replay_bytes": 1,
        "reclaimable": 2,
        "trash_bytes": 3,
    }


@pytest.mark.parametrize(
    ("looked", "ended", "old"),
    [
        (timedelta(hours=1), timedelta(hours=1), False),
        (timedelta(hours=47), timedelta(hours=47), False),
        (timedelta(hours=49), timedelta(hours=49), True),
        (timedelta(hours=3), timedelta(hours=1), True),  # the last run has left no figures
    ],
)
def test_old_figures_are_marked(looked: timedelta, ended: timedelta, *, old: bool) -> None:
    run = replace(RUN, started=NOW - ended, ended=NOW - ended)
    assert row_of(replace(record(run=run), looked=NOW - looked), NOW).old is old


def test_figures_of_a_run_whose_other_tasks_take_hours_are_not_old() -> None:
    run = replace(RUN, started=LOOKED - timedelta(minutes=1), ended=NOW)
    assert not row_of(record(run=run), NOW).old


def test_a_running_run_does_not_make_figures_old() -> None:
    running = replace(RUN, state="running", ended=None)
    assert not row_of(record(run=running), NOW).old


def test_a_run_is_told_in_words() -> None:
    found = outcome(replace(RUN, state="failed", dry=True), NOW)
    assert (found.text, found.mark, found.when) == ("failed, dry run", "bad", "1 h ago")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"paused": True, "next_run": NOW}, "paused"),
        ({"next_run": NOW + timedelta(minutes=5)}, "in 5 min"),
        ({"schedule": "Triggered by assets"}, "after an Asset"),
        ({"schedule": None}, "by hand"),
    ],
)
def test_the_next_run_is_told(changed: dict[str, Any], text: str) -> None:
    assert row_of(replace(record(), **changed), NOW).next == text


def test_queries_sort_by_the_time_of_their_next_run_those_without_one_last() -> None:
    changed: dict[str, dict[str, Any]] = {
        "in 2 h": {"next_run": NOW + timedelta(hours=2)},
        "in 30 min": {"next_run": NOW + timedelta(minutes=30)},
        "paused": {"next_run": NOW, "paused": True},
        "in 9 days": {"next_run": NOW + timedelta(days=9)},
    }
    rows = [row_of(replace(record(), **one), NOW) for one in changed.values()]
    told = [row.next for row in sorted(rows, key=lambda row: row.due)]
    assert told == ["in 30 min", "in 2 h", "in 9 days", "paused"]


def test_figures_of_a_run_that_looked_at_nothing_are_unknown_and_none_is_zero() -> None:
    earlier_build = record(partitions=0, failure="STORAGE: denied", target=None, committed=None)
    assert not row_of(earlier_build, NOW).known
    never = replace(record(), figures=None, looked=None, failed="STORAGE: denied")
    row = row_of(never, NOW)
    assert (row.known, row.verdict.state) == (False, Verdict.UNKNOWN)
    after = row_of(replace(record(files=7), failed="STORAGE: denied"), NOW)
    assert (after.known, after.figures.files, after.verdict.state) == (
        True, 7, Verdict.UNKNOWN,
    )  # fmt: skip


@pytest.mark.parametrize("found", Verdict)
def test_the_page_shows_the_verdict_of_the_run_in_its_word_and_colour(found: Verdict) -> None:
    row = row_of(record(verdict=found, damage=1), NOW)
    assert (row.verdict.label, row.verdict.mark) == (found.value, found.mark)


def test_the_page_sorts_by_the_verdict() -> None:
    rows = fleet([record(one.value, verdict=one) for one in reversed(Verdict)], NOW)
    assert [row.verdict.state for row in rows] == list(Verdict)
    sums = totals(rows)
    assert (sums["broken"], sums["degraded"], sums["unknown"]) == (1, 1, 1)


def test_invalid_entries_are_counted_as_such_and_not_as_broken() -> None:
    rows = fleet([replace(record(), invalid="no such key"), replace(record("b"), stale=True)], NOW)
    assert [row.verdict.label for row in rows] == ["Invalid", "Not maintained"]
    sums = totals(rows)
    assert (sums["broken"], sums["invalid"], sums["unmaintained"]) == (0, 1, 1)


@pytest.mark.parametrize(
    ("age", "text"),
    [(timedelta(hours=2), ""), (timedelta(hours=3), "no commit for 3 h"),
     (timedelta(days=3), "no commit for 3 days")],
)  # fmt: skip
def test_a_query_that_commits_no_more_needs_attention(age: timedelta, text: str) -> None:
    committed = (LOOKED - age).timestamp()
    row = row_of(record(committed_at=committed, silent_after=3 * 3600.0), NOW)
    assert row.silence == text
    assert row.attention is bool(text)
    assert totals([row])["silent"] == bool(text)
    assert (row.verdict.state, row.committed_at) == (Verdict.HEALTHY, LOOKED - age)


def test_figures_of_an_earlier_build_say_nothing_about_silence() -> None:
    assert row_of(record(), NOW).silence == ""
    assert row_of(record(committed_at=0.0), NOW).silence == ""


@pytest.mark.parametrize(
    ("figures", "batch"),
    [
        ({"loads": 25}, 24),
        ({"loads": 5, "blocked": 1, "damage": 1}, 4),
        ({"loads": 25, "blocked": 1, "damage": 1}, None),
        ({}, None),
    ],
)
def test_the_newest_batch_that_loads_is_unknown_where_a_task_refutes_the_plan(
    figures: dict[str, Any], batch: int | None
) -> None:
    assert row_of(record(**figures), NOW).loading_batch == batch


def test_a_row_is_in_groups_by_owner_tag_and_storage() -> None:
    placed = QueryFigures(query="a", checkpoint="s3a://lake/a")
    row = row_of(replace(record(), figures=placed, owner="web", tags=("eu", "x")), NOW)
    assert row.groups == {"owner": ("web",), "tag": ("eu", "x"), "storage": ("s3://lake",)}
    assert row_of(record(), NOW).groups == {"owner": (), "tag": (), "storage": ("local disk",)}


def test_only_a_dag_of_maintenance_alone_can_be_compacted_from_the_fleet() -> None:
    assert row_of(record(), NOW).conf == '{"force_snapshot": true}'
    for changed in ({"group": "g"}, {"stale": True}, {"invalid": "no such key"}):
        assert row_of(replace(record(), **changed), NOW).conf == ""
