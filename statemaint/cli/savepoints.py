"""`savepoints`: the savepoints below a folder; those that have expired are deleted."""

import sys
from collections.abc import Sequence

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.options import Parsed, as_json
from statemaint.cli.output import Json, print_lines, print_result
from statemaint.cli.progress import work_done
from statemaint.cli.tables import BAD, Column, number
from statemaint.cli.targets import Address, CheckpointName, savepoints_of
from statemaint.errors import CheckpointError, ConfigError
from statemaint.savepoint.catalog import BROKEN, Savepoint, list_savepoints, problems
from statemaint.savepoint.expiry import without_expired
from statemaint.savepoint.keep import RULES, KeepRules, decide, parse_rules
from statemaint.storage import open_storage
from statemaint.wording import counted, moment, printable

_DAY = 86400.0


@click.command("savepoints")
@click.argument("uri", metavar="DEST", type=CheckpointName())
@click.option(
    "--keep",
    type=Parsed("rules", parse_rules),
    metavar="RULES",
    help="What to keep of each query, such as last=7,weekly=4; daily and monthly as well.",
)
@click.option(
    "--delete", is_flag=True, help="Delete the others; without this flag nothing is deleted."
)
@as_json
def savepoints_verb(uri: Address, *, keep: KeepRules | None, delete: bool, as_json: bool) -> None:
    """List the savepoints below a folder, up to three folders deep, and which of them expire.

    DEST is the folder's address, or the name of a query in the queries file: then these are the
    savepoints of its checkpoint in the folder of its `savepoint.to`, and its `savepoint.keep`
    counts if there is no --keep.

    With --keep, show which savepoints the rules keep. `last` keeps the newest ones; `daily`,
    `weekly` and `monthly` keep the newest of each day, week and month (UTC). Kept in any case are
    the newest whole one of each query, one that may be being written, one from which a query has
    run, and one that is damaged or cannot be read.

    With --delete, delete the others: of each the files that its record names, and its record. Other
    files stay and are reported, with exit code 3; so is a savepoint that is damaged. A deletion
    that was killed leaves none that a query could start from, and is completed by the next.
    """
    dest, source = str(uri), None
    if named := savepoints_of(uri):
        name, settings = named
        dest, source = settings.folder(name), open_storage(uri).root
        keep = keep or {str(rule): count for rule, count in (settings.keep or {}).items()}
    if delete and not keep:
        raise ConfigError("--delete needs --keep: say what to keep, such as --keep last=7,weekly=4")
    now = open_storage(dest).now()
    with work_done("reading", "savepoint"):
        savepoints = list_savepoints(dest, source=source)
    if keep:
        savepoints = decide(savepoints, keep, now)
    if delete:
        savepoints = without_expired(savepoints, dest)
    print_result(
        lambda: {
            "folder": dest,
            "keep": {rule: keep.get(rule, 0) for rule in RULES} if keep else None,
            "savepoints": [_json(one, now) for one in savepoints],
        },
        as_json=as_json,
        table=lambda: _print_table(dest, savepoints, now),
    )
    wrong = [*problems(savepoints)]
    print_lines(wrong)
    sys.exit(CheckpointError.exit_code if wrong else 0)


def _json(savepoint: Savepoint, now: float) -> Json:
    of_note = ("source", "query_id", "id", "batch", "begun", "ended")
    return {
        "address": savepoint.address,
        "state": savepoint.state.value,
        "why": savepoint.why,
        **{field: getattr(savepoint.note, field, None) for field in of_note},
        "age": _age(savepoint, now),
        "files": len(savepoint.entries),
        "bytes": savepoint.bytes,
        "unknown_files": len(savepoint.unknown),
        "changes": list(savepoint.note.changes) if savepoint.note else [],
        "kept": savepoint.kept,
        "deleted": savepoint.left == (),
        "left": savepoint.left or (),
    }


def _age(savepoint: Savepoint, now: float) -> float | None:
    """Returns the seconds since a savepoint ended; `None` if it did not."""
    ended = savepoint.note.ended if savepoint.note else None
    return None if ended is None else now - ended


def _print_table(dest: str, savepoints: Sequence[Savepoint], now: float) -> None:
    if not savepoints:
        tables.print_line(f"{dest}: no savepoint in this folder, up to three folders deep")
        return
    size = decimal(sum(one.bytes for one in savepoints))
    tables.print_line(f"{dest}: {counted(len(savepoints), 'savepoint')} ({size})", wrap=False)
    folder = f"{dest.rstrip('/')}/"
    columns: tuple[Column[Savepoint], ...] = (
        Column("savepoint", lambda one: printable(one.address.removeprefix(folder))),
        number("batch", lambda one: str(one.note.batch) if one.note else "", 1),
        Column("ended (UTC)", _ended, spare=3),
        number("days", lambda one: _days(one, now)),
        number("bytes", lambda one: decimal(one.bytes), 2),
        Column("state", _state),
        Column("kept as", _kept),
    )
    tables.print_first(columns, savepoints, "savepoint", most=60)
    if deleted := [one for one in savepoints if one.left is not None]:
        gone = [entry for one in deleted for entry in one.named]
        files = tables.files_of(len(gone), sum(entry.size for entry in gone))
        tables.print_line(f"deleted {counted(len(deleted), 'savepoint')}: {files}")
    elif due := [one for one in savepoints if one.kept == ()]:
        what, freed = counted(len(due), "savepoint"), decimal(sum(one.bytes for one in due))
        tables.print_line(f"{what} would be deleted ({freed}): --delete deletes them")


def _ended(savepoint: Savepoint) -> str:
    ended = savepoint.note.ended if savepoint.note else None
    return "" if ended is None else moment(ended)


def _days(savepoint: Savepoint, now: float) -> str:
    age = _age(savepoint, now)
    return "" if age is None else f"{age / _DAY:.1f}"


def _state(savepoint: Savepoint) -> str | Text:
    state, changes = savepoint.state.value, savepoint.note.changes if savepoint.note else ()
    return Text(state, BAD) if savepoint.state in BROKEN else ", ".join((state, *changes))


def _kept(savepoint: Savepoint) -> str:
    if savepoint.left is not None:
        return "deleted in part" if savepoint.left else "deleted"
    return "" if savepoint.kept is None else " ".join(savepoint.kept) or "expires"
