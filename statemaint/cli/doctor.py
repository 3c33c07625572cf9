"""`doctor`: whether the query can restart, in a dozen lines."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.audit import Diagnosis, doctor
from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, of_many
from statemaint.cli.options import as_json, uri, workers_flag
from statemaint.cli.output import print_result
from statemaint.cli.progress import work_done
from statemaint.cli.tables import BAD, GOOD, WARNING, Column, number
from statemaint.errors import CheckpointError
from statemaint.model.findings import Finding
from statemaint.model.ids import batch_of
from statemaint.report.to_json import findings_json, id_json
from statemaint.storage import Storage, open_storage
from statemaint.wording import counted
from statemaint.workers import Workers

_SHOWN = 3
_LABEL = 10


@click.command("doctor")
@uri
@click.option("--deep", is_flag=True, help="Check as deeply as `verify --deep`.")
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    help="Total task slots of the executors.  [default: the cores of this machine]",
)
@workers_flag
@as_json
@of_many(lambda: FLEET)
def doctor_verb(
    uri: str, *, deep: bool, slots: int | None, workers: Workers, as_json: bool
) -> None:
    """Report in a dozen lines whether the query can restart, from which batch, and what to do.

    Decodes every file of each retained version. The exit code is 3 if anything is damaged, as for
    `verify`.
    """
    slots = slots or os.cpu_count() or 1
    with work_done("checking"):
        found = doctor(open_storage(uri), deep=deep, slots=slots, workers=workers)
    print_result(
        lambda: doctor_json(found),
        as_json=as_json,
        table=lambda: _print(found),
        checkpoint=found.checkpoint.root,
    )
    sys.exit(CheckpointError.exit_code if found.counts else 0)


def _print(found: Diagnosis) -> None:
    """Prints the diagnosis, with its verdict in its colour."""
    first, *others = lines(found)
    style = BAD if not found.restarts else WARNING if found.counts else GOOD
    tables.print_labelled(first[:_LABEL], first[_LABEL:], style)
    for line in others:
        tables.print_labelled(line[:_LABEL], line[_LABEL:])


def doctor_json(found: Diagnosis) -> dict[str, Any]:
    """Returns the output of `doctor --json`."""
    return {
        "restarts": found.restarts,
        "restarts_since": found.restarts_since,
        "passed_over": list(found.passed_over),
        "last_committed_batch": found.checkpoint.committed,
        "loadable_batches": list(found.loadable),
        "goes_back_to": found.goes_back_to,
        "longest_chain": _chain_json(found),
        "restart_estimate": _estimate_json(found),
        "looked_at": "rows" if found.deep else "files",
        "unseen": list(found.unseen),
        "damage": {code.value: count for code, count in sorted(found.counts.items())},
        "next": list(found.next),
        "findings": findings_json(found.findings),
    }


def _chain_json(found: Diagnosis) -> dict[str, Any] | None:
    if found.chain is None or found.longest is None:
        return None
    return {
        **id_json(found.longest.id),
        "deltas": len(found.chain.deltas),
        "files": len(found.chain.paths),
        "bytes": found.took.size if found.took else found.chain.size,
        "seconds": found.took.seconds if found.took else None,
    }


def _estimate_json(found: Diagnosis) -> dict[str, Any] | None:
    if found.at_least is None:
        return None
    return {
        "bytes": found.total,
        "bytes_per_second": found.speed,
        "slots": found.slots,
        "seconds_at_least": found.at_least,
    }


def lines(found: Diagnosis) -> Iterator[str]:
    """Yields the diagnosis as lines of text."""
    yield f"restart:  {_restart(found)}"
    yield f"batches:  {_batches(found)}"
    yield f"chain:    {_chain(found)}"
    if found.restarts and found.at_least is not None:
        yield f"time:     {_time(found.at_least, found)}"
    yield f"looked:   {_looked(found)}"
    counts = ", ".join(f"{code} ({number})" for code, number in sorted(found.counts.items()))
    yield f"damage:   {counts or 'none'}"
    for one in _first(found.findings):
        yield f"          {one.detail}"
    for label, text in zip(("next:", *[""] * len(found.next)), found.next, strict=False):
        yield f"{label:<10}{text}"


def _restart(found: Diagnosis) -> str:
    if not found.restarts:
        return f"NO: {_why_not(found)}"
    version = found.checkpoint.resumes
    if version is None:
        return "yes, from the beginning: nothing is committed yet"
    where = f"after batch {batch_of(version)} (state version {version})"
    if found.restarts_since:
        more = f" and {len(found.passed_over) - 1} more" if len(found.passed_over) > 1 else ""
        over = f", passing over {found.passed_over[0]}{more}" if found.passed_over else ""
        return f"yes with Spark {found.restarts_since} and later, {where}{over}; NO with older ones"
    return f"yes, {where}{_but(found)}"


def _but(found: Diagnosis) -> str:
    if found.misplaced:
        return ", but with rows out of place"
    doubt = ", with wrong rows where the file is wrong that does not fit its checksum"
    return doubt if found.doubtful else ""


def _why_not(found: Diagnosis) -> str:
    if blocker := next(found.blockers, None):
        return blocker.code
    batch = batch_of(found.checkpoint.resumes or 0)
    if batch == found.checkpoint.committed:
        return f"the state of batch {batch}, the last committed one, does not load"
    return f"the state of batch {batch}, which the next one reads, does not load"


def _looked(found: Diagnosis) -> str:
    depth = "every file and every row of the newest version" if found.deep else "every needed file"
    unseen = f"; unseen: {'; '.join(found.unseen)}" if found.unseen else ""
    return f"{depth}{unseen}"


def _batches(found: Diagnosis) -> str:
    if not found.loadable:
        return "none loads in every store"
    lost = len(found.checkpoint.batches) - len(found.loadable)
    some = f"; {lost} more in the commit log do not" if lost else ""
    return f"{_ranges(found.loadable)} load in every store{some}"


def _ranges(batches: Iterable[int]) -> str:
    found: list[list[int]] = []
    for batch in batches:
        if found and found[-1][1] == batch - 1:
            found[-1][1] = batch
        else:
            found.append([batch, batch])
    return ", ".join(f"{first} to {last}" if first < last else str(first) for first, last in found)


def _chain(found: Diagnosis) -> str:
    if found.chain is None or found.longest is None:
        return "none to read"
    files, where = counted(len(found.chain.deltas), "file"), found.longest.id
    size = decimal(found.took.size if found.took else found.chain.size)
    took = f", read in {found.took.seconds:.2f} s here" if found.took else ""
    return f"at most {files} of changes behind a snapshot ({where}: {size}{took})"


def _time(at_least: float, found: Diagnosis) -> str:
    speed, size = decimal(int(found.speed or 0)), decimal(found.total or 0)
    slots = f"{found.slots} slot{'s' if found.slots > 1 else ''}"
    return (
        f"at least {at_least:.2f} s for the {size} of all stores in {slots}, by reading {speed} a "
        "second as measured here; Spark takes longer: docs/benchmarks.md has the ratio"
    )


def _first(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """Yields the first finding of each kind of damage, up to a limit."""
    kinds = {one.code: one for one in reversed(findings) if one.damage}
    yield from sorted(kinds.values())[:_SHOWN]


def _row(
    storage: Storage, *, deep: bool, slots: int | None, workers: Workers
) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Returns the fleet row of one checkpoint."""
    found = doctor(storage, deep=deep, slots=slots or os.cpu_count() or 1, workers=workers)
    row = {
        "restarts": found.restarts,
        "restarts_since": found.restarts_since,
        "last_committed_batch": found.checkpoint.committed,
        "loadable_batches": len(found.loadable),
        "longest_chain": len(found.chain.deltas) if found.chain else None,
        "bytes": found.total,
        "damage": {code.value: count for code, count in sorted(found.counts.items())},
        "next": list(found.next),
    }
    return row, found.findings


def _fleet_cells(row: dict[str, Any]) -> Iterable[str | Text]:
    since = row["restarts_since"]
    yes = Text(f"with {since}" if since else "yes", WARNING if row["damage"] else GOOD)
    yield yes if row["restarts"] else Text("NO", BAD)
    yield tables.known(row["last_committed_batch"])
    yield f"{row['loadable_batches']:,}"
    yield tables.known(row["longest_chain"])
    yield "?" if row["bytes"] is None else decimal(row["bytes"])


FLEET: Fleet = Fleet(
    columns=(
        Column("restarts"),
        number("batch", 2),
        number("loadable", 3),
        number("chain"),
        number("bytes", 1),
    ),
    read=_row,
    cells=_fleet_cells,
    order=lambda row: (row["restarts"], not row["damage"], -(row["longest_chain"] or 0)),
    totals=lambda rows: f"{sum(1 for one in rows if not one['restarts'])} would not restart",
)
