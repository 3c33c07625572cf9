"""The dashboard of a query: does it restart, how large is it, what did its runs do."""

from helm.dashboards.board import TO_DAG, TO_PAGE, TO_PARTITION, Board
from helm.dashboards.panels import (
    LONG_CHAIN,
    SLOW_RESTART,
    STALE_SECONDS,
    Column,
    Panel,
    Text,
    broken,
    lines,
    note,
    number,
    reclaimed,
    series,
    spread,
)
from helm.dashboards.promql import UNIT, moment, of_query, or_zero, per, since
from helm.dashboards.tasks import tasks_at_work


def query() -> Board:
    """Returns the dashboard of a query, or of several."""
    return Board(
        uid="statemaint-query",
        title="State maintenance: query",
        description="One query, or several: does it restart, how long does that take and from "
        "which batch, what did its runs do, and what did they cost.",
        numbers=_numbers(),
        rows={
            "Does it restart?": _restarts(),
            "What is wrong": _trouble(),
            "Runs at work": tasks_at_work(),
            "Last runs": _runs(),
            "Sizes": _sizes(),
        },
    )


def _numbers() -> list[Panel]:
    return [
        broken(),
        number(
            Text("Restart takes", "At most, in a new process; a forecast.", "s"),
            f"max({of_query('restart_seconds')})",
            alarm=SLOW_RESTART,
        ),
        number(
            Text(
                "Restarts after batch", "The last that is committed; the next one follows.", "none"
            ),
            f"min({of_query('last_committed_batch')})",
        ),
        number(
            Text("Since last success", "Of the query that waits longest.", "s"),
            f"max({since('last_success')})",
            alarm=STALE_SECONDS,
        ),
        reclaimed(),
        number(
            Text("Requests of a run", "Of the last run to the storage, of all verbs."),
            f"sum({per('verb', 'last_run_storage_requests')})",
        ),
    ]


def _restarts() -> list[Panel]:
    return [
        note(
            "What to do",
            "**A long chain** costs one read a delta: runs do not reach that store, their limits "
            "are low, `min_deltas_for_snapshot` is high, or snapshots are withheld. **A slow "
            "restart with short chains**: the state itself is large in one partition; more "
            "partitions help, maintenance cannot.",
            "Click a partition for its dashboard. What each alert means: [runbook](${runbook}).",
        )
        .height(10)
        .span(8),
        lines(
            Text("Worst partitions", "The five of each query that are slowest at a restart."),
            Column("Restart", per(UNIT, "worst_partition_restart_seconds"), "s", SLOW_RESTART),
            Column("Chain", per(UNIT, "worst_partition_chain_length"), alarm=LONG_CHAIN),
            Column("On storage", per(UNIT, "worst_partition_bytes"), "bytes"),
            links={"partition": (TO_PARTITION,)},
        )
        .height(10)
        .span(16),
        series(
            Text("Restart time", "Forecast, at most, in a new process, and its limit.", "s"),
            {
                "{{query}}": of_query("restart_seconds"),
                "{{query}} limit (0: none)": of_query("restart_limit_seconds"),
            },
            alarm=SLOW_RESTART,
        ),
        series(
            Text("Longest chain", "Deltas on top of the snapshot, in the worst store."),
            {"{{query}}": of_query("chain_length_max"), "{{query}} lag": _LAG},
            alarm=LONG_CHAIN,
        ),
        series(
            Text("Restart bytes", "What a restart reads, in all partitions.", "bytes"),
            {"{{query}}": of_query("restart_bytes")},
        ),
        series(
            Text("Restart files", "Files that a restart reads."),
            {"{{query}}": of_query("restart_files")},
        ),
        series(
            Text("Snapshots not written", "Due snapshots, by the reason to withhold them."),
            {"{{query}} {{reason}}": per("reason", "snapshots_withheld")},
        ),
        spread(
            Text("Chain lengths", "How many stores have a chain of which length, over time."),
            f"sum by (le) ({per('le', 'store_chain_length_bucket')})",
        ),
        series(
            Text("Age of the newest snapshot", "In the most neglected store.", "s"),
            {"{{query}}": or_zero(since("newest_snapshot"))},
        ),
    ]


def _trouble() -> list[Panel]:
    return [
        lines(
            Text("Query", "Click the DAG for Airflow, the query for all queries there."),
            Column("DAG", per("dag", "query_info"), "none"),
            Column("Halted stores", of_query("stores", outcome="halted"), alarm=1),
            Column("Last run", f"{moment('last_run')} * 1000", "dateTimeFromNow"),
            Column("Last success", f"{moment('last_success')} * 1000", "dateTimeFromNow"),
            Column("Expected every", or_zero(of_query("expected_interval_seconds")), "s"),
            links={"dag": (TO_DAG,), "query": (TO_PAGE,)},
        ).height(6),
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
        series(
            Text("Waiting for a lease", "How long a run waits for another run's lease.", "s"),
            {"{{query}}": or_zero(since("lease_held"))},
        ),
        series(
            Text("Verification", "1 where the last one found damage; nothing before the first."),
            {"{{query}}": or_zero(of_query("last_verify_failed"))},
            alarm=1,
        ),
        series(
            Text("Time since verification", "0 for a query that never was verified.", "s"),
            {"{{query}}": or_zero(since("last_verify"))},
        ),
        series(
            Text(
                "Time since savepoint", "Where it was ever saved; and what the schedule says.", "s"
            ),
            {
                "{{query}}": since("last_savepoint"),
                "{{query}} every": of_query("savepoint_expected_interval_seconds"),
            },
        ),
        series(
            Text("Stores by outcome", "Of the last run: maintained, left for later, halted."),
            {"{{query}} {{outcome}}": per("outcome", "stores")},
        ),
    ]


def _runs() -> list[Panel]:
    reasons = f"sum by (reason) ({per('reason', 'last_run_files_deleted')})"
    return [
        series(
            Text("Duration", "Of the slowest task of the last run.", "s"),
            {"{{query}}": of_query("last_run_duration_seconds")},
        ),
        spread(
            Text("Task times", "How long the tasks of the last run took.", "s"),
            f"sum by (le) ({per('le', 'task_seconds_bucket')})",
        ),
        series(
            Text("Tasks", "Of the last run, and those that gave no report or had no storage."),
            {
                "{{query}} {{state}}": per("state", "last_run_tasks"),
                "{{query}} storage failed": of_query("last_run_storage_errors"),
            },
        ),
        series(
            Text("Storage requests", "In the last run, by verb; each task's count once."),
            {"{{query}} {{verb}}": per("verb", "last_run_storage_requests")},
        ),
        series(
            Text("Files deleted by reason", "In the last run; from the trash, once expired there."),
            {
                "{{reason}}": reasons,
                "{{query}} from the trash": of_query("last_run_trash_files_deleted"),
            },
        ),
        series(
            Text("Bytes written and deleted", "In the last run.", "bytes"),
            {
                "{{query}} written": of_query("last_run_bytes_written"),
                "{{query}} deleted": of_query("last_run_bytes_deleted"),
                "{{query}} deleted from the trash": of_query("last_run_trash_bytes_deleted"),
            },
        ),
        series(
            Text("Snapshots written", "In the last run."),
            {"{{query}}": of_query("last_run_snapshots_written")},
        ),
        series(
            Text("Peak memory", "Of the largest task of the last run.", "bytes"),
            {"{{query}}": of_query("last_run_peak_memory_bytes")},
        ),
    ]


def _sizes() -> list[Panel]:
    return [
        series(
            Text("Bytes on storage", "All files, those that go next, and the trash.", "bytes"),
            {
                "{{query}} all": of_query("store_bytes"),
                "{{query}} reclaimable": of_query("reclaimable_bytes"),
                "{{query}} trash": of_query("trash_bytes"),
            },
        ),
        series(
            Text("Age of the figures", "A run that fails early leaves them as they were.", "s"),
            {"{{query}} {{figures}}": f"time() - {of_query('figures_timestamp_seconds')}"},
        ),
        series(
            Text("Files on storage", "Deltas, snapshots and their side files; the trash."),
            {"{{query}}": of_query("store_files"), "{{query}} trash": of_query("trash_files")},
        ),
        series(
            Text("State rows", "As last attested; stores without a proof are missing in it."),
            {
                "{{query}}": of_query("state_rows"),
                "{{query}} unproved stores": of_query("stores_unproved"),
            },
        ),
        series(
            Text("State bytes", "Keys and values, as last attested.", "bytes"),
            {"{{query}}": of_query("state_bytes")},
        ),
        series(
            Text("Savepoint bytes", "Of the newest savepoint.", "bytes"),
            {"{{query}}": of_query("last_savepoint_bytes")},
        ),
        series(
            Text("Savepoint duration", "How long the newest one took.", "s"),
            {"{{query}}": of_query("last_savepoint_duration_seconds")},
        ),
        spread(
            Text("Store sizes", "How many stores have which size, over time.", "bytes"),
            f"sum by (le) ({per('le', 'store_size_bytes_bucket')})",
        ),
        series(
            Text("Partitions", "The partitions that are known."),
            {"{{query}}": of_query("partitions")},
        ),
    ]


_LAG = of_query("snapshot_lag_versions")
