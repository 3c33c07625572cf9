"""`undo`: restores the files that a run deleted, from its trash."""

import sys
from collections.abc import Mapping
from itertools import islice

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.cli.output import MOST_LINES, Json, print_result
from statemaint.errors import CheckpointError
from statemaint.maintain import Undone, undo
from statemaint.storage import open_storage


@click.command("undo")
@uri
@click.argument("run", metavar="RUN")
@as_json
def undo_verb(uri: str, run: str, *, as_json: bool) -> None:
    """Restore the files that a run moved to the trash, as far as they still fit.

    RUN is an id listed by `statemaint runs`. A run of `maintain` can be undone only if it ran with
    --trash-for. A file stays in the trash if its store's log was rewritten at or below its
    version, or if another file is in its place; each is reported with the reason, and the exit
    code is 3. The undo of a rollback restores all of its files, and is refused (exit code 2) once
    the query has moved on. The next `maintain` deletes the same files again unless its policy
    retains more.
    """
    storage = open_storage(uri)
    undone = undo(storage, run)
    print_result(
        lambda: undo_json(undone),
        as_json=as_json,
        table=lambda: _print_table(undone),
        checkpoint=storage.root,
    )
    _print_reasons(undone.left)
    sys.exit(CheckpointError.exit_code if undone.left else 0)


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


def _print_reasons(left: Mapping[str, str]) -> None:
    """Prints on stderr the reasons why files stay in the trash."""
    for path, reason in islice(left.items(), MOST_LINES):
        click.echo(f"{path} stays in the trash: {reason}", err=True)
    if len(left) > MOST_LINES:
        click.echo(f"and {len(left) - MOST_LINES} more; --json lists them", err=True)


def _print_table(undone: Undone) -> None:
    files = "file" if undone.files == 1 else "files"
    tables.print_line(f"brought back {undone.files} {files} of run {undone.run}")
    tables.print_line(f"             {decimal(undone.bytes)}; the next maintain deletes them again")
    tables.print_line("             unless its policy retains more")
    if undone.left:
        stay = "1 file stays" if len(undone.left) == 1 else f"{len(undone.left)} files stay"
        tables.print_line(f"{stay} in the trash")
