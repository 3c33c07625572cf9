"""Helpers that the tables of several verbs share."""

import json
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from statemaint.model.ids import StoreId

_WIDTH = 110


def new_console() -> Console:
    """Returns a console on stdout, of a fixed width if stdout is not a terminal."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def new_table(*columns: str) -> Table:
    """Returns an empty table without borders."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def committed(batch: int | None, version: int | None) -> str:
    """Returns the newest committed batch and the version after it, in words."""
    return "no batch yet" if batch is None else f"batch {batch}, so the target version is {version}"


def place(store: StoreId, family: str | None) -> str:
    """Returns a store, and its column family if it has one, as a table cell."""
    return escape(f"{store} / {printable(family)}" if family else str(store))


def known(number: int | None) -> str:
    """Returns a number as a table cell; `?` where it is unknown."""
    return "?" if number is None else str(number)


def cell(value: Any) -> str:
    """Returns a value of a row as text without escape sequences."""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def printable(text: str) -> str:
    """Returns a text without characters that move the cursor or change the terminal's colours."""
    return text if text.isprintable() else json.dumps(text)[1:-1]
