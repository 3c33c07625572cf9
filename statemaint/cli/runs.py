"""`runs`: lists the runs that changed a checkpoint, or shows the actions of one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import as_json_or_lines, uri
from statemaint.cli.output import Json, print_result
from statemaint.cli.tables import Column, number
from statemaint.cli.words import files_of, lasting
from statemaint.errors import ConfigError
from statemaint.maintain import Run, list_actions, list_runs
from statemaint.storage import Storage, open_storage
from statemaint.wording import command, counted


@click.command("runs")
@uri
@click.argument("run", metavar="[RUN]", required=False)
@as_json_or_lines
def runs_verb(uri: str, run: str | None, *, as_json: bool) -> None:
    """List the runs that changed a checkpoint, the newest first, and which were undone.

    With RUN, show what that run did: each file that it wrote, proved, deleted or brought back, with
    the reason recorded in the ledger.

    A run that could not record itself, since it was killed or the disk was full, is listed as long
    as files of it are in the trash, with what the trash and the ledger have of it.

    An undo is also a run. The column `undo` shows whether a run can be undone (yes or no), was
    undone (done, or partly if files remain in the trash), or is itself an undo. The lines below
    the table show when each run was undone, and by which run.
    """
    storage = open_storage(uri)
    runs = list_runs(storage)
    if run is not None:
        _show(storage, _named(run, runs, storage.root), as_json=as_json)
        return
    print_result(
        lambda: runs_json(runs),
        as_json=as_json,
        table=lambda: _print_table(runs),
        checkpoint=storage.root,
        lines="runs",
    )


def _named(run: str, runs: Sequence[Run], root: str) -> Run:
    """Returns the run of an id.

    Raises:
        ConfigError: when there is no such run.
    """
    for one in runs:
        if one.run == run:
            return one
    near = get_close_matches(run, [one.run for one in runs], n=1)
    meant = f"did you mean {near[0]!r}?" if near else "`statemaint runs` lists them"
    raise ConfigError(f"{root}: there is no run {run!r}; {meant}")


def _show(storage: Storage, run: Run, *, as_json: bool) -> None:
    """Prints the actions of one run."""
    actions = list_actions(storage, run.run)
    print_result(
        lambda: {**asdict(run), "actions": [_action_json(one) for one in actions]},
        as_json=as_json,
        table=lambda: _print_run(run, actions, storage.root),
        checkpoint=storage.root,
        lines="actions",
    )


_FIELDS = (
    "action", "operator", "partition", "store", "version", "path", "reason", "bytes", "time",
    "trash", "of",
)  # fmt: skip


def _action_json(fields: Mapping[str, Any]) -> Json:
    """Returns the fields of an action without those of the ledger itself."""
    return {name: fields[name] for name in _FIELDS if name in fields}


def _print_run(run: Run, actions: Sequence[Mapping[str, Any]], root: str) -> None:
    for line in _heading(run, root):
        tables.print_line(line, wrap=False)
    for line in _undone_lines(run):
        tables.print_line(line, wrap=False)
    counts = Counter((str(one.get("action")), str(one.get("reason", ""))) for one in actions)
    for (action, reason), count in sorted(counts.items()):
        tables.print_line(f"{count:>8,} {action} {reason}".rstrip())
    tables.print_first(_ACTION_COLUMNS, [_action_cells(one) for one in actions], "action")


_ACTION_COLUMNS = (
    Column("action"),
    Column("file"),
    Column("reason", spare=2),
    number("bytes", spare=1),
)


def _heading(run: Run, root: str) -> Iterator[str]:
    yield f"run      {run.run}: {root}"
    took = lasting(run.seconds)
    yield f"started  {_time(run.started)} UTC, for {took}; exit code {run.exit_code}"
    deleted = files_of(run.files_deleted, run.bytes_deleted)
    yield (
        f"did      {counted(run.snapshots_written, 'snapshot')} written "
        f"({decimal(run.bytes_written)}), {deleted} deleted"
    )
    if run.undo_of is not None:
        back = files_of(run.files_restored, run.bytes_restored)
        yield f"undo     of run {run.undo_of}: {back} brought back"
    elif run.in_trash:
        yield f"undo     {command('undo', root, run.run)}"


def _action_cells(fields: Mapping[str, Any]) -> tuple[str, ...]:
    size = fields.get("bytes")
    return (
        tables.cell(fields.get("action", "")),
        tables.cell(fields.get("path", "")),
        tables.cell(fields.get("reason", "")),
        decimal(size) if isinstance(size, int) else "",
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
        files = f"{counted(one.files, 'file')} back" + (f", {one.left} left" if one.left else "")
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
