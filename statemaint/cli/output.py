"""A call's settings, how it prints its result and its messages, and its end.

Results go to stdout, findings and other messages to stderr and the log file.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from itertools import chain
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any, NoReturn

import click

from statemaint.errors import ConfigError, StatemaintError, StorageError
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.report.run import exit_code_of

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
    """Applies settings to the block, whose warnings are messages of the call."""
    before = _CURRENT.set(current)
    warnings, logger = _Warnings(), logging.getLogger("statemaint")
    logger.addHandler(warnings)
    try:
        if current.log is not None:
            _check_log(current.log)
        yield
    finally:
        logger.removeHandler(warnings)
        _CURRENT.reset(before)


def _check_log(file: str) -> None:
    """Refuses a log file that cannot be written, before the work."""
    try:
        Path(file).open("a", encoding="utf-8").close()
    except OSError as error:
        raise ConfigError(f"--log-file {file}: {error.strerror}") from error


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._settings = copy_context()  # threads have no settings

    def emit(self, record: logging.LogRecord) -> None:
        self._settings.run(tell, self.format(record))


@contextmanager
def output_to(file: str | None, *, flag: str = "--output") -> Iterator[None]:
    """Redirects stdout to a file that is created, or replaced, once the result is complete.

    A device or a pipe is written to.
    """
    if file is None:
        yield
        return
    path = temp = Path(file)
    try:
        special = path.exists() and not path.is_file()
        if not special:
            path = Path(os.path.realpath(file))  # a link stays one
            temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        stream = temp.open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"{flag} {file}: {error.strerror}") from error
    if special:
        with stream, redirect_stdout(stream):
            yield
        return
    try:
        with stream, redirect_stdout(stream):
            yield
    except SystemExit:  # of a verb that has printed its result; errors are raised as such
        temp.replace(path)
        raise
    else:
        temp.replace(path)
    finally:
        temp.unlink(missing_ok=True)


class _Stdout:
    begun = False
    """Whether a part of this call's result has been printed."""


STDOUT = _Stdout()


def tell(text: str) -> None:
    """Prints a line on stderr; nobody may read it there, and the work goes on."""
    with suppress(OSError):
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
    with suppress(OSError), Path(path).open("a", encoding="utf-8", errors="backslashreplace") as it:
        it.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}\n")


_FULL = {ENOSPC, EDQUOT, EFBIG, EIO}
_NEXT = {
    "NOT_A_CHECKPOINT": "give the query's checkpointLocation",
    "LEASE_HELD": "wait until the other run has ended",
    "LEASE_LOST": "run again",
    "SUPERSEDED": "plan again",
    "INTERRUPTED": "run again to continue",
}


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


Json = dict[str, Any]
MOST_LINES = 20
_CHUNK = 64 * 1024
_IN_LIST = "\n    "


def print_result(
    document: Callable[[], Json], table: Callable[[], object], *, lines: str = ""
) -> None:
    """Prints a result, as JSON or as a table; `lines` as of `print_json`."""
    if settings().as_json:
        print_json(document(), lines=lines)
    else:
        table()


def print_json(document: Json, *, lines: str = "") -> None:
    """Prints a document; `lines` is the list that `--json-lines` prints, an element a line."""
    content = {"format": FORMAT, **document}
    if settings().json_lines:
        rows = content.pop(lines)
        print_pieces(_as_lines(content, rows))
    else:
        click.echo(json.dumps(content, indent=2))


def _as_lines(document: Json, rows: Iterable[Json]) -> Iterator[str]:
    return (json.dumps(line) + "\n" for line in chain((document,), rows))


def print_pieces(pieces: Iterable[str]) -> None:
    """Prints a text piece by piece, but nothing before there is a mebibyte, or all of it."""
    held: list[str] = []
    size, most = 0, 1024 * 1024  # an error within them leaves stdout empty
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= most:
            click.echo("".join(held), nl=False)
            STDOUT.begun = True
            held, size, most = [], 0, _CHUNK
    click.echo("".join(held), nl=False)


def print_rows(document: Json, rows: Iterable[Json]) -> None:
    """Prints a document whose last field is `rows`, and each row as it comes."""
    printed = _as_lines if settings().json_lines else json_with_rows
    print_pieces(printed({"format": FORMAT, **document}, rows))


def json_with_rows(document: Json, rows: Iterable[Json]) -> Iterator[str]:
    """Yields a document as `print_result` prints it, with `rows` as its last field."""
    yield json.dumps(document, indent=2).removesuffix("\n}") + ',\n  "rows": ['
    comma, end = "", "]\n}\n"
    for row in rows:
        yield comma + _IN_LIST + json_text(row, _IN_LIST)
        comma, end = ",", "\n  ]\n}\n"
    yield end


def json_text(value: Any, newline: str = "\n") -> str:
    """Returns `json.dumps(value, indent=2)`, faster; further lines begin with `newline`."""
    within = newline + "  "
    if isinstance(value, dict) and value:
        lines = [f"{_scalar(name)}: {json_text(member, within)}" for name, member in value.items()]
        return "{" + within + f",{within}".join(lines) + newline + "}"
    if isinstance(value, list) and value:
        lines = [json_text(item, within) for item in value]
        return "[" + within + f",{within}".join(lines) + newline + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return encode_basestring_ascii(value) if isinstance(value, str) else json.dumps(value)


def print_findings(findings: Sequence[Finding]) -> None:
    """Prints findings on stderr, one line a store; a failed storage gets one line for all."""
    by_code: dict[FindingCode, dict[StoreId | str, list[str]]] = {}
    for finding in findings:
        if finding.code is not FindingCode.ORPHAN_FILE:
            of_code = by_code.setdefault(finding.code, {})
            of_code.setdefault(finding.store or finding.detail, []).append(finding.detail)
    for code, stores in by_code.items():
        most = 1 if code is FindingCode.STORAGE_FAILED else MOST_LINES
        lines = []
        for first, *others in stores.values():
            more = f" (and {len(others)} more of this store)" if others else ""
            lines.append(f"{code}: {first}{more}")
        print_lines(lines, most=most)


def print_lines(lines: Sequence[str], *, most: int = MOST_LINES) -> None:
    """Prints lines on stderr; the last line shown states the number of lines left out."""
    shown = [*lines[:most]]
    if more := len(lines) - len(shown):
        shown[-1] += f" (and {more} more; --json lists them)"
    for line in shown:
        tell(line)


def end_with(findings: Sequence[Finding]) -> NoReturn:
    print_findings(findings)
    sys.exit(exit_code_of(findings))
