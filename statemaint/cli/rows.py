"""Rows of state, as `show` and `diff` select and print them."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from rich.markup import escape

from statemaint.cli import tables
from statemaint.state import StateRow
from statemaint.state.diff import ChangedRow


def reads(key: dict[str, Any], text: str) -> bool:
    """Returns whether a column of a key, at any depth, equals the text."""
    return text in _texts(key)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)
        case str():
            yield value
        case _:
            yield json.dumps(value)


def print_rows(rows: Iterable[tuple[StateRow | ChangedRow, dict[str, Any]]], when: str) -> None:
    """Prints rows, each with its cells by column, in one table for each kind of row."""
    console = tables.new_console()
    by_group = sorted(rows, key=lambda row: _kind(row[0]))
    for (operator, store, family), some in groupby(by_group, key=lambda row: _kind(row[0])):
        title = " / ".join(one for one in (f"op {operator}", store, family) if one)
        found = [cells for _, cells in some]
        table = tables.new_table(*(escape(tables.printable(name)) for name in found[0]))
        for row in found:
            table.add_row(*(escape(tables.cell(value)) for value in row.values()))
        noun = "row" if len(found) == 1 else "rows"
        console.print(f"{escape(title)}: {len(found)} {noun} {when}")
        console.print(table)


def _kind(row: StateRow | ChangedRow) -> tuple[int, str, str]:
    """Returns the operator, store and family of a row: rows that share them share their columns."""
    return row.store.operator, row.store.store, row.family or ""
