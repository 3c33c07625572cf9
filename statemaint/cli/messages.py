"""A call's settings, its lines on stderr and in the log file, and its end on an error."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from pathlib import Path
from typing import Any, NoReturn, TextIO

import click

from statemaint.errors import ConfigError, StatemaintError, StorageError

FORMAT = 1
"""The format of every JSON document; fields are added to it, never renamed or removed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a call for the output."""

    color: str = "auto"
    quiet: bool = False
    everything: bool = False
    as_json: bool = False
    json_lines: bool = False
    log: str | None = None
    output: str | None = None


_CURRENT: ContextVar[Settings] = ContextVar("settings", default=Settings())  # noqa: B039 -- frozen
settings = _CURRENT.get


@contextmanager
def in_force(current: Settings) -> Iterator[None]:
    before = _CURRENT.set(current)
    try:
        yield
    finally:
        _CURRENT.reset(before)


class _Stdout:
    begun = False
    """Whether a part of this call's result has been printed."""


STDOUT = _Stdout()


def tell(text: str) -> None:
    click.echo(text, err=True)
    log(text)


def note(text: str) -> None:
    """Prints a line on stderr, except in a quiet call."""
    if settings().quiet:
        log(text)
    else:
        tell(text)


def log(text: str) -> None:
    """Appends a line to the log file of `--log-file`, with its time."""
    if (path := settings().log) is None:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}\n")
    except OSError as error:
        raise ConfigError(f"--log-file {path}: {error.strerror}") from error


_FULL = {ENOSPC, EDQUOT, EFBIG, EIO}
_NEXT = {
    "NOT_A_CHECKPOINT": "give the query's checkpointLocation",
    "LEASE_HELD": "wait until the other run has ended",
    "LEASE_LOST": "run again",
    "SUPERSEDED": "plan again",
    "INTERRUPTED": "run again to continue",
}


def print_anything(stream: TextIO) -> None:
    r"""Makes a stream print characters that its encoding lacks as `\\u...` instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def end_with_error(error: BaseException) -> NoReturn:
    """Reports an error on stderr, with `--json` on stdout too, and exits with its code."""
    code, message, exit_code = _described(error)
    tell(line_of(error))
    if code == "OUTPUT":
        drop_output()
    elif {"--json", "--json-lines"}.intersection(sys.argv[1:]) and not STDOUT.begun:
        place: Any = getattr(error, "path", None) or getattr(error, "root", None)
        path, advice = str(place) if place else None, _NEXT.get(code)
        if isinstance(error, click.UsageError) and error.ctx:
            advice = _help(error)
        facts = {"code": code, "message": message, "path": path, "next": advice}
        click.echo(json.dumps({"format": FORMAT, "error": facts}, indent=2))
    sys.exit(exit_code)


def line_of(error: BaseException) -> str:
    code, message, _ = _described(error)
    return message if code == "INTERRUPTED" else f"statemaint: {code}: {message}"


def _described(error: BaseException) -> tuple[str, str, int]:
    if isinstance(error, click.Abort | KeyboardInterrupt):
        # 128 and the number of the signal, as shells expect
        return "INTERRUPTED", "interrupted; run again to continue", 130
    if isinstance(error, click.ClickException):
        message = " ".join(error.format_message().split()).rstrip(".")
        return ConfigError.code, f"{message}; {_help(error)}", ConfigError.exit_code
    message = " ".join("; ".join((str(error), *getattr(error, "__notes__", []))).split())
    if isinstance(error, StatemaintError):
        return error.code, message, error.exit_code
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        why = os.strerror(error.errno or 0)
        return "OUTPUT", f"the result could not be written: {why}", StorageError.exit_code
    return StatemaintError.code, f"{type(error).__name__}: {message}", 1


def _help(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"see '{context.command_path if context else 'statemaint'} --help'"


def drop_output() -> None:
    """Discards the rest of stdout, which Python would try to write again at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
