"""The rows with the tasks of runs at work: how far they are, and how long they still take."""

from collections.abc import Mapping

from helm.dashboards.panels import Column, Link, Panel, Text, lines, series
from helm.dashboards.promql import ID, or_zero, per

# Three missed minutes of a task that reports four times a minute.
_SILENT = 180


def runs_at_work(links: Mapping[str, tuple[Link, ...]]) -> list[Panel]:
    """Returns the panels of all queries."""
    done, planned = (f"sum by ({ID}) ({_of(one)})" for one in ("stores_done", "stores_planned"))
    share = f"{done} / ({planned} > 0)"
    return [
        lines(
            Text(
                "Runs at work",
                "The tasks of the last run of each query. A task that works and has not reported "
                "for minutes was killed, or hangs.",
            ),
            Column("Tasks at work", or_zero(f"count by ({ID}) ({_WORKING})")),
            Column("Done", or_zero(share), "percentunit"),
            Column("Time left", or_zero(f"max by ({ID}) ({_LEFT})"), "s"),
            Column("Since last report", or_zero(f"max by ({ID}) ({_SILENCE})"), "s", _SILENT),
            links=links,
        ),
        series(
            Text("Progress of runs", "Stores that the tasks are done with.", "percentunit"),
            {"{{query}}": share},
        ).span(24),
    ]


def tasks_at_work() -> list[Panel]:
    """Returns the panels of one query, with a line for each task."""
    began, ended = (f"({_of(f'{one}_timestamp_seconds')})" for one in ("started", "ended"))
    progress = f"{_of('stores_done')} / ({_of('stores_planned')} > 0)"
    return [
        lines(
            Text("Tasks", "Of the last run of each kind: what each task did, and does now."),
            Column("State", per("task, state", "task_state"), "none"),
            Column("Done", progress, "percentunit"),
            Column("Time left", f"({_LEFT}) or {began} * 0", "s"),
            Column("Began", f"{began} * 1000", "dateTimeFromNow"),
            Column("Ended", f"{ended} * 1000", "dateTimeFromNow"),
            Column("Since last report", f"({_SILENCE}) or {began} * 0", "s", _SILENT),
            Column("Retries", _of("retries"), alarm=1),
            links={},
        ),
        lines(
            Text("Work of tasks", "What each task has written and deleted so far."),
            Column("Stores done", _of("stores_done")),
            Column("Stores", _of("stores_planned")),
            Column("Snapshots", _of("snapshots_written")),
            Column("Written", _of("bytes_written"), "bytes"),
            Column("Files deleted", _of("files_deleted")),
            Column("Deleted", _of("bytes_deleted"), "bytes"),
            links={},
        ),
        series(
            Text("Progress of tasks", "Stores that each task is done with.", "percentunit"),
            {"{{query}} {{task}}": progress},
        ),
        series(
            Text("Files deleted by tasks", "So far, by each task of the last run."),
            {"{{query}} {{task}}": _of("files_deleted")},
        ),
    ]


def _of(metric: str) -> str:
    return per("task", f"task_{metric}")


_WORKING = per("task", "task_state", chosen=', state="working"')
_LEFT = (
    f"({_of('stores_planned')} - {_of('stores_done')}) / ({_of('stores_done')} > 0)"
    f" * (time() - {_of('started_timestamp_seconds')}) and {_WORKING}"
)
_SILENCE = f"({_WORKING}) * (time() - {_of('reported_timestamp_seconds')})"
