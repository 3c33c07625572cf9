"""Tables: laid out by Rich where they are small, as plain columns where they are large."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from statemaint.model.ids import StoreId

_WIDTH = 110
# Rich takes a millisecond for a row of ten cells.
_MOST_RICH = 200
# A table of more rows is printed in chunks; a later chunk may have wider columns.
_CHUNK = 5000
# A wider cell moves the rest of its line to the right.
_WIDEST = 60
_GAP = "  "

Row = Sequence[str]


def new_console() -> Console:
    """Returns a console on stdout, of a fixed width if stdout is not a terminal."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def print_table(columns: Row, rows: Iterable[Row]) -> None:
    """Prints a table without borders, of cells of plain text; a large one in chunks as it comes."""
    left = iter(rows)
    first = [*islice(left, _MOST_RICH + 1)]
    if len(first) > _MOST_RICH:
        _print_plain(columns, chain(first, left))
    else:
        new_console().print(_laid_out(columns, first))


def print_line(text: str, *, wrap: bool = True) -> None:
    """Prints a line of plain text, which is wrapped at the console's width by default."""
    new_console().print(Text(text), soft_wrap=not wrap)


def _laid_out(columns: Row, rows: Iterable[Row]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _print_plain(columns: Row, rows: Iterator[Row]) -> None:
    widths = [cell_len(column) for column in columns]
    head: tuple[Row, ...] = (columns,)
    while chunk := [*islice(rows, _CHUNK)]:
        widths = [*map(_widest, widths, zip(*chunk, strict=True))]
        click.echo("\n".join(_line(row, widths) for row in (*head, *chunk)))
        head = ()


def _widest(width: int, cells: Iterable[str]) -> int:
    return max(width, min(_WIDEST, max(map(_length, cells))))


def _length(cell: str) -> int:
    return len(cell) if cell.isascii() else cell_len(cell)


def _line(row: Row, widths: Iterable[int]) -> str:
    padded = (cell + " " * (width - _length(cell)) for cell, width in zip(row, widths, strict=True))
    return _GAP.join(padded).rstrip()


def committed(batch: int | None, version: int | None) -> str:
    """Returns the newest committed batch and the version after it, in words."""
    return "no batch yet" if batch is None else f"batch {batch}, so the target version is {version}"


def place(store: StoreId, family: str | None) -> str:
    """Returns a store, and its column family if it has one, as a table cell."""
    return f"{store} / {printable(family)}" if family else str(store)


def known(number: int | None) -> str:
    """Returns a number as a table cell; `?` where it is unknown."""
    return "?" if number is None else str(number)


def cell(value: Any) -> str:
    """Returns a value of a row as text without escape sequences."""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def printable(text: str) -> str:
    """Returns a text without characters that move the cursor or change the terminal's colours."""
    return text if text.isprintable() else json.dumps(text)[1:-1]
