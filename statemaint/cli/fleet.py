"""A folder or bucket of many checkpoints: one row each, the worst first, read side by side."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, NoReturn

from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.output import Json, print_result, tell
from statemaint.cli.progress import work_done
from statemaint.cli.tables import BAD, WARNING, Cell, Column
from statemaint.cli.targets import Address
from statemaint.errors import NotACheckpointError, StatemaintError
from statemaint.model.findings import Finding, damaged
from statemaint.model.verdict import Looked, Verdict
from statemaint.progress import watched
from statemaint.report.run import exit_code_of, worst_code
from statemaint.report.to_json import findings_json
from statemaint.storage import checkpoints_below, folders_in
from statemaint.wording import counted, printable
from statemaint.workers import Job, Workers, in_turn

_THREADS = 8  # most of a scan is Python code, of which one thread runs as much as two
Row = tuple[Json, tuple[Finding, ...]]
"""The row of a checkpoint, as JSON, and its findings."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The output of a verb for many checkpoints."""

    columns: tuple[Column[Any], ...]  # of its table, between the checkpoint's and the findings'
    read: Callable[..., Row]  # reads the checkpoint of an address, with the verb's options
    order: Callable[[Json], Any]  # the key that sorts rows, the worst first
    totals: Callable[[Sequence[Json]], str]  # all rows together, in words
    # How deep the verb looks with its options; `None` if it gives no verdict.
    looked: Callable[[Json], Looked | None]
    doing: str = "reading"  # what it does, for the progress


def of_many(fleet: Callable[[], Fleet]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a verb accept a folder of checkpoints as well; `fleet` is its output for them."""

    def wrapped(verb: Callable[..., None]) -> Callable[..., None]:
        @wraps(verb)
        def with_many(uri: str, **options: Any) -> None:
            try:
                verb(uri, **options)
            except NotACheckpointError:
                below = checkpoints_below(uri) if folders_in(uri) else ()
                if not below:
                    raise
                end_with_many(uri, [*map(Address, below)], fleet(), options)

        return with_many

    return wrapped


@dataclass(frozen=True, slots=True)
class _Read:
    uri: Address
    row: Json | None
    findings: tuple[Finding, ...] = ()
    error: StatemaintError | None = None  # that prevented it

    @property
    def name(self) -> str | None:
        return self.uri.named[1] if self.uri.named else None

    @property
    def verdict(self) -> Verdict:
        return Verdict(self.row["verdict"]) if self.row else Verdict.UNKNOWN

    @property
    def exit_code(self) -> int:
        return self.error.exit_code if self.error else exit_code_of(self.findings)


def end_with_many(
    place: str, addresses: Sequence[Address], fleet: Fleet, options: Json, *, also: int = 0
) -> NoReturn:
    """Reads checkpoints side by side, prints a row of each, and exits with the worst code.

    They share the `workers` of the verb's `options`; `also` is another exit code that counts.
    """
    crew = options.get("workers") or Workers()
    threads = min(crew.number or min(_THREADS, 2 * (os.cpu_count() or 1)), len(addresses) or 1)
    options = {**options, **({"workers": crew.split(threads)} if "workers" in options else {})}
    jobs = [Job(partial(_reading, uri, fleet, options), noun="checkpoint") for uri in addresses]
    waits = "interrupted: no other checkpoint is begun; waiting for those at work"
    with work_done(fleet.doing):
        readings = in_turn(jobs, threads=threads, stop=partial(tell, waits))
    print_result(
        lambda: {"folder": place, "checkpoints": [_json(reading) for reading in readings]},
        lambda: _print_table(place, readings, fleet, fleet.looked(options)),
        lines="checkpoints",
    )
    sys.exit(worst_code([also, *(reading.exit_code for reading in readings)]))


def _reading(uri: Address, fleet: Fleet, options: Json) -> Iterator[_Read]:
    with watched(None):  # the stores of a checkpoint are not counted among the checkpoints
        try:
            read = _Read(uri, *fleet.read(uri, **options))
        except StatemaintError as error:
            read = _Read(uri, None, error=error)
        except Exception as error:  # noqa: BLE001 -- a fault in one must not stop the others
            fault = StatemaintError(f"{type(error).__name__}: {error}")
            read = _Read(uri, None, error=fault)
    yield read


def _json(reading: _Read) -> Json:
    where = {"checkpoint": reading.uri, **({"query": reading.name} if reading.name else {})}
    if reading.error:
        facts = {"code": reading.error.code, "message": " ".join(str(reading.error).split())}
        return {**where, "verdict": reading.verdict.value, "error": facts}
    return {**where, **(reading.row or {}), "findings": findings_json(reading.findings)}


def _print_table(uri: str, readings: Sequence[_Read], fleet: Fleet, looked: Looked | None) -> None:
    rows = [reading.row for reading in readings if reading.row is not None]
    heads = f"{uri}: {counted(len(readings), 'checkpoint')}, {fleet.totals(rows)}"
    tables.print_line(Text.assemble(heads, *_verdicts(readings, looked)), wrap=False)
    folder = uri.rstrip("/") + "/"
    judged: list[Column[_Read]] = [Column("verdict", lambda row: tables.judged(row.verdict))]
    columns: tuple[Column[_Read], ...] = (
        Column("checkpoint", lambda row: row.name or printable(row.uri.removeprefix(folder))),
        *(judged if looked else ()),
        *(replace(column, of=partial(_cell, column)) for column in fleet.columns),
        Column("findings", _codes),
    )
    ordered = sorted(readings, key=partial(_order, fleet, looked))
    tables.print_first(columns, ordered, "checkpoint", most=60)


def _cell(column: Column[Json], reading: _Read) -> Cell:
    return column.of(reading.row) if reading.row is not None else ""


def _codes(reading: _Read) -> Text:
    if reading.error:
        return Text(reading.error.code, BAD)
    codes = sorted({finding.code.value for finding in reading.findings})
    return Text(" ".join(codes), BAD if damaged(reading.findings) else WARNING)


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
    rank, row = -reading.verdict.rank if looked else 0, reading.row
    return rank, row is not None, () if row is None else fleet.order(row), reading.uri
