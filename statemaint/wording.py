"""Words that every interface of this package shares: numbers, commands, closed sets. Pure."""

import json
import shlex
from datetime import UTC, datetime
from enum import StrEnum
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
