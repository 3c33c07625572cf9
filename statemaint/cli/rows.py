"""Rows of state as the program prints them: JSON, comma-separated values, columns of a table."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import click

from statemaint.report.to_json import id_json
from statemaint.state import StateRow
from statemaint.state.diff import ChangedRow


def row_json(row: StateRow) -> dict[str, Any]:
    """Returns one of the rows that `show --json` prints."""
    return {**id_json(row.store), "family": row.family, "key": row.key, "value": row.value}


def with_key(rows: Iterable[StateRow], text: str | None) -> Iterator[StateRow]:
    """Yields the rows that have a column in their key, at any depth, that reads like the text."""
    return (row for row in rows if text is None or reads(row.key, text))


def reads(key: dict[str, Any], text: str) -> bool:
    """Tells whether a column of a key, at any depth, reads like the text."""
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


def group(row: StateRow | ChangedRow) -> tuple[int, str, str]:
    """Returns what rows have in common that have the same columns."""
    return row.store.operator, row.store.store, row.family or ""


def columns(row: StateRow) -> dict[str, Any]:
    """Returns a row in columns: its partition, `key.NAME`, and `value.NAME` or all of a list."""
    key = {f"key.{name}": value for name, value in row.key.items()}
    if isinstance(row.value, list):
        return {"partition": row.store.partition, **key, "value": row.value}
    value = {f"value.{name}": value for name, value in row.value.items()}
    return {"partition": row.store.partition, **key, **value}


def changed_columns(row: ChangedRow) -> dict[str, Any]:
    """Returns a row of a diff in columns: its partition, `key.NAME`, both values whole."""
    key = {f"key.{name}": value for name, value in row.key.items()}
    values = {"before": row.before, "after": row.after}
    shown = {name: "" if value is None else value for name, value in values.items()}
    return {"partition": row.store.partition, "change": row.fate.value, **key, **shown}


def print_csv(rows: Iterable[StateRow]) -> None:
    """Prints rows with a heading; what is nested is JSON, and null is nothing.

    Columns that only some of the rows have are empty in the others.
    """
    lines = [
        {"operator": row.store.operator, "store": row.store.store, "family": row.family,
         **{name: _plain(value) for name, value in columns(row).items()}}
        for row in rows
    ]  # fmt: skip
    names = dict.fromkeys(name for line in lines for name in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
    if lines:
        writer.writeheader()
    writer.writerows(lines)
    click.echo(text.getvalue(), nl=False)


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list | bool) else value
