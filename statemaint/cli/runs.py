"""`runs` and `undo`: what changed a checkpoint; `pin` and `pins`: what is kept for a while."""

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

from statemaint.cli import options as flags
from statemaint.cli import tables
from statemaint.cli.output import MOST_LINES, print_json, print_result, settings, tell
from statemaint.cli.progress import work_done
from statemaint.cli.tables import Column, files_of, lasting, number
from statemaint.cli.targets import Address
from statemaint.errors import CheckpointError, ConfigError
from statemaint.maintain import list_runs, undo
from statemaint.maintain.pins import end_pin_of, list_pins, pin_batch
from statemaint.maintain.record import recorded_recovery
from statemaint.maintain.runs import Run, list_actions
from statemaint.model.pins import Pin
from statemaint.plan.recovery.recovery_plan import PutBack, UndoPlan
from statemaint.records.claims import me
from statemaint.report.to_json import fields_json, pin_json, undo_plan_json
from statemaint.storage import Storage, open_storage
from statemaint.undo.run import Undone, plan_undo
from statemaint.wording import command, counted, moment


@click.command("runs")
@flags.uri
@click.argument("run", metavar="[RUN]", required=False)
@flags.as_json_or_lines
def runs_verb(uri: str, run: str | None) -> None:
    """List the runs that changed a checkpoint, the newest first, and which were undone.

    With RUN, show what that run did: each file that it wrote, proved, deleted or brought back, with
    the reason recorded in the ledger.

    A run that could not record itself, since it was killed or the disk was full, is listed as long
    as files of it are in the trash, with what the trash and the ledger have of it.

    An undo is also a run. The column `undo` shows whether a run can be undone (yes or no), was
    undone (done, or partly if files remain in the trash), or is itself an undo. A run of
    `bootstrap` is undone by a rollback. The lines below the table show when each run was undone,
    and by which run.
    """
    storage = open_storage(uri)
    runs = list_runs(storage)
    if run is not None:
        _show(storage, _named(run, runs, storage.root))
    elif settings().as_json:
        document = {"checkpoint": storage.root, "runs": [asdict(run) for run in runs]}
        print_json(document, lines="runs")
    elif runs:
        tables.print_first(_COLUMNS, runs, "run")
        tables.print_lines(line for run in runs for line in _undone_lines(run))
    else:
        tables.print_line("no run has changed this checkpoint yet")


def _named(run: str, runs: Sequence[Run], root: str) -> Run:
    by_id = {listed.run: listed for listed in runs}
    if run in by_id:
        return by_id[run]
    near = get_close_matches(run, by_id, n=1)
    meant = f"did you mean {near[0]!r}?" if near else "`statemaint runs` lists them"
    raise ConfigError(f"{root}: there is no run {run!r}; {meant}")


def _show(storage: Storage, run: Run) -> None:
    actions = [
        {name: fields[name] for name in _FIELDS if name in fields}
        for fields in list_actions(storage, run.run)
    ]
    if settings().as_json:
        document = {"checkpoint": storage.root, **asdict(run), "actions": actions}
        print_json(document, lines="actions")
        return
    tables.print_lines((*_heading(run, storage.root), *_undone_lines(run)))
    counts = Counter((str(step.get("action")), str(step.get("reason", ""))) for step in actions)
    for (action, reason), count in sorted(counts.items()):
        tables.print_line(f"{count:>8,} {action} {reason}".rstrip().replace("_", " "))
    tables.print_first(_ACTION_COLUMNS, actions, "action")


_FIELDS = (
    "action", "operator", "partition", "store", "version", "path", "reason", "bytes", "time",
    "trash", "of",
)  # fmt: skip


_ACTION_COLUMNS: tuple[Column[Mapping[str, Any]], ...] = (
    Column("action", lambda row: tables.cell(row.get("action", ""))),
    Column("file", lambda row: tables.cell(row.get("path", ""))),
    Column("reason", lambda row: tables.cell(row.get("reason", "")).replace("_", " "), spare=2),
    number("bytes", lambda row: decimal(row["bytes"]) if "bytes" in row else "", 1),
)


def _heading(run: Run, root: str) -> Iterator[str]:
    yield f"run      {run.run}: {root}"
    took = lasting(run.seconds)
    yield f"started  {moment(run.started)} UTC, for {took}; exit code {run.exit_code}"
    if run.batch is not None:
        yield f"did      batch {run.batch} committed, with rows that were given"
        yield f"undo     {command('rollback', root, '--to-batch', str(run.batch - 1))}"
        return
    written = f"{counted(run.snapshots_written, 'snapshot')} written ({decimal(run.bytes_written)})"
    yield f"did      {written}, {files_of(run.files_deleted, run.bytes_deleted)} deleted"
    if run.undo_of is not None:
        back = files_of(run.files_restored, run.bytes_restored)
        yield f"undo     of run {run.undo_of}: {back} brought back"
    elif run.in_trash:
        yield f"undo     {command('undo', root, run.run)}"


def _undone_lines(run: Run) -> Iterator[str]:
    for undoing in reversed(run.undone):
        files = f"{counted(undoing.files, 'file')} back"
        left = f", {undoing.left} left" if undoing.left else ""
        yield f"{run.run} was undone {moment(undoing.time)} by {undoing.run}: {files}{left}"


def _undo_cell(run: Run) -> str:
    if run.undo_of is not None:
        return "is one"
    if run.batch is not None:
        return "rollback"
    if run.undone:
        return "partly" if run.in_trash else "done"
    return "yes" if run.in_trash else "no"


_COLUMNS: tuple[Column[Run], ...] = (
    Column("run", lambda run: run.run),
    Column("started (UTC)", lambda run: moment(run.started), spare=2),
    number("seconds", lambda run: f"{run.seconds:.1f}", 4),
    number("snapshots", lambda run: str(run.snapshots_written), 3),
    number("deleted", lambda run: str(run.files_deleted)),
    number("bytes", lambda run: decimal(run.bytes_deleted), 1),
    number("exit", lambda run: str(run.exit_code), 5),
    Column("undo", _undo_cell),
)


@click.command("undo")
@flags.uri
@click.argument("run", metavar="RUN")
@click.option("--dry-run", is_flag=True, help="Show what would come back; write nothing.")
@flags.publish_flag
@flags.as_json
def undo_verb(uri: Address, run: str, *, dry_run: bool, publish: bool) -> None:
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
        plan = plan_undo(storage, run)
        print_result(lambda: undo_plan_json(plan), lambda: _print_plan(plan))
        _end_with_left(plan.left)
    with flags.publishing(uri, storage, wanted=publish), work_done("restoring"):
        undone = recorded_recovery(storage, partial(undo, storage, run))
    end_with_undone(undone, storage.root)


def end_with_undone(undone: Undone, checkpoint: str) -> NoReturn:
    if settings().as_json:
        left = {"left": list(undone.left), "reasons": dict(undone.left)}
        fields = fields_json(undone, "run undo files bytes")
        print_json({"checkpoint": checkpoint, **fields, **left})
    else:
        files = files_of(undone.files, undone.bytes)
        tables.print_line(f"brought back {files} of run {undone.run}")
        if undone.files:
            tables.print_line(undone.sequel, wrap=False)
        if undone.left:
            stay = "1 file stays" if len(undone.left) == 1 else f"{len(undone.left)} files stay"
            tables.print_line(f"{stay} in the trash")
    _end_with_left(undone.left)


def _print_plan(plan: UndoPlan) -> None:
    tables.print_line(f"dry run, nothing was done: {plan.root}", wrap=False)
    of_all = f"{len(plan.coming):,} of {counted(len(plan.files), 'file')} of run {plan.run}"
    tables.print_line(f"{of_all} would come back ({decimal(plan.bytes)})")
    files = sorted(plan.files, key=lambda file: file.comes_back)  # remaining files come first
    columns: tuple[Column[PutBack], ...] = (
        Column("file", lambda file: file.path),
        number("bytes", lambda file: decimal(file.entry.size)),
        Column("", lambda file: "comes back" if file.comes_back else "stays in the trash"),
    )
    tables.print_first(columns, files, "file")


def _end_with_left(reasons: Mapping[str, str]) -> NoReturn:
    for path, reason in islice(reasons.items(), MOST_LINES):
        tell(f"{path} stays in the trash: {reason}")
    if len(reasons) > MOST_LINES:
        tell(f"and {len(reasons) - MOST_LINES} more; --json lists them")
    sys.exit(CheckpointError.exit_code if reasons else 0)


@click.command("pin")
@flags.uri
@click.option("--batch", type=flags.NUMBER, required=True, help="A batch of the commit log.")
@click.option(
    "--for",
    "for_seconds",
    type=flags.DURATION,
    required=True,
    help="How long, such as 7d; at most 90d.",
)
@click.option("--note", metavar="TEXT", help="Why, for the readers of `statemaint pins`.")
@flags.as_json
def pin_verb(uri: str, *, batch: int, for_seconds: float, note: str | None) -> None:
    """Keep maintenance from deleting what a batch needs, for a while.

    The batch stays loadable with all above it, whatever policy `maintain` runs with, until the
    time has passed or `statemaint pins` ends the pin. It is pinned only if its state loads in
    every store. While a run of maintenance is at work, this takes five seconds longer.

    Spark's own clean-up heeds no pin: it deletes what the query's minBatchesToRetain does not
    keep, and so does a statemaint of version 0.2 or older.
    """
    storage = open_storage(uri)
    by = f"{note} ({me()})" if note else me()
    pin = pin_batch(storage, batch, by=by, for_seconds=for_seconds)
    if settings().as_json:
        print_json({"checkpoint": storage.root, **pin_json(pin)})
        return
    until = f"until {moment(pin.until)} UTC"
    tables.print_line(f"pinned    batch {pin.batch} (version {pin.version}) {until}")
    tables.print_line(f"ends by   {command('pins', storage.root, '--end', pin.id)}", wrap=False)


@click.command("pins")
@flags.uri
@click.option("--end", "ended", metavar="ID", help="End this pin instead.")
@flags.as_json_or_lines
def pins_verb(uri: str, *, ended: str | None) -> None:
    """List the pins of a checkpoint: the batches that maintenance keeps, and until when.

    A file that is not a pin of this version counts as a pin of every batch.
    """
    storage = open_storage(uri)
    if ended is not None:
        end_pin_of(storage, ended)
    pins = list_pins(storage)
    if settings().as_json:
        document = {"checkpoint": storage.root, "pins": [*map(pin_json, pins)]}
        print_json(document, lines="pins")
    elif pins:
        tables.print_first(_PIN_COLUMNS, pins, "pin")
    else:
        tables.print_line("no batch is pinned")


_PIN_COLUMNS: tuple[Column[Pin], ...] = (
    Column("pin", lambda pin: tables.cell(pin.id)),
    number("batch", lambda pin: "every" if pin.batch is None else str(pin.batch)),
    Column("until (UTC)", lambda pin: moment(pin.until)),
    Column("by", lambda pin: pin.by, spare=1),
)
