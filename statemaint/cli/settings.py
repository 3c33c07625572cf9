"""The settings of a call of the program for every verb's output."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

FORMAT = 1
"""The format of every JSON document; fields are added to it, never renamed or removed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a call for the output.

    Attributes:
        color: `auto`, `always` or `never`.
        quiet: print no progress and no notes.
        everything: print every row of a table, not only the first ones.
        json_lines: print JSON as lines.
        log: the file that receives a copy of stderr.
    """

    color: str = "auto"
    quiet: bool = False
    everything: bool = False
    json_lines: bool = False
    log: str | None = None


_CURRENT: ContextVar[Settings] = ContextVar("settings", default=Settings())  # noqa: B039 -- frozen


def settings() -> Settings:
    """Returns the settings of the current call."""
    return _CURRENT.get()


@contextmanager
def in_force(current: Settings) -> Iterator[None]:
    """Makes `settings` return these within the block."""
    before = _CURRENT.set(current)
    try:
        yield
    finally:
        _CURRENT.reset(before)
