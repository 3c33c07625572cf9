"""Rows of state, as `show` and `diff` select and print them."""

import json
from collections import defaultdict
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Any

from statemaint.cli import tables
from statemaint.fold.temporary import temporary_directory
from statemaint.state import StateRow
from statemaint.state.diff import ChangedRow
from statemaint.wording import counted

# A spool that is larger than this is a file in the temporary directory.
_HELD = 256 * 1024


class Spool:
    """Lines in order; a large number is held in a temporary file."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_HELD, "w+", encoding="utf-8", newline="\n")  # noqa: SIM115
        self.lines = 0

    def __del__(self) -> None:
        self._file.close()

    def append(self, line: str) -> None:
        """Adds a line, which contains no line break."""
        with temporary_directory():
            self._file.write(line + "\n")
        self.lines += 1

    def __iter__(self) -> Iterator[str]:
        """Yields the lines, once; no lines may follow."""
        with temporary_directory(), self._file:
            self._file.seek(0)
            for line in self._file:
                yield line[:-1]


def reads(key: dict[str, Any], text: str) -> bool:
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


_Kind = tuple[int, str, str]
"""The operator, store and family of a row: rows that share them share their columns."""


class RowTables:
    """Tables of rows, one for each kind of row; they are printed once all rows are known."""

    def __init__(self, when: str) -> None:
        self._when = when
        self._columns: dict[_Kind, list[str]] = {}
        self._cells: dict[_Kind, Spool] = defaultdict(Spool)

    def add(self, row: StateRow | ChangedRow, cells: dict[str, Any]) -> None:
        kind = row.store.operator, row.store.store, row.family or ""
        self._columns.setdefault(kind, [tables.printable(name) for name in cells])
        self._cells[kind].append(json.dumps([tables.cell(one) for one in cells.values()]))

    def print(self, *, more: bool = False) -> None:
        """Prints each table under its title; `more` is whether there are rows beyond the limit."""
        for kind, cells in sorted(self._cells.items()):
            operator, store, family = kind
            title = " / ".join(one for one in (f"op {operator}", store, family) if one)
            tables.print_line(f"{title}: {_counted(cells.lines, more=more)} {self._when}")
            tables.print_table(self._columns[kind], map(json.loads, cells))


def _counted(lines: int, *, more: bool) -> str:
    if not more:
        return counted(lines, "row")
    return "the first row" if lines == 1 else f"the first {lines:,} rows"
