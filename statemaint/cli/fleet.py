"""A folder or bucket of many checkpoints: one row each, the worst first, read side by side."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, NoReturn

from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.output import Json, print_result
from statemaint.cli.progress import work_done
from statemaint.cli.tables import BAD, WARNING, Column
from statemaint.cli.targets import Address
from statemaint.errors import NotACheckpointError, StatemaintError
from statemaint.model.findings import Finding, damaged
from statemaint.model.verdict import Looked, Verdict
from statemaint.progress import watched
from statemaint.report.outcome import exit_code_of, worst_code
from statemaint.report.to_json import findings_json
from statemaint.storage import (
    checkpoints_below,
    folders_in,
)
from statemaint.wording import counted
from statemaint.workers import Job, Workers, in_turn

# Most of a scan is Python code, of which one thread runs as much as two.
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Fleet:
    """The output of a verb for many checkpoints.

    Attributes:
        columns: the columns of its table between the checkpoint's and the findings'.
        read: reads the checkpoint of an address with the verb's options, for its row and findings.
        cells: the row as cells of those columns.
        order: the key that sorts rows, the worst first.
        totals: all rows together, in words.
        looked: how deep the verb looks with its options; `None` if it gives no verdict.
        doing: what it does, for the progress.
    """

    columns: tuple[Column, ...]
    read: Callable[..., tuple[Json, tuple[Finding, ...]]]
    cells: Callable[[Json], Iterable[str | Text]]
    order: Callable[[Json], Any]
    totals: Callable[[Sequence[Json]], str]
    looked: Callable[[Json], Looked | None]
    doing: str = "reading"


def of_many(fleet: Callable[[], Fleet]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a verb accept a folder of checkpoints as well; `fleet` is its output for them."""

    def wrapped(verb: Callable[..., None]) -> Callable[..., None]:
        @wraps(verb)
        def with_many(uri: str, *, as_json: bool, **options: Any) -> None:
            try:
                verb(uri, as_json=as_json, **options)
            except NotACheckpointError:
                below = below_folder(uri)
                if not below:
                    raise
                end_with_many(uri, below, fleet(), options, as_json=as_json)

        return with_many

    return wrapped


def below_folder(uri: str) -> list[Address]:
    """Returns the checkpoints below a folder; none if it does not exist."""
    return [*map(Address, checkpoints_below(uri) if folders_in(uri) else [])]


@dataclass(frozen=True, slots=True)
class _Read:
    """The reading of one checkpoint: its row and findings, or the error that prevented it."""

    uri: Address
    row: Json | None
    findings: tuple[Finding, ...] = ()
    error: StatemaintError | None = None

    @property
    def verdict(self) -> Verdict:
        return Verdict(self.row["verdict"]) if self.row else Verdict.UNKNOWN

    @property
    def exit_code(self) -> int:
        if self.error:
            return self.error.exit_code
        return exit_code_of(self.findings)


def end_with_many(
    place: str,
    addresses: Sequence[Address],
    fleet: Fleet,
    options: Json,
    *,
    as_json: bool,
    also: int = 0,
) -> NoReturn:
    """Reads checkpoints side by side, prints a row of each, and exits with the worst code.

    They share the `workers` of the verb's `options`; `also` is another exit code that counts.
    """
    crew = options.get("workers") or Workers()
    threads = min(crew.number or min(_THREADS, 2 * (os.cpu_count() or 1)), len(addresses) or 1)
    options = {**options, **({"workers": crew.split(threads)} if "workers" in options else {})}
    jobs = [Job(partial(_reading, one, fleet, options)) for one in addresses]
    with work_done(fleet.doing, "checkpoint"):
        readings = in_turn(jobs, threads=threads)
    print_result(
        lambda: {"folder": place, "checkpoints": [_json(reading) for reading in readings]},
        as_json=as_json,
        table=lambda: _print_table(place, readings, fleet, fleet.looked(options)),
        lines="checkpoints",
    )
    sys.exit(worst_code([also, *(reading.exit_code for reading in readings)]))


def _reading(uri: Address, fleet: Fleet, options: Json) -> Iterator[_Read]:
    with watched(None):  # the stores of a checkpoint are not counted among the checkpoints
        try:
            read = _Read(uri, *fleet.read(uri, **options))
        except StatemaintError as error:
            read = _Read(uri, None, error=error)
    yield read


def _json(reading: _Read) -> Json:
    named = {"query": reading.uri.named[1]} if reading.uri.named else {}
    if reading.error:
        facts = {"code": reading.error.code, "message": " ".join(str(reading.error).split())}
        verdict = {"verdict": reading.verdict.value}
        return {"checkpoint": reading.uri, **named, **verdict, "error": facts}
    return {
        "checkpoint": reading.uri,
        **named,
        **(reading.row or {}),
        "findings": findings_json(reading.findings),
    }


def _print_table(uri: str, readings: Sequence[_Read], fleet: Fleet, looked: Looked | None) -> None:
    rows = [reading.row for reading in readings if reading.row is not None]
    heads = f"{uri}: {counted(len(readings), 'checkpoint')}, {fleet.totals(rows)}"
    tables.print_line(Text.assemble(heads, *_verdicts(readings, looked)), wrap=False)
    ordered = sorted(readings, key=partial(_order, fleet, looked))
    cells = [_cells(uri, reading, fleet, looked) for reading in ordered]
    judged = (Column("verdict"),) if looked else ()
    columns = (Column("checkpoint"), *judged, *fleet.columns, Column("findings"))
    tables.print_first(columns, cells, "checkpoint", most=max(tables.MOST_ROWS, 60))


def _verdicts(readings: Sequence[_Read], looked: Looked | None) -> Iterator[str | Text]:
    if looked is None:
        unread = sum(1 for reading in readings if reading.error)
        yield f", {unread} not read" if unread else ", all of them read"
        return
    counts = Counter(reading.verdict for reading in readings)
    for verdict in Verdict:
        if counts[verdict]:
            yield Text.assemble(f", {counts[verdict]} ", tables.judged(verdict))
    yield f", by {looked.meaning}"


def _order(fleet: Fleet, looked: Looked | None, reading: _Read) -> tuple[Any, ...]:
    rank = -reading.verdict.rank if looked else reading.row is not None
    return rank, () if reading.row is None else fleet.order(reading.row), reading.uri


def _cells(folder: str, reading: _Read, fleet: Fleet, looked: Looked | None) -> list[str | Text]:
    named = reading.uri.named
    name = named[1] if named else reading.uri.removeprefix(folder.rstrip("/") + "/")
    judged = [tables.judged(reading.verdict)] if looked else []
    if reading.row is None or reading.error:
        blank = [""] * len(fleet.columns)
        return [name, *judged, *blank, Text(reading.error.code if reading.error else "", BAD)]
    codes = sorted({finding.code.value for finding in reading.findings})
    style = BAD if damaged(reading.findings) else WARNING
    return [name, *judged, *fleet.cells(reading.row), Text(" ".join(codes), style)]
