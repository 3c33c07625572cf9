"""`savepoints`: the savepoints below a folder; those that have expired are deleted."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.options import Parsed, as_json
from statemaint.cli.output import Json, print_lines, print_result
from statemaint.cli.progress import work_done
from statemaint.cli.tables import BAD, Column, files_of, number
from statemaint.cli.targets import Address, CheckpointName, savepoints_of
from statemaint.errors import CheckpointError, ConfigError
from statemaint.savepoint.catalog import Decision, ListedSavepoint, decide, list_savepoints
from statemaint.savepoint.expiry import Expired, carry_out
from statemaint.savepoint.keep import KeepRules, SavepointState
from statemaint.storage import open_storage
from statemaint.wording import counted, printable

_DAY = 86400.0
_BROKEN = (SavepointState.DAMAGED, SavepointState.UNREADABLE)


@click.command("savepoints")
@click.argument("uri", metavar="DEST", type=CheckpointName())
@click.option(
    "--keep",
    type=Parsed("rules", KeepRules.parse),
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
        keep = keep or (KeepRules(**settings.keep.counts) if settings.keep else None)
    if delete and keep is None:
        raise ConfigError("--delete needs --keep: say what to keep, such as --keep last=7,weekly=4")
    now = open_storage(dest).now()
    with work_done("reading", "savepoint"):
        savepoints = [one for one in list_savepoints(dest) if _is_of(one, source)]
    decisions = decide(savepoints, keep, now) if keep else ()
    deleted = {one.address: one for one in carry_out(decisions, dest)} if delete else {}
    rows = _rows(savepoints, decisions, deleted)
    print_result(
        lambda: {
            "folder": dest,
            "keep": asdict(keep) if keep else None,
            "savepoints": [_json(row, now) for row in rows],
        },
        as_json=as_json,
        table=lambda: _print_table(dest, rows, now),
    )
    print_lines([*_problems(rows)])
    sys.exit(CheckpointError.exit_code if any(_problems(rows)) else 0)


def _is_of(savepoint: ListedSavepoint, source: str | None) -> bool:
    """Returns whether a savepoint is, or may be, one of a checkpoint; `None` is any."""
    return None in (source, savepoint.note) or savepoint.query[0] == source


_Row = tuple[ListedSavepoint, Decision | None, Expired | None]
"""A savepoint, what is to become of it by the rules, and what was deleted of it."""


def _rows(
    savepoints: Sequence[ListedSavepoint],
    decisions: Sequence[Decision],
    deleted: Mapping[str, Expired],
) -> list[_Row]:
    decided = {one.savepoint.address: one for one in decisions}
    return [(one, decided.get(one.address), deleted.get(one.address)) for one in savepoints]


def _problems(rows: Sequence[_Row]) -> Iterator[str]:
    for savepoint, _, expired in rows:
        if savepoint.state in _BROKEN:
            yield f"{savepoint.address}: {savepoint.state.value}, {savepoint.why}"
        if expired and expired.left:
            more = f" and {len(expired.left) - 1} more" if expired.left[1:] else ""
            yield (
                f"{savepoint.address}: {expired.left[0]}{more} is not named by the savepoint's "
                "record, and stays; once it is moved, the next --delete removes the rest"
            )


def _json(row: _Row, now: float) -> Json:
    savepoint, decision, expired = row
    note = savepoint.note
    left = list(expired.left) if expired else []
    return {
        "address": savepoint.address,
        "state": savepoint.state.value,
        "why": savepoint.why,
        "source": note.source if note else None,
        "query_id": note.query_id if note else None,
        "id": note.id if note else None,
        "batch": note.batch if note else None,
        "begun": note.begun if note else None,
        "ended": note.ended if note else None,
        "age": _age(savepoint, now),
        "files": len(savepoint.entries),
        "bytes": savepoint.bytes,
        "unknown_files": len(savepoint.unknown),
        "kept": [reason.value for reason in decision.reasons] if decision else None,
        "deleted": expired is not None and not left,
        "left": left,
    }


def _age(savepoint: ListedSavepoint, now: float) -> float | None:
    """Returns the seconds since a savepoint ended; `None` if it did not."""
    ended = savepoint.note.ended if savepoint.note else None
    return None if ended is None else now - ended


def _print_table(dest: str, rows: Sequence[_Row], now: float) -> None:
    if not rows:
        tables.print_line(f"{dest}: no savepoint in this folder, up to three folders deep")
        return
    size = decimal(sum(savepoint.bytes for savepoint, _, _ in rows))
    tables.print_line(f"{dest}: {counted(len(rows), 'savepoint')} ({size})", wrap=False)
    shown = [_cells(dest, row, now) for row in rows]
    tables.print_first(_COLUMNS, shown, "savepoint", most=60)
    for line in _summary(rows):
        tables.print_line(line)


_COLUMNS = (
    Column("savepoint"),
    number("batch", 1),
    Column("ended (UTC)", spare=3),
    number("days"),
    number("bytes", 2),
    Column("state"),
    Column("kept as"),
)


def _cells(dest: str, row: _Row, now: float) -> tuple[str | Text, ...]:
    savepoint, decision, expired = row
    note, age = savepoint.note, _age(savepoint, now)
    ended = note.ended if note else None
    state = savepoint.state.value
    return (
        printable(savepoint.address.removeprefix(f"{dest.rstrip('/')}/")),
        str(note.batch) if note else "",
        "" if ended is None else f"{datetime.fromtimestamp(ended, UTC):%Y-%m-%d %H:%M:%S}",
        "" if age is None else f"{age / _DAY:.1f}",
        decimal(savepoint.bytes),
        Text(state, BAD) if savepoint.state in _BROKEN else state,
        _fate(decision, expired),
    )


def _fate(decision: Decision | None, expired: Expired | None) -> str:
    if expired:
        return "deleted in part" if expired.left else "deleted"
    if decision is None:
        return ""
    return " ".join(reason.value for reason in decision.reasons) or "expires"


def _summary(rows: Sequence[_Row]) -> Iterator[str]:
    done = [expired for _, _, expired in rows if expired]
    if done:
        files, size = sum(one.files for one in done), sum(one.bytes for one in done)
        yield f"deleted {counted(len(done), 'savepoint')}: {files_of(files, size)}"
        return
    due = [savepoint for savepoint, decision, _ in rows if decision and not decision.reasons]
    if due:
        freed = decimal(sum(savepoint.bytes for savepoint in due))
        yield f"{counted(len(due), 'savepoint')} would be deleted ({freed}): --delete deletes them"
