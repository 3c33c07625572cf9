"""Words that every interface of this package shares: numbers, commands, closed sets. Pure."""

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from html import escape
from typing import Self


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number and its noun, such as `1 store` and `1,280 stores`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def moment(seconds: float) -> str:
    """Returns a time since the epoch as date and time in UTC, such as `2026-11-27 14:00:00`."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def command(*words: str) -> str:
    """Returns a command of this program that a shell reads as these words, such as an address."""
    return shlex.join(("statemaint", *words))


def printable(text: str) -> str:
    """Returns a text without characters that move the cursor or change the terminal's colours."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def markdown(text: str) -> str:
    """Returns a text that Markdown shows as it is, whatever is in it."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", printable(text))


def markdown_code(text: str) -> str:
    """Returns a name, such as a path, as code in Markdown."""
    shown = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"


class Explained(StrEnum):
    """A closed set of strings, each declared with its meaning."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")


def shortened(text: object, most: int = 60) -> str:
    shown = printable(str(text))
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def quoted(address: str) -> str:
    """Returns an address in quotes; of a long one its end."""
    shown = printable(address)
    return f"'{shown}'" if len(shown) <= _LONG else f"'...{shown[3 - _LONG :]}'"


_LONG, _ROWS, _WIDEST = 40, 20, 200


class Displayed(ABC):
    """A result that Python shows as one line, and a notebook also as a table of a few rows."""

    __slots__ = ()

    @abstractmethod
    def _facts(self) -> Iterator[str]:
        """Yields the parts of the line, such as `'s3://b/q'` and `400 stores`."""

    def _rows(self) -> Iterable[Mapping[str, object]]:
        """Returns the rows of the table, all of the same columns, which have Spark's names."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._facts())})"

    def _repr_html_(self) -> str:
        rows = [*self._rows()]
        lines = [_html("th", row) for row in rows[:1]]
        lines += [_html("td", row.values()) for row in rows[:_ROWS]]
        if (more := len(rows) - _ROWS) > 0:
            lines.append(f"<tr><td colspan={len(rows[0])}>and {more:,} more</td></tr>")
        return f"<table><caption>{escape(repr(self))}</caption>{''.join(lines)}</table>"


def _html(tag: str, cells: Iterable[object]) -> str:
    texts = (escape(shortened("" if cell is None else cell, _WIDEST)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"
