"""`scan`: the contents of a checkpoint."""

from collections.abc import Iterable, Iterator

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
    print_result(
        lambda: scan_json(checkpoint), as_json=as_json, table=lambda: _print_table(checkpoint)
    )
    stores = (one for store in checkpoint.stores for one in diagnose(store, checkpoint))
    end_with((*checkpoint.findings, *stores))


def _print_table(checkpoint: Checkpoint) -> None:
    for line in _heading(checkpoint):
        tables.print_line(line)
    columns = ("store", "versions", "snapshots", "chain", "files", "bytes", "findings")
    target = checkpoint.target
    found = (_store_cells(one, target, diagnose(one, checkpoint)) for one in checkpoint.stores)
    tables.print_table(columns, found)


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
