"""`scan`: the contents of a checkpoint."""

from collections.abc import Iterable, Iterator
from itertools import chain

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.cli.output import end_with, print_result
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding
from statemaint.plan import diagnose
from statemaint.planning import scan_checkpoint
from statemaint.report.to_json import scan_json, store_json
from statemaint.storage import open_storage


@click.command("scan")
@uri
@as_json
def scan_verb(uri: str, *, as_json: bool) -> None:
    """Show the operators, partitions, stores, chains and sizes of a checkpoint."""
    checkpoint = scan_checkpoint(open_storage(uri))
    found = tuple(diagnose(store, checkpoint) for store in checkpoint.stores)
    print_result(
        lambda: scan_json(checkpoint, found),
        as_json=as_json,
        table=lambda: _print_table(checkpoint, found),
    )
    end_with((*checkpoint.findings, *chain.from_iterable(found)))


def _print_table(checkpoint: Checkpoint, found: Iterable[tuple[Finding, ...]]) -> None:
    for line in _heading(checkpoint):
        tables.print_line(line)
    columns = ("store", "versions", "snapshots", "chain", "files", "bytes", "findings")
    stores = zip(checkpoint.stores, found, strict=True)
    cells = (_store_cells(store, checkpoint.target, some) for store, some in stores)
    tables.print_table(columns, cells)


def _heading(checkpoint: Checkpoint) -> Iterator[str]:
    yield f"checkpoint  {checkpoint.root}"
    yield f"query       {checkpoint.query_id or '(unknown)'}"
    yield f"provider    {checkpoint.provider}, {checkpoint.codec}"
    yield f"committed   {tables.committed(checkpoint.committed, checkpoint.target)}"
    yield f"required    version {checkpoint.required} is the oldest in the commit log"
    for operator in checkpoint.operators:
        yield f"operator    {operator.id}: {operator.name}"


def _store_cells(store: Store, target: int | None, findings: Iterable[Finding]) -> tuple[str, ...]:
    fields = store_json(store, target, findings)
    versions = "-".join(str(one) for one in fields["versions"]) or "none"
    return (
        str(store.id),
        versions,
        " ".join(str(one) for one in fields["snapshots"]) or "none",
        "broken" if fields["chain_length"] is None else str(fields["chain_length"]),
        str(fields["files"]),
        decimal(fields["bytes"]),
        " ".join(sorted({one["code"] for one in fields["findings"]})),
    )
