"""`undo`: restores the files that a run deleted, from its trash."""

import sys
from collections.abc import Mapping
from itertools import islice
from typing import NoReturn

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.cli.output import MOST_LINES, Json, print_result
from statemaint.cli.tables import number
from statemaint.cli.words import files_of
from statemaint.errors import CheckpointError
from statemaint.maintain import Undone, plan_undo, undo
from statemaint.plan import PutBack, UndoPlan
from statemaint.report.undo_json import undo_plan_json
from statemaint.storage import open_storage
from statemaint.wording import counted


@click.command("undo")
@uri
@click.argument("run", metavar="RUN")
@click.option("--dry-run", is_flag=True, help="Show what would come back; write nothing.")
@as_json
def undo_verb(uri: str, run: str, *, dry_run: bool, as_json: bool) -> None:
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
    end_with_undone(undo(storage, run), storage.root, as_json=as_json)


def end_with_undone(undone: Undone, checkpoint: str, *, as_json: bool) -> NoReturn:
    """Prints the result of an undo of a run of a checkpoint, then exits."""
    print_result(
        lambda: undo_json(undone),
        as_json=as_json,
        table=lambda: _print_table(undone),
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
    rows = [(one.path, decimal(one.entry.size), _fate(one)) for one in files]
    tables.print_first(("file", number("bytes"), ""), rows, "file")


def _fate(one: PutBack) -> str:
    return "comes back" if one.comes_back else "stays in the trash"


def undo_json(undone: Undone) -> Json:
    """Returns the output of `undo --json`."""
    return {
        "run": undone.run,
        "undo": undone.undo,
        "files": undone.files,
        "bytes": undone.bytes,
        "left": list(undone.left),
        "reasons": dict(undone.left),
    }


def _print_reasons(reasons: Mapping[str, str]) -> None:
    """Prints on stderr the reasons why files stay in the trash."""
    for path, reason in islice(reasons.items(), MOST_LINES):
        click.echo(f"{path} stays in the trash: {reason}", err=True)
    if len(reasons) > MOST_LINES:
        click.echo(f"and {len(reasons) - MOST_LINES} more; --json lists them", err=True)


def _print_table(undone: Undone) -> None:
    tables.print_line(f"brought back {files_of(undone.files, undone.bytes)} of run {undone.run}")
    if undone.files:
        tables.print_line(undone.sequel, wrap=False)
    if undone.left:
        stay = "1 file stays" if len(undone.left) == 1 else f"{len(undone.left)} files stay"
        tables.print_line(f"{stay} in the trash")
