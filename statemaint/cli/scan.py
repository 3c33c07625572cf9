"""`scan`: what is in a checkpoint."""

import click

from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.cli.output import end, show
from statemaint.plan import diagnose
from statemaint.planning import scan_checkpoint
from statemaint.report.to_json import scan_json
from statemaint.storage import open_storage


@click.command("scan")
@uri
@as_json
def scan_verb(uri: str, *, as_json: bool) -> None:
    """Show what is there: operators, partitions, stores, chains, sizes."""
    checkpoint = scan_checkpoint(open_storage(uri))
    show(scan_json(checkpoint), as_json=as_json, table=lambda: tables.scan(checkpoint))
    stores = (one for store in checkpoint.stores for one in diagnose(store, checkpoint))
    end((*checkpoint.findings, *stores))
