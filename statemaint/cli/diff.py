"""`diff`: the rows of state at two versions, compared."""

import json
from dataclasses import asdict
from typing import Any

import click

from statemaint.cli import rows, tables
from statemaint.cli.options import as_json, uri
from statemaint.report.to_json import id_json
from statemaint.state.diff import ChangedRow, Counts, StateDiff, diff_state

_NUMBER = click.IntRange(min=0)
Json = dict[str, Any]


@click.command("diff")
@uri
@click.option("--operator", type=_NUMBER, default=0, help="Default: 0.")
@click.option("--partition", type=_NUMBER, help="Default: all of them.")
@click.option("--store", metavar="NAME", help="Default: all of them.")
@click.option("--family", metavar="NAME", help="Column family; Spark's own only when named.")
@click.option("--from", "older", type=_NUMBER, help="Version; default: the one before --to.")
@click.option("--to", "newer", type=click.IntRange(min=1), help="Version; default: the newest.")
@click.option("--key", metavar="TEXT", help="Only rows with a key column that reads TEXT.")
@click.option("--limit", type=_NUMBER, help="At most so many rows; the counts are of all.")
@as_json
def diff_verb(
    uri: str,
    *,
    older: int | None,
    newer: int | None,
    key: str | None,
    limit: int | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Compare the rows of state at two versions: what was added, changed and removed.

    Counts come first, of all rows; then the rows, decoded as `show` does. Version 0 is the empty
    state.
    """

    def asked(row: ChangedRow) -> bool:
        return key is None or rows.reads(row.key, key)

    found = diff_state(uri, (older, newer), **where).compare(asked, limit)
    if as_json:
        click.echo(json.dumps(diff_json(found), indent=2))
    else:
        _print_table(found)


def diff_json(found: StateDiff) -> Json:
    """Returns what `diff --json` prints."""
    stores = [
        {**id_json(one.store), "family": one.family, **asdict(one.counts)} for one in found.stores
    ]
    return {
        "from": found.older,
        "to": found.newer,
        "total": asdict(found.total),
        "stores": stores,
        "rows": [_changed_json(one) for one in found.rows],
    }


def _changed_json(row: ChangedRow) -> Json:
    return {
        **id_json(row.store),
        "family": row.family,
        "change": row.fate.value,
        "key": row.key,
        "before": row.before,
        "after": row.after,
    }


def _print_table(found: StateDiff) -> None:
    """Prints what became of rows: first how many, then each."""
    console = tables.new_console()
    console.print(f"from version {found.older} to version {found.newer}")
    table = tables.new_table("store", "added", "changed", "removed", "rewritten")
    for one in found.stores:
        table.add_row(tables.place(one.store, one.family), *_counted(one.counts))
    table.add_row("total", *_counted(found.total))
    console.print(table)
    when = f"between versions {found.older} and {found.newer}"
    rows.print_rows(((row, _columns(row)) for row in found.rows), when)


def _counted(counts: Counts) -> tuple[str, ...]:
    found = (counts.added, counts.changed, counts.removed, counts.rewritten)
    return tuple(tables.known(one) for one in found)


def _columns(row: ChangedRow) -> dict[str, Any]:
    """Returns a row of a diff in columns: its partition, `key.NAME`, both values whole."""
    key = {f"key.{name}": value for name, value in row.key.items()}
    values = {"before": row.before, "after": row.after}
    shown = {name: "" if value is None else value for name, value in values.items()}
    return {"partition": row.store.partition, "change": row.fate.value, **key, **shown}
