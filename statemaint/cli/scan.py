"""`scan`: the contents of a checkpoint, or of many."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, of_many
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
from statemaint.storage import Storage, open_storage
from statemaint.wording import counted

COLUMNS = (
    Column("store"),
    Column("versions", right=True, spare=3),
    Column("snapshots", right=True, spare=4),
    number("chain"),
    number("files", spare=1),
    number("bytes", varies=True),
    Column("findings"),
)


@click.command("scan")
@uri
@as_json_or_lines
@of_many(lambda: FLEET)
def scan_verb(uri: str, *, as_json: bool) -> None:
    """Show the operators, partitions, stores, chains and sizes of a checkpoint.

    Broken stores come first, then those with long chains. For a folder or bucket of many
    checkpoints, one row for each of them.
    """
    checkpoint, diagnosed = _read(open_storage(uri))
    document = scan_json(checkpoint, diagnosed)
    print_result(
        lambda: document,
        as_json=as_json,
        table=lambda: _print_table(checkpoint, document),
        lines="stores",
    )
    end_with((*checkpoint.findings, *chain.from_iterable(diagnosed)))


def _read(storage: Storage) -> tuple[Checkpoint, tuple[tuple[Finding, ...], ...]]:
    checkpoint = scan_checkpoint(storage)
    return checkpoint, tuple(diagnose(store, checkpoint) for store in checkpoint.stores)


def _print_table(checkpoint: Checkpoint, document: Json) -> None:
    stores = document["stores"]
    for line in _heading(checkpoint):
        tables.print_line(line, wrap=False)
    tables.print_verdict(Verdict(document["verdict"]), Looked.NAMES)
    tables.print_line(Text.assemble("in all      ", *_totals(stores)))
    rows = [store_cells(one) for one in sorted(stores, key=worst_first)]
    tables.print_alike(COLUMNS, rows, "store")


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
    files, size = sum(one["files"] for one in stores), sum(one["bytes"] for one in stores)
    yield f"{counted(len(stores), 'store')}, {files_of(files, size)}"
    longest = max((int(one["chain_length"] or 0) for one in stores), default=0)
    if longest:
        yield f", longest chain {counted(longest, 'delta')}"
    if wrong := sum(1 for one in stores if one["chain_length"] is None or one["findings"]):
        yield ", "
        yield f"{counted(wrong, 'store')} with findings", BAD


def worst_first(store: Json) -> tuple[Any, ...]:
    chain_length = store["chain_length"]
    return (
        chain_length is not None,
        not store["findings"],
        -(chain_length or 0),
        -store["bytes"],
        store["operator"],
        store["partition"],
        store["store"],
    )


def store_cells(fields: Json) -> tuple[str | Text, ...]:
    """Returns a store of `scan --json` as the cells of `COLUMNS`."""
    broken = fields["chain_length"] is None
    codes = " ".join(sorted({one["code"] for one in fields["findings"]}))
    return (
        tables.short(StoreId(fields["operator"], fields["partition"], fields["store"])),
        "-".join(str(one) for one in fields["versions"]) or "none",
        _few(fields["snapshots"]),
        Text("broken", BAD) if broken else str(fields["chain_length"]),
        str(fields["files"]),
        decimal(fields["bytes"]),
        Text(codes, BAD if broken else WARNING),
    )


def _few(versions: Sequence[int]) -> str:
    """Returns the newest snapshots, and the number of older ones."""
    if len(versions) <= 2:  # noqa: PLR2004 -- target and floor, as a run leaves them
        return " ".join(map(str, versions)) or "none"
    return f"{versions[-2]} {versions[-1]} (+{len(versions) - 2})"


def _row(uri: str, **_: Any) -> tuple[Json, tuple[Finding, ...]]:
    checkpoint, diagnosed = _read(open_storage(uri))
    document = scan_json(checkpoint, diagnosed)
    stores = document["stores"]
    lengths = [one["chain_length"] for one in stores]
    findings = (*checkpoint.findings, *chain.from_iterable(diagnosed))
    return {
        **{name: document[name] for name in ("verdict", "looked_at")},
        "last_committed_batch": checkpoint.committed,
        "stores": len(stores),
        "files": sum(one["files"] for one in stores),
        "bytes": sum(one["bytes"] for one in stores),
        "longest_chain": max((one for one in lengths if one is not None), default=0),
        "broken_stores": sum(1 for one in lengths if one is None),
    }, findings


def _fleet_cells(row: Json) -> Iterable[str | Text]:
    broken = row["broken_stores"]
    yield tables.known(row["last_committed_batch"])
    yield f"{row['stores']:,}"
    yield Text(f"{broken} broken", BAD) if broken else str(row["longest_chain"])
    yield f"{row['files']:,}"
    yield decimal(row["bytes"])


FLEET: Fleet = Fleet(
    columns=(
        number("batch", 2),
        number("stores", 3),
        number("chain"),
        number("files", 1),
        number("bytes"),
    ),
    read=_row,
    cells=_fleet_cells,
    order=lambda row: (-row["broken_stores"], -row["longest_chain"], -row["bytes"]),
    totals=lambda rows: (
        f"{counted(sum(one['stores'] for one in rows), 'store')}, "
        f"{files_of(sum(one['files'] for one in rows), sum(one['bytes'] for one in rows))}"
    ),
    looked=lambda _: Looked.NAMES,
)
