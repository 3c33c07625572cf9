"""`undo`: what a run deleted comes back from its trash."""

import sys
from typing import Any

import click
from rich.filesize import decimal
from rich.markup import escape

from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.cli.output import DAMAGE, MOST_LINES, print_result
from statemaint.maintain import Undone, undo
from statemaint.storage import open_storage


@click.command("undo")
@uri
@click.argument("run", metavar="RUN")
@as_json
def undo_verb(uri: str, run: str, *, as_json: bool) -> None:
    """Bring back what a run moved to the trash, as far as it still fits.

    RUN is an id that `statemaint runs` lists. Runs of `maintain` can be undone only with
    --trash-for. A file stays in the trash when its store's log was written again at or below its
    version, or another file is in its place; each is reported with the reason, and the exit code
    is 3. A rollback comes back as a whole, and is refused (exit code 2) once the query has gone on.
    The next `maintain` deletes the same files again unless it is told to retain more.
    """
    found = undo(open_storage(uri), run)
    print_result(undo_json(found), as_json=as_json, table=lambda: _print_table(found))
    shown = list(found.left.items())[:MOST_LINES]
    for path, reason in shown:
        click.echo(f"{path} stays in the trash: {reason}", err=True)
    if more := len(found.left) - len(shown):
        click.echo(f"and {more} more; --json lists them", err=True)
    sys.exit(DAMAGE if found.left else 0)


def undo_json(undone: Undone) -> dict[str, Any]:
    """Returns what `undo --json` prints."""
    return {
        "run": undone.run,
        "undo": undone.undo,
        "files": undone.files,
        "bytes": undone.bytes,
        "left": list(undone.left),
        "reasons": dict(undone.left),
    }


def _print_table(found: Undone) -> None:
    """Prints what an undo brought back."""
    files = "file" if found.files == 1 else "files"
    console = tables.new_console()
    console.print(f"brought back {found.files} {files} of run {escape(found.run)}")
    console.print(f"             {decimal(found.bytes)}; the next maintain deletes them again")
    console.print("             unless it is told to retain more")
    if found.left:
        stay = "1 file stays" if len(found.left) == 1 else f"{len(found.left)} files stay"
        console.print(f"{stay} in the trash")
