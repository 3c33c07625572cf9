"""`diff`: compares the rows of state at two versions."""

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import chain
from typing import Any

import click

from statemaint.cli import rows, tables
from statemaint.cli.options import NUMBER, as_json, family_flags, key_flag, uri
from statemaint.cli.output import Json, json_with_rows, print_pieces
from statemaint.cli.spool import Spool
from statemaint.report.to_json import id_json
from statemaint.state.diff import ChangedRow, Counts, DiffSelection, StateDiff, diff_state


@click.command("diff")
@uri
@family_flags
@click.option("--from", "older", type=NUMBER, help="Older version; default: the one before --to.")
@click.option(
    "--to", "newer", type=click.IntRange(min=1), help="Newer version; default: the newest."
)
@key_flag
@click.option("--limit", type=NUMBER, help="Maximum number of rows; the counts always cover all.")
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

    Prints the counts of all rows, then the rows, decoded as by `show`. Version 0 is the empty
    state.
    """

    def selected(row: ChangedRow) -> bool:
        return key is None or rows.reads(row.key, key)

    requested = diff_state(uri, (older, newer), **where)
    if as_json:
        _print_json(requested, selected, limit)
    else:
        _print_table(requested, selected, limit)


_Selected = Callable[[ChangedRow], bool]


def _print_json(requested: DiffSelection, selected: _Selected, limit: int | None) -> None:
    found = Spool()
    diff = requested.compare(
        selected, limit, into=lambda row: found.append(json.dumps(_changed_json(row)))
    )
    print_pieces(json_with_rows(diff_json(diff), map(json.loads, found)))


def diff_json(diff: StateDiff) -> Json:
    """Returns the output of `diff --json` without its rows."""
    stores = [
        {**id_json(one.store), "family": one.family, **asdict(one.counts)} for one in diff.stores
    ]
    return {
        "from": diff.older,
        "to": diff.newer,
        "total": asdict(diff.total),
        "stores": stores,
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


def _print_table(requested: DiffSelection, selected: _Selected, limit: int | None) -> None:
    """Prints the changes of rows: first the counts, then each row."""
    when = f"between versions {requested.older} and {requested.newer}"
    shown = rows.RowTables(when)
    diff = requested.compare(selected, limit, into=lambda row: shown.add(row, _columns(row)))
    tables.print_line(f"from version {diff.older} to version {diff.newer}")
    counts = ((tables.place(one.store, one.family), *_counted(one.counts)) for one in diff.stores)
    columns = ("store", "added", "changed", "removed", "rewritten")
    tables.print_table(columns, chain(counts, (("total", *_counted(diff.total)),)))
    shown.print()


def _counted(counts: Counts) -> tuple[str, ...]:
    measured = (counts.added, counts.changed, counts.removed, counts.rewritten)
    return tuple(tables.known(one) for one in measured)


def _columns(row: ChangedRow) -> dict[str, Any]:
    """Returns a row of a diff by column: its partition, each `key.NAME`, and both whole values."""
    key = {f"key.{name}": value for name, value in row.key.items()}
    values = {"before": row.before, "after": row.after}
    shown = {name: "" if value is None else value for name, value in values.items()}
    return {"partition": row.store.partition, "change": row.fate.value, **key, **shown}
