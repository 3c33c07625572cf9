"""A folder or bucket of many checkpoints: one row each, the worst first, read side by side."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.output import Json, print_result
from statemaint.cli.progress import work_done
from statemaint.cli.tables import BAD, WARNING, Column
from statemaint.errors import CheckpointError, NotACheckpointError, StatemaintError
from statemaint.model.findings import Finding, damaged
from statemaint.progress import watched
from statemaint.report.to_json import findings_json
from statemaint.storage import (
    checkpoints_below,
    folders_in,
    open_storage,
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
        read: reads one checkpoint with the verb's options, for its row and its findings.
        cells: the row as cells of those columns.
        order: the key that sorts rows, the worst first.
        totals: all rows together, in words.
        sound: what a reading with the verb's options shows if nothing is damaged: it says how deep
            the verb looked.
    """

    columns: tuple[Column, ...]
    read: Callable[..., tuple[Json, tuple[Finding, ...]]]
    cells: Callable[[Json], Iterable[str | Text]]
    order: Callable[[Json], Any]
    totals: Callable[[Sequence[Json]], str]
    sound: Callable[[Json], str]


def of_many(fleet: Callable[[], Fleet]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a verb accept a folder of checkpoints as well; `fleet` is its output for them."""

    def wrapped(verb: Callable[..., None]) -> Callable[..., None]:
        @wraps(verb)
        def with_many(uri: str, *, as_json: bool, **options: Any) -> None:
            try:
                verb(uri, as_json=as_json, **options)
            except NotACheckpointError:
                below = checkpoints_below(uri) if folders_in(uri) else []
                if not below:
                    raise
                _print(uri, below, fleet(), options, as_json=as_json)

        return with_many

    return wrapped


@dataclass(frozen=True, slots=True)
class _Read:
    """The reading of one checkpoint: its row and findings, or the error that prevented it."""

    uri: str
    row: Json | None
    findings: tuple[Finding, ...] = ()
    error: StatemaintError | None = None

    @property
    def exit_code(self) -> int:
        if self.error:
            return self.error.exit_code
        return CheckpointError.exit_code if damaged(self.findings) else 0


def _print(uri: str, below: Sequence[str], fleet: Fleet, options: Json, *, as_json: bool) -> None:
    crew = options.get("workers") or Workers()
    options = {**options, **({"workers": Workers(1, crew.memory)} if "workers" in options else {})}
    threads = crew.number or min(_THREADS, 2 * (os.cpu_count() or 1))
    jobs = [Job(partial(_reading, one, fleet, options)) for one in below]
    with work_done("reading", "checkpoint"):
        readings = in_turn(jobs, threads=threads)
    print_result(
        lambda: {"folder": uri, "checkpoints": [_json(reading) for reading in readings]},
        as_json=as_json,
        table=lambda: _print_table(uri, readings, fleet, sound=fleet.sound(options)),
        lines="checkpoints",
    )
    sys.exit(max((reading.exit_code for reading in readings), default=0))


def _reading(uri: str, fleet: Fleet, options: Json) -> Iterator[_Read]:
    with watched(None):  # the stores of a checkpoint are not counted among the checkpoints
        try:
            read = _Read(uri, *fleet.read(open_storage(uri), **options))
        except StatemaintError as error:
            read = _Read(uri, None, error=error)
    yield read


def _json(reading: _Read) -> Json:
    if reading.error:
        facts = {"code": reading.error.code, "message": " ".join(str(reading.error).split())}
        return {"checkpoint": reading.uri, "error": facts}
    return {
        "checkpoint": reading.uri,
        **(reading.row or {}),
        "findings": findings_json(reading.findings),
    }


def _print_table(uri: str, readings: Sequence[_Read], fleet: Fleet, *, sound: str) -> None:
    rows = [reading.row for reading in readings if reading.row is not None]
    counts = {
        "damaged": sum(1 for reading in readings if damaged(reading.findings)),
        "not read": sum(1 for reading in readings if reading.error),
    }
    wrong = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    heads = f"{uri}: {counted(len(readings), 'checkpoint')}, {fleet.totals(rows)}, "
    tables.print_line(Text.assemble(heads, (wrong, BAD) if wrong else sound), wrap=False)
    ordered = sorted(readings, key=partial(_order, fleet))
    cells = [_cells(uri, reading, fleet) for reading in ordered]
    columns = (Column("checkpoint"), *fleet.columns, Column("findings"))
    tables.print_first(columns, cells, "checkpoint", most=max(tables.MOST_ROWS, 60))


def _order(fleet: Fleet, reading: _Read) -> tuple[Any, ...]:
    if reading.row is None:
        return (0, (), reading.uri)
    return (1 if damaged(reading.findings) else 2, fleet.order(reading.row), reading.uri)


def _cells(folder: str, reading: _Read, fleet: Fleet) -> list[str | Text]:
    name = reading.uri.removeprefix(folder.rstrip("/") + "/")
    if reading.row is None or reading.error:
        blank = [""] * len(fleet.columns)
        return [name, *blank, Text(reading.error.code if reading.error else "", BAD)]
    codes = sorted({finding.code.value for finding in reading.findings})
    style = BAD if damaged(reading.findings) else WARNING
    return [name, *fleet.cells(reading.row), Text(" ".join(codes), style)]
