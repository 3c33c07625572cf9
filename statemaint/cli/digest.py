"""`digest`: rows and an order-free digest of every store."""

import click

from statemaint.audit import digest_stores
from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.cli.output import show
from statemaint.report.to_json import digest_json
from statemaint.storage import open_storage


@click.command("digest")
@uri
@click.option("--version", "version", type=click.IntRange(min=1), help="Default: the newest.")
@as_json
def digest_verb(uri: str, *, version: int | None, as_json: bool) -> None:
    """Print row count and order-free digest of each store's state at a version.

    Digests are keyed by the query's id: compare those of copies of one checkpoint, not of two
    queries.
    """
    at, digests = digest_stores(open_storage(uri), version=version)
    shown = digest_json(at, digests)
    show(shown, as_json=as_json, table=lambda: tables.digests(at, digests))
