"""The first dashboard: all queries, what is broken, and whether maintenance keeps up."""

from collections.abc import Mapping

from helm.dashboards.board import TO_DAG, TO_PAGE, TO_QUERY, TO_RUNBOOK, Board
from helm.dashboards.panels import (
    LONG_CHAIN,
    SLOW_RESTART,
    STALE_SECONDS,
    Column,
    Link,
    Panel,
    Text,
    broken,
    firing,
    lines,
    note,
    number,
    reclaimed,
    series,
)
from helm.dashboards.promql import (
    ID,
    gained,
    incidents,
    late,
    moment,
    of_file,
    of_query,
    or_zero,
    per,
    since,
)
from helm.dashboards.tasks import runs_at_work

_TO: Mapping[str, tuple[Link, ...]] = {"query": (TO_QUERY, TO_PAGE)}


def fleet() -> Board:
    """Returns the dashboard of all queries."""
    return Board(
        uid="statemaint",
        title="State maintenance: fleet",
        description="All streaming queries: do they restart, what is broken and since when, does "
        "maintenance keep up, and what does it reclaim and cost.",
        numbers=_numbers(),
        rows={
            "What is broken, and since when": _broken(),
            "Queries": _queries(),
            "Runs at work": runs_at_work(_TO),
            "Does maintenance keep up?": _keeping_up(),
            "What it reclaims and costs": _totals(),
            "Where these numbers come from": _sources(),
        },
    )


def _numbers() -> list[Panel]:
    return [
        broken(),
        number(
            Text("Halted stores", "Damaged: not maintained until repaired. See the runbook."),
            f"sum({of_query('stores', outcome='halted')})",
            alarm=1,
        ),
        number(
            Text("Queries behind", "Without a success in two and a half of their intervals."),
            f"sum({late()})",
            alarm=1,
        ),
        number(
            Text("Slowest restart", "Forecast, of the query that takes longest.", "s"),
            f"max({of_query('restart_seconds')})",
            alarm=SLOW_RESTART,
        ),
        reclaimed(),
        number(
            Text("Requests in a day", "Requests of maintenance to the storages, of all verbs."),
            f"sum({gained('storage_requests_total', '1d')})",
        ),
    ]


def _broken() -> list[Panel]:
    return [
        note(
            "What to do",
            "**An alert** has its numbers and a link to the [runbook](${runbook}). What follows "
            "from another alert is left out: begin with what is there.",
            "**Would not restart** above 0: do not stop the query. Run `statemaint doctor` on its "
            "checkpoint; it says what a restart would do and how to repair it.",
            "**Queries behind**: is the DAG paused, or does it wait for a worker? "
            "[All queries in Airflow](${airflow}/plugin/statemaint-queries).",
        )
        .height(9)
        .span(8),
        firing(Text("Alerts", "What fires now, or is about to. Click one for its runbook."))
        .height(9)
        .span(16),
        lines(
            Text(
                "Since when",
                "When each alert became true, by the rules of this Prometheus. Empty: nothing is "
                "wrong. Click the query for its dashboard, the alert for the runbook.",
            ),
            Column("Since", incidents(), "dateTimeFromNow"),
            links={**_TO, "alertname": (TO_RUNBOOK,)},
        ),
        series(
            Text("Findings by code", "What is wrong; the runbook has a heading for each code."),
            {"{{query}} {{code}}": per("code", "findings")},
            alarm=1,
        ),
        series(
            Text("Why runs failed", "1 for each cause that the last run failed for."),
            {"{{query}} {{cause}}": per("cause", "last_run_failed")},
            alarm=1,
        ),
    ]


def _queries() -> list[Panel]:
    return [
        lines(
            Text(
                "Queries",
                "One line for each query. Click its name for its dashboard, the DAG for Airflow. "
                "A restart goes on after the last committed batch.",
            ),
            Column("DAG", per("dag", "query_info"), "none"),
            Column("Would not load", of_query("stores_unloadable"), alarm=1),
            Column("Halted stores", of_query("stores", outcome="halted"), alarm=1),
            Column("Restart", of_query("restart_seconds"), "s", SLOW_RESTART),
            Column("Restarts after batch", of_query("last_committed_batch"), "none"),
            Column("Longest chain", of_query("chain_length_max"), alarm=LONG_CHAIN),
            Column("On storage", of_query("store_bytes"), "bytes"),
            Column("Since last run", since("last_run"), "s"),
            Column("Since last success", since("last_success"), "s", STALE_SECONDS),
            Column("Expected every", or_zero(of_query("expected_interval_seconds")), "s"),
            links={**_TO, "dag": (TO_DAG,)},
        ).height(10),
    ]


def _keeping_up() -> list[Panel]:
    return [
        series(
            Text("Time since last success", "A line that only rises: no run succeeds.", "s"),
            {"{{query}}": since("last_success")},
            alarm=STALE_SECONDS,
        ),
        series(
            Text("Snapshot lag", "Versions since the newest snapshot; rising: run more often."),
            {"{{query}}": of_query("snapshot_lag_versions")},
        ),
        series(
            Text("Restart time", "Forecast, at most, in a new process.", "s"),
            {"{{query}}": of_query("restart_seconds")},
            alarm=SLOW_RESTART,
        ),
        series(
            Text("Reclaimable", "What later runs delete; rising: raise a run's limits.", "bytes"),
            {
                "{{query}}": of_query("reclaimable_bytes"),
                "{{query}} trash": of_query("trash_bytes"),
            },
        ),
    ]


def _totals() -> list[Panel]:
    verbs = f"sum by (verb) ({gained('storage_requests_total', '1d')})"
    return [
        lines(
            Text("This week", "What seven days of maintenance did and cost."),
            Column("Runs", f"sum by ({ID}) ({gained('runs_total')})"),
            Column("Snapshots", gained("snapshots_written_total")),
            Column("Written", gained("written_bytes_total"), "bytes"),
            Column("Reclaimed", gained("reclaimed_bytes_total"), "bytes"),
            Column("Files deleted", gained("reclaimed_files_total")),
            Column("Requests", f"sum by ({ID}) ({gained('storage_requests_total')})"),
            Column("Storage errors", gained("storage_errors_total"), alarm=1),
            Column("Lost pushes", gained("push_losses_total"), alarm=1),
            links=_TO,
        ),
        series(
            Text("Bytes on storage", "All files of all stores.", "bytes"),
            {"{{query}}": of_query("store_bytes")},
        ),
        series(
            Text("Requests in a day, by verb", "Your storage's price list turns them into money."),
            {"{{verb}}": verbs},
        ),
    ]


def _sources() -> list[Panel]:
    return [
        lines(
            Text(
                "Queries and their sources",
                "Who maintained them last. A record that the exporter cannot read is shown for a "
                "while; its log says why.",
            ),
            Column("Maintained by", per("version", "build_info"), "none"),
            Column("Last run", f"{moment('last_run')} * 1000", "dateTimeFromNow"),
            Column("Read fails", or_zero(of_query("exporter_read_failed")), alarm=1),
            Column("Since read", or_zero(since("exporter_read")), "s"),
            links=_TO,
        ),
        series(
            Text("Queries of the exporter", "In the queries file, and where mistakes in it are."),
            {
                "queries {{namespace}} {{origin}}": of_file("exporter_queries"),
                "mistakes {{file}} {{line}} {{query}}": (
                    f"{of_file('exporter_problems')} or "
                    f"{of_file('configuration_problem', ', file, line, query')}"
                ),
            },
        ).span(12),
        series(
            Text(
                "Since the exporter's last reading",
                "Of its slowest shard. What it serves is as old as this.",
                "s",
            ),
            {
                "last reading {{namespace}} {{origin}}": (
                    f"time() - {of_file('exporter_last_reading_timestamp_seconds', pick='min')}"
                )
            },
        ).span(12),
    ]
