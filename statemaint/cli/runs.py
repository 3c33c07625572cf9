"""`runs` lists the runs that changed a checkpoint, or shows one; `undo` brings back its files."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Any, NoReturn

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import as_json, as_json_or_lines, publish_flag, publishing, uri
from statemaint.cli.output import MOST_LINES, Json, print_result
from statemaint.cli.tables import Column, files_of, lasting, number
from statemaint.cli.targets import Address
from statemaint.errors import CheckpointError, ConfigError
from statemaint.maintain import list_runs, undo
from statemaint.maintain.record import recorded_recovery
from statemaint.maintain.runs import Run, list_actions
from statemaint.plan.recovery.recovery_plan import UndoPlan
from statemaint.report.recovery_json import undo_plan_json
from statemaint.storage import Storage, open_storage
from statemaint.undo.run import Undone, plan_undo
from statemaint.wording import command, counted, moment


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
        lambda: {"runs": [asdict(run) for run in runs]},
        as_json=as_json,
        table=lambda: _print_runs(runs),
        checkpoint=storage.root,
        lines="runs",
    )


def _named(run: str, runs: Sequence[Run], root: str) -> Run:
    """Returns the run of an id."""
    by_id = {listed.run: listed for listed in runs}
    if run in by_id:
        return by_id[run]
    near = get_close_matches(run, by_id, n=1)
    meant = f"did you mean {near[0]!r}?" if near else "`statemaint runs` lists them"
    raise ConfigError(f"{root}: there is no run {run!r}; {meant}")


def _show(storage: Storage, run: Run, *, as_json: bool) -> None:
    actions = [
        {name: fields[name] for name in _FIELDS if name in fields}
        for fields in list_actions(storage, run.run)
    ]
    print_result(
        lambda: {**asdict(run), "actions": actions},
        as_json=as_json,
        table=lambda: _print_run(run, actions, storage.root),
        checkpoint=storage.root,
        lines="actions",
    )


_FIELDS = (
    "action", "operator", "partition", "store", "version", "path", "reason", "bytes", "time",
    "trash", "of",
)  # fmt: skip


def _print_run(run: Run, actions: Sequence[Mapping[str, Any]], root: str) -> None:
    for line in (*_heading(run, root), *_undone_lines(run)):
        tables.print_line(line, wrap=False)
    counts = Counter((str(one.get("action")), str(one.get("reason", ""))) for one in actions)
    for (action, reason), count in sorted(counts.items()):
        tables.print_line(f"{count:>8,} {action} {reason}".rstrip().replace("_", " "))
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
    yield f"started  {moment(run.started)} UTC, for {took}; exit code {run.exit_code}"
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
        tables.cell(fields.get("reason", "")).replace("_", " "),
        decimal(size) if isinstance(size, int) else "",
    )


def _print_runs(runs: Sequence[Run]) -> None:
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
        yield f"{run.run} was undone {moment(one.time)} by {one.run}: {files}"


def _run_cells(run: Run) -> tuple[str, ...]:
    return (
        run.run,
        moment(run.started),
        f"{run.seconds:.1f}",
        str(run.snapshots_written),
        str(run.files_deleted),
        decimal(run.bytes_deleted),
        str(run.exit_code),
        _undo_cell(run),
    )


def _undo_cell(run: Run) -> str:
    if run.undo_of is not None:
        return "is one"
    if run.undone:
        return "partly" if run.in_trash else "done"
    return "yes" if run.in_trash else "no"


@click.command("undo")
@uri
@click.argument("run", metavar="RUN")
@click.option("--dry-run", is_flag=True, help="Show what would come back; write nothing.")
@publish_flag
@as_json
def undo_verb(uri: Address, run: str, *, dry_run: bool, publish: bool, as_json: bool) -> None:
    """Restore the files that a run moved to the trash, if they still fit.

    RUN is an id listed by `statemaint runs`. A run of `maintain` can be undone only if it ran with
    --trash-for. A file stays in the trash if its store's log was rewritten at or below its
    version, or if another file is in its place; each is reported with the reason, and the exit
    code is 3. The undo of a rollback restores all of its files, and is refused (exit code 2) once
    the query has moved on. What a `maintain` deleted, the next one deletes again unless its policy
    retains more.

    With --dry-run --json the plan is printed as a document that `statemaint apply` carries out.
    """
    storage = open_storage(uri)
    if dry_run:
        _end_with_plan(plan_undo(storage, run), as_json=as_json)
    with publishing(uri, storage, wanted=publish):
        undone = recorded_recovery(storage, partial(undo, storage, run))
    end_with_undone(undone, storage.root, as_json=as_json)


def end_with_undone(undone: Undone, checkpoint: str, *, as_json: bool) -> NoReturn:
    print_result(
        lambda: undo_json(undone),
        as_json=as_json,
        table=lambda: _print_undone(undone),
        checkpoint=checkpoint,
    )
    _print_reasons(undone.left)
    sys.exit(CheckpointError.exit_code if undone.left else 0)


def _end_with_plan(plan: UndoPlan, *, as_json: bool) -> NoReturn:
    print_result(lambda: undo_plan_json(plan), as_json=as_json, table=lambda: _print_plan(plan))
    _print_reasons(plan.left)
    sys.exit(CheckpointError.exit_code if plan.left else 0)


def _print_plan(plan: UndoPlan) -> None:
    tables.print_line(f"dry run, nothing was done: {plan.root}", wrap=False)
    tables.print_line(
        f"{len(plan.coming):,} of {counted(len(plan.files), 'file')} of run {plan.run} would come "
        f"back ({decimal(plan.bytes)})"
    )
    files = sorted(plan.files, key=lambda one: one.comes_back)  # remaining files come first
    fates = {True: "comes back", False: "stays in the trash"}
    rows = [(one.path, decimal(one.entry.size), fates[one.comes_back]) for one in files]
    tables.print_first(("file", number("bytes"), ""), rows, "file")


def undo_json(undone: Undone) -> Json:
    return {
        "run": undone.run,
        "undo": undone.undo,
        "files": undone.files,
        "bytes": undone.bytes,
        "left": list(undone.left),
        "reasons": dict(undone.left),
    }


def _print_reasons(reasons: Mapping[str, str]) -> None:
    for path, reason in islice(reasons.items(), MOST_LINES):
        click.echo(f"{path} stays in the trash: {reason}", err=True)
    if len(reasons) > MOST_LINES:
        click.echo(f"and {len(reasons) - MOST_LINES} more; --json lists them", err=True)


def _print_undone(undone: Undone) -> None:
    tables.print_line(f"brought back {files_of(undone.files, undone.bytes)} of run {undone.run}")
    if undone.files:
        tables.print_line(undone.sequel, wrap=False)
    if undone.left:
        stay = "1 file stays" if len(undone.left) == 1 else f"{len(undone.left)} files stay"
        tables.print_line(f"{stay} in the trash")
