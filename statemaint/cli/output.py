"""How a verb prints its result and ends: results on stdout, findings on stderr, an exit code."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from json.encoder import encode_basestring_ascii
from typing import Any, NoReturn

import click

from statemaint.cli.messages import FORMAT, STDOUT, settings, tell
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.report.run import exit_code_of

Json = dict[str, Any]

MOST_LINES = 20

# An error within the first mebibyte leaves stdout empty.
_HELD = 1024 * 1024
_CHUNK = 64 * 1024
_INDENT = "  "
_IN_LIST = "\n    "


def print_result(
    document: Callable[[], Json],
    table: Callable[[], None],
    *,
    checkpoint: str | None = None,
    lines: str = "",
) -> None:
    """Prints a result, as JSON or as a table.

    `checkpoint` is added to a `document` that lacks it. `lines` is the field with the list that
    `--json-lines` prints, an element a line.
    """
    if not settings().as_json:
        table()
        return
    content = headed(document(), checkpoint)
    if settings().json_lines:
        rows = content.pop(lines)
        print_pieces(_as_lines(content, rows))
    else:
        click.echo(json.dumps(content, indent=2))


def headed(document: Json, checkpoint: str | None) -> Json:
    where = {"checkpoint": checkpoint} if checkpoint is not None else {}
    return {"format": FORMAT, **where, **document}


def _as_lines(document: Json, rows: Iterable[Json]) -> Iterator[str]:
    return (json.dumps(line) + "\n" for line in chain((document,), rows))


def print_pieces(pieces: Iterable[str]) -> None:
    """Prints a text piece by piece, but nothing before there is a mebibyte, or all of it."""
    held: list[str] = []
    size, most = 0, _HELD
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
    print_pieces((_as_lines if settings().json_lines else json_with_rows)(document, rows))


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
    within = newline + _INDENT
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
        print_lines([f"{code}: {_of_store(details)}" for details in stores.values()], most=most)


def _of_store(details: Sequence[str]) -> str:
    return details[0] + (f" (and {len(details) - 1} more of this store)" if details[1:] else "")


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
