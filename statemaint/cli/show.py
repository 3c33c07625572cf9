"""`show`: rows of state at a version."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any

import click

from statemaint.cli import rows, tables
from statemaint.cli.messages import settings
from statemaint.cli.options import as_json_or_lines, family_flags, key_flag, uri, workers_flag
from statemaint.cli.output import Json, as_lines, headed, json_with_rows, print_pieces
from statemaint.cli.progress import work_done
from statemaint.cli.rows import Spool
from statemaint.report.to_json import id_json
from statemaint.state import StateRow, StateSelection, select_state
from statemaint.state.shuffle_key import holding
from statemaint.workers import Workers


@click.command("show")
@uri
@family_flags
@click.option("--version", "version", type=click.IntRange(min=1), help="Default: the newest.")
@key_flag
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@workers_flag
@as_json_or_lines
def show_verb(
    uri: str,
    *,
    key: str | None,
    limit: int | None,
    as_csv: bool,
    workers: Workers,
    as_json: bool,
    **where: Any,
) -> None:
    """Print the rows of state at a version, decoded with the schema that the query wrote.

    Keys and values are printed as separate columns under their stored names. Times are in UTC.
    Memory does not grow with the state; the rest is sorted in the temporary directory.
    With --key, only the partition that the key hashes to is read, if the checkpoint shows it.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json are mutually exclusive")
    selection = select_state(uri, **where)
    if key is not None:
        selection = holding(selection, key)
    # Closed here: an interrupt while a row is printed also ends the readers.
    with closing(selection.rows(workers=workers, slowly=limit is not None)) as shown:
        matching = _with_key(shown, key)
        selected = islice(matching, limit)
        if as_csv:
            print_pieces(_csv(selection, selected))
        elif as_json:
            head = headed({"version": selection.version}, uri)
            printed = as_lines if settings().json_lines else json_with_rows
            print_pieces(printed(head, map(row_json, selected)))
        else:
            _print_table(selection.version, selected, matching, key)


def row_json(row: StateRow) -> Json:
    return {**id_json(row.store), "family": row.family, "key": row.key, "value": row.value}


def _with_key(rows_read: Iterable[StateRow], text: str | None) -> Iterator[StateRow]:
    return (row for row in rows_read if text is None or rows.reads(row.key, text))


def _print_table(
    version: int, found: Iterable[StateRow], others: Iterator[StateRow], key: str | None
) -> None:
    """Prints rows of state, in one table for each kind of row; the others only count."""
    shown, count = rows.RowTables(f"at version {version}"), 0
    with work_done("reading"):
        for row in found:
            shown.add(row, _columns(row))
            count += 1
        more = next(others, None) is not None
    shown.print(more=more)
    if more:
        tables.print_line(f"--limit {count} omits the others")
    elif not count:
        has = "no rows" if key is None else f"no row has a key column equal to {key!r}"
        tables.print_line(f"{has} at version {version}")


def _columns(row: StateRow) -> dict[str, Any]:
    """Returns a row by column: its partition, each `key.NAME`, and each `value.NAME` or a list."""
    key = {f"key.{name}": value for name, value in row.key.items()}
    if isinstance(row.value, list):
        return {"partition": row.store.partition, **key, "value": row.value}
    value = {f"value.{name}": value for name, value in row.value.items()}
    return {"partition": row.store.partition, **key, **value}


def _csv(selection: StateSelection, selected: Iterable[StateRow]) -> Iterator[str]:
    """Yields rows with a header; nested values are JSON, and null is empty.

    A column that only some rows have is empty in the others.
    """
    lines = map(_csv_cells, selected)
    if len(selection.kinds) > 1:
        yield from _csv_of_kinds(lines)
    elif first := next(lines, None):
        yield from _csv_text(first, chain((first,), lines))


def _csv_of_kinds(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    names: dict[str, None] = {}
    cells = Spool()
    for line in lines:
        names.update(dict.fromkeys(line))
        cells.append(json.dumps(line))
    if names:
        yield from _csv_text(names, map(json.loads, cells))


def _csv_text(names: Iterable[str], lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    header, text = [*names], io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for line in lines:
        writer.writerow([line.get(name, "") for name in header])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def _csv_cells(row: StateRow) -> dict[str, Any]:
    place = {"operator": row.store.operator, "store": row.store.store, "family": row.family}
    return {**place, **{name: _plain(value) for name, value in _columns(row).items()}}


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list | bool) else value
