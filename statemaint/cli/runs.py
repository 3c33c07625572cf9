"""`runs`: lists the runs that changed a checkpoint."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import as_json_or_lines, uri
from statemaint.cli.output import Json, print_result
from statemaint.cli.tables import Column, number
from statemaint.maintain import Run, list_runs
from statemaint.storage import open_storage


@click.command("runs")
@uri
@as_json_or_lines
def runs_verb(uri: str, *, as_json: bool) -> None:
    """List the runs that changed a checkpoint, the newest first, and which were undone.

    An undo is a run, too. The column `undo` shows whether a run can be undone (yes or no), was
    undone (done, or partly if files remain in the trash), or is itself an undo. The lines below
    the table show when each run was undone, and by which run.
    """
    storage = open_storage(uri)
    runs = list_runs(storage)
    print_result(
        lambda: runs_json(runs),
        as_json=as_json,
        table=lambda: _print_table(runs),
        checkpoint=storage.root,
        lines="runs",
    )


def runs_json(runs: Iterable[Run]) -> Json:
    """Returns the output of `runs --json`."""
    return {"runs": [asdict(run) for run in runs]}


def _print_table(runs: Sequence[Run]) -> None:
    """Prints runs, one line each; below them, when each was undone and by which run."""
    if not runs:
        tables.print_line("no run has changed this checkpoint yet")
        return
    tables.print_first(_COLUMNS, [*map(_run_cells, runs)], "run")
    for run in runs:
        for line in _undone_lines(run):
            tables.print_line(line, wrap=False)


_COLUMNS = (
    Column("run"),
    Column("started (UTC)", spare=2),
    number("seconds", 4),
    number("snapshots", 3),
    number("deleted"),
    number("bytes", 1),
    number("exit", 5),
    Column("undo"),
)


def _undone_lines(run: Run) -> Iterator[str]:
    for one in reversed(run.undone):
        files = f"{one.files} files back" + (f", {one.left} left" if one.left else "")
        yield f"{run.run} was undone {_time(one.time)} by {one.run}: {files}"


def _run_cells(run: Run) -> tuple[str, ...]:
    return (
        run.run,
        _time(run.started),
        f"{run.seconds:.1f}",
        str(run.snapshots_written),
        str(run.files_deleted),
        decimal(run.bytes_deleted),
        str(run.exit_code),
        _undo_cell(run),
    )


def _undo_cell(run: Run) -> str:
    """Returns whether a run can be undone, was undone, or is an undo itself."""
    if run.undo_of is not None:
        return "is one"
    if run.undone:
        return "partly" if run.in_trash else "done"
    return "yes" if run.in_trash else "no"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
