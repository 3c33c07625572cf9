"""`scan`: the contents of a checkpoint, or of many."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, Row, of_many
from statemaint.cli.options import as_json_or_lines, uri
from statemaint.cli.output import Json, end_with, print_result
from statemaint.cli.tables import BAD, WARNING, Column, files_of, number
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan.findings.health import diagnose
from statemaint.planning import scan_checkpoint
from statemaint.report.to_json import scan_json
from statemaint.storage import open_storage
from statemaint.wording import counted


@click.command("scan")
@uri
@as_json_or_lines
@of_many(lambda: FLEET)
def scan_verb(uri: str) -> None:
    """Show the operators, partitions, stores, chains and sizes of a checkpoint.

    Broken stores come first, then those with long chains. For a folder or bucket of many
    checkpoints, one row for each of them.
    """
    checkpoint, document, findings = _read(uri)
    print_result(lambda: document, lambda: _print_table(checkpoint, document), lines="stores")
    end_with(findings)


def _read(uri: str) -> tuple[Checkpoint, Json, tuple[Finding, ...]]:
    checkpoint = scan_checkpoint(open_storage(uri))
    diagnosed = [diagnose(store, checkpoint) for store in checkpoint.stores]
    findings = (*checkpoint.findings, *chain.from_iterable(diagnosed))
    return checkpoint, scan_json(checkpoint, diagnosed), findings


def _print_table(checkpoint: Checkpoint, document: Json) -> None:
    stores = document["stores"]
    tables.print_lines(_heading(checkpoint))
    tables.print_verdict(Verdict(document["verdict"]), Looked.NAMES)
    tables.print_line(Text.assemble("in all      ", *_totals(stores)))
    tables.print_alike(_COLUMNS, sorted(stores, key=_worst_first), "store")


def _heading(checkpoint: Checkpoint) -> Iterator[str]:
    yield f"checkpoint  {checkpoint.root}"
    yield f"query       {checkpoint.query_id or '(unknown)'}"
    yield f"provider    {checkpoint.provider}, {checkpoint.codec}"
    yield f"committed   {tables.committed(checkpoint.committed, checkpoint.target)}"
    if checkpoint.required is not None:
        yield f"required    version {checkpoint.required} is the oldest in the commit log"
    for operator in checkpoint.operators:
        yield f"operator    {operator.id}: {operator.name}"
    for pin in checkpoint.pins:
        yield f"pinned      {tables.pinned(pin)}"


def _totals(stores: Sequence[Json]) -> Iterator[str | tuple[str, str]]:
    files, size = sum(store["files"] for store in stores), sum(store["bytes"] for store in stores)
    yield f"{counted(len(stores), 'store')}, {files_of(files, size)}"
    longest = max((int(store["chain_length"] or 0) for store in stores), default=0)
    if longest:
        yield f", longest chain {counted(longest, 'delta')}"
    if wrong := sum(1 for store in stores if store["chain_length"] is None or store["findings"]):
        yield ", "
        yield f"{counted(wrong, 'store')} with findings", BAD


def _worst_first(store: Json) -> tuple[Any, ...]:
    length = store["chain_length"]
    return length is not None, not store["findings"], -(length or 0), -store["bytes"], _id(store)


def _id(store: Json) -> StoreId:
    return StoreId(store["operator"], store["partition"], store["store"])


def _snapshots(store: Json) -> str:
    """Returns the newest snapshots, and the number of older ones."""
    versions = store["snapshots"]
    if len(versions) <= 2:  # noqa: PLR2004 -- target and floor, as a run leaves them
        return " ".join(map(str, versions)) or "none"
    return f"{versions[-2]} {versions[-1]} (+{len(versions) - 2})"


def _codes(store: Json) -> Text:
    codes = " ".join(sorted({finding["code"] for finding in store["findings"]}))
    return Text(codes, BAD if store["chain_length"] is None else WARNING)


_COLUMNS: tuple[Column[Json], ...] = (
    Column("store", lambda row: tables.short(_id(row))),
    number("versions", lambda row: "-".join(map(str, row["versions"])) or "none", 3),
    number("snapshots", _snapshots, 4),
    number("chain", lambda row: tables.chain_cell(row["chain_length"])),
    number("files", lambda row: str(row["files"]), 1),
    number("bytes", lambda row: decimal(row["bytes"]), varies=True),
    Column("findings", _codes),
)


def _row(uri: str, **_: Any) -> Row:
    checkpoint, document, findings = _read(uri)
    stores = document["stores"]
    lengths = [store["chain_length"] for store in stores]
    return {
        **{name: document[name] for name in ("verdict", "looked_at")},
        "last_committed_batch": checkpoint.committed,
        "stores": len(stores),
        "files": sum(store["files"] for store in stores),
        "bytes": sum(store["bytes"] for store in stores),
        "longest_chain": max((length for length in lengths if length is not None), default=0),
        "broken_stores": sum(1 for length in lengths if length is None),
    }, findings


def _longest(row: Json) -> str | Text:
    broken = row["broken_stores"]
    return Text(f"{broken} broken", BAD) if broken else str(row["longest_chain"])


FLEET: Fleet = Fleet(
    columns=(
        number("batch", lambda row: tables.known(row["last_committed_batch"]), 2),
        number("stores", lambda row: f"{row['stores']:,}", 3),
        number("chain", _longest),
        number("files", lambda row: f"{row['files']:,}", 1),
        number("bytes", lambda row: decimal(row["bytes"])),
    ),
    read=_row,
    order=lambda row: (-row["broken_stores"], -row["longest_chain"], -row["bytes"]),
    totals=lambda rows: (
        f"{counted(sum(row['stores'] for row in rows), 'store')}, "
        f"{files_of(sum(row['files'] for row in rows), sum(row['bytes'] for row in rows))}"
    ),
    looked=lambda _: Looked.NAMES,
)
