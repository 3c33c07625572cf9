"""Tables and lines on stdout: laid out by Rich if small, as plain columns if large.

On a terminal a table keeps to its width: long cells of rows are cut, and the least important
columns omitted, with a note.
Elsewhere nothing is wrapped or omitted, so that `grep` finds whole rows.
"""

import json
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, Literal, TypeVar

import click
from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from statemaint.cli.output import settings
from statemaint.model.ids import StoreId
from statemaint.model.pins import Pin
from statemaint.model.verdict import Looked, Verdict
from statemaint.wording import counted, moment, printable


def files_of(number: int, size: int) -> str:
    return f"{counted(number, 'file')} ({decimal(size)})"


def lasting(seconds: float) -> str:
    """Returns a time span, such as `0.4 s`, `12 s`, `3 min 20 s` and `2 h 5 min`."""
    if seconds < 10:  # noqa: PLR2004 -- where a tenth matters
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, of_hour = divmod(minutes, 60)
    if hours:
        return f"{hours} h {of_hour} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


_MOST_RICH = 200  # Rich takes a millisecond for a row of ten cells
_CHUNK = 5000  # a table of more rows is printed in chunks; a later one may have wider columns
_WIDEST = 60  # a wider cell moves the rest of its line to the right
_LEAST = 12  # what is left of a long cell at least
_GAP = "  "
_ENDLESS = 100_000  # lines that are not on a terminal are never wrapped
MOST_ROWS = 20
"""The rows of a table that `--all` makes longer."""
BAD, GOOD, WARNING = "bold red", "green", "yellow"
STYLES = {"bad": BAD, "good": GOOD, "warn": WARNING, "plain": ""}

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Cell = str | Text
Row = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Column(Generic[T_contra]):
    """A column of a table, with the function that makes the cell of an item."""

    name: str
    of: Callable[[T_contra], Cell] = str
    right: bool = False  # whether its cells are numbers, which end at its right edge
    spare: int = 0  # on a narrow terminal the column with the highest is omitted first, 0 never
    cut: bool = False  # whether long cells are cut on a narrow terminal, before columns are omitted
    varies: bool = False  # whether rows are alike even if they differ here


def number(
    name: str, of: Callable[[T], Cell] = str, spare: int = 0, *, varies: bool = False
) -> Column[T]:
    return Column(name, of, right=True, spare=spare, varies=varies)


class _Console(Console):
    """A console that leaves a closed pipe to the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def new_console() -> Console:
    choice, terminal = settings().color, sys.stdout.isatty()
    colored = choice == "always" or (
        terminal and choice == "auto" and not os.environ.get("NO_COLOR")
    )
    return _Console(
        highlight=False,
        width=None if terminal else _ENDLESS,
        force_terminal=True if colored and not terminal else None,
        color_system=("auto" if terminal else "standard") if colored else None,
    )


def print_table(columns: Sequence[Column[Any] | str], rows: Iterable[Row]) -> None:
    """Prints a table without borders, of cells of plain text; a large one in chunks."""
    heads = [Column(column) if isinstance(column, str) else column for column in columns]
    remaining = iter(rows)
    first = [*islice(remaining, _MOST_RICH + 1)]
    if len(first) > _MOST_RICH or not new_console().is_terminal:
        _print_plain(heads, chain(first, remaining))
    else:
        _print_rich(heads, first)


def rows_of(columns: Sequence[Column[T]], items: Iterable[T]) -> list[Row]:
    return [tuple(column.of(item) for column in columns) for item in items]


def print_first(
    columns: Sequence[Column[T]], items: Sequence[T], noun: str, *, most: int = MOST_ROWS
) -> None:
    """Prints a table of the first items, all with `--all`, and the number of the others."""
    shown = items if settings().everything else items[:most]
    print_table(columns, rows_of(columns, shown))
    if (more := len(items) - len(shown)) > 0:
        print_line(f"and {counted(more, f'more {noun}')}; --all shows them")


def print_alike(columns: Sequence[Column[T]], items: Sequence[T], noun: str) -> None:
    """Prints a table; of many items that are mostly alike, these as one line before the others."""
    compared = [column for column in columns[1:] if not column.varies]
    facts = [tuple(map(str, row)) for row in rows_of(compared, items)]
    same, number = next(iter(Counter(facts).most_common(1)), ((), 0))
    if settings().everything or len(items) <= MOST_ROWS or 2 * number < len(items):
        print_first(columns, items, noun)
        return
    named = zip((column.name for column in compared), same, strict=True)
    shared = ", ".join(f"{name} {cell}" for name, cell in named if cell not in {"", "0"})
    print_line(f"{counted(number, noun)} alike: {shared}; --all shows them")
    if rest := [item for item, fact in zip(items, facts, strict=True) if fact != same]:
        print_first(columns, rest, noun)


def print_line(text: Cell, *, wrap: bool = True) -> None:
    """Prints a line of text, which is wrapped at a terminal's width by default."""
    line = text if isinstance(text, Text) else Text(text)
    new_console().print(line, soft_wrap=not wrap)


def print_lines(lines: Iterable[Cell]) -> None:
    for line in lines:
        print_line(line, wrap=False)


def print_labelled(label: str, text: str, style: str = "") -> None:
    """Prints a line that begins with a label; on a terminal its further lines are indented."""
    console = new_console()
    lines = textwrap.wrap(text, max(20, console.width - len(label))) or [""]
    for number, line in enumerate(lines):
        before = label if not number else " " * len(label)
        console.print(Text.assemble(before, (line, style)), soft_wrap=True)


def _print_rich(columns: Sequence[Column[Any]], rows: Sequence[Row]) -> None:
    console, names = new_console(), [column.name for column in columns]
    sizes = [max(map(_length, cells)) for cells in zip(names, *rows, strict=True)]
    least = [
        max(_length(column.name), min(size, _LEAST)) if column.cut else size
        for column, size in zip(columns, sizes, strict=True)
    ]
    kept = _that_fit(columns, least, console.width)
    if _width(least, kept) > console.width:
        _print_by_column(console, columns, rows)
        return
    sizes = _narrowed(sizes, least, kept, console.width)
    table = Table(
        box=None, header_style="bold", pad_edge=False, padding=(0, 1), collapse_padding=False
    )
    for at in kept:
        justify: Literal["right", "left"] = "right" if columns[at].right else "left"
        table.add_column(Text(names[at]), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(_cut(row[at], sizes[at]) for at in kept))
    console.print(table)
    if lost := [name for at, name in enumerate(names) if at not in kept]:
        console.print(Text(f"(omitted to fit the width: {', '.join(lost)})", style="dim"))


def _that_fit(columns: Sequence[Column[Any]], least: Sequence[int], width: int) -> list[int]:
    """Returns the numbers of the columns to print, without the least important ones."""
    kept = [*range(len(columns))]
    while _width(least, kept) > width:
        spare = max(kept, key=lambda at: (columns[at].spare, at))
        if not columns[spare].spare:
            break
        kept.remove(spare)
    return kept


def _narrowed(
    sizes: Sequence[int], least: Sequence[int], kept: Sequence[int], width: int
) -> list[int]:
    """Returns the sizes of columns after the widest have lost what does not fit."""
    narrowed = [*sizes]
    for _ in range(_width(sizes, kept) - width):
        widest = max(kept, key=lambda at: narrowed[at] if narrowed[at] > least[at] else 0)
        narrowed[widest] -= 1
    return narrowed


def _width(sizes: Sequence[int], kept: Sequence[int]) -> int:
    return sum(sizes[at] + len(_GAP) for at in kept) - len(_GAP)


def _cut(cell: Cell, size: int) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.truncate(size, overflow="ellipsis")
    return text


def _print_by_column(console: Console, columns: Sequence[Column[Any]], rows: Sequence[Row]) -> None:
    """Prints each row as a line for each column: in a table, words would be broken."""
    widest = max(cell_len(column.name) for column in columns)
    for number, row in enumerate(rows):
        if number:
            console.print()
        for column, value in zip(columns, row, strict=True):
            name = Text(column.name + " " * (widest - cell_len(column.name)), style="bold")
            console.print(Text.assemble(name, _GAP, value), soft_wrap=True)


def _print_plain(columns: Sequence[Column[Any]], rows: Iterator[Row]) -> None:
    widths = [cell_len(column.name) for column in columns]
    right = [column.right for column in columns]
    head: tuple[Row, ...] = ([column.name for column in columns],)
    while (chunk := [*islice(rows, _CHUNK)]) or head:
        for at, cells in enumerate(zip(*chunk, strict=True)):
            widths[at] = max(widths[at], min(_WIDEST, max(map(_length, cells))))
        click.echo("\n".join(_line(row, widths, right) for row in (*head, *chunk)))
        head = ()


def _length(cell: Cell) -> int:
    text = str(cell)
    return len(text) if text.isascii() else cell_len(text)


def _line(row: Row, widths: Iterable[int], right: Iterable[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(row, widths, right, strict=True):
        space = " " * (width - _length(cell))
        padded.append(space + str(cell) if to_right else str(cell) + space)
    return _GAP.join(padded).rstrip()


def judged(verdict: Verdict) -> Text:
    return Text(verdict.value, STYLES[verdict.mark])


def print_verdict(verdict: Verdict, looked: Looked) -> None:
    rest = f": {verdict.meaning} (by {looked.meaning})"
    print_line(Text.assemble("verdict     ", judged(verdict), rest))


def committed(batch: int | None, version: int | None) -> str:
    return "no batch yet" if batch is None else f"batch {batch}, so the target version is {version}"


def pinned(pin: Pin) -> str:
    batch = "every batch" if pin.batch is None else f"batch {pin.batch} (version {pin.version})"
    return f"{batch} until {moment(pin.until)}: {pin.by}"


def short(store: StoreId) -> str:
    return store.directory.partition("/")[2]


def place(store: StoreId, family: str | None) -> str:
    return f"{short(store)} {printable(family)}" if family else short(store)


def known(count: int | None) -> str:
    return "?" if count is None else str(count)


def chain_cell(length: int | None) -> Cell:
    return Text("broken", BAD) if length is None else str(length)


def cell(value: Any) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
