"""`digest`: the row count and an order-independent digest of every store."""

from collections.abc import Iterable

import click

from statemaint.audit import digest_stores
from statemaint.cli import tables
from statemaint.cli.options import as_json_or_lines, uri, workers_flag
from statemaint.cli.output import Json, print_result
from statemaint.cli.progress import work_done
from statemaint.cli.settings import settings
from statemaint.cli.tables import Column, number
from statemaint.codec.integrity.digest import StateDigest
from statemaint.model.ids import StoreId
from statemaint.report.to_json import id_json
from statemaint.storage import open_storage
from statemaint.wording import counted
from statemaint.workers import Workers


@click.command("digest")
@uri
@click.option("--version", "version", type=click.IntRange(min=1), help="Default: the newest.")
@workers_flag
@as_json_or_lines
def digest_verb(uri: str, *, version: int | None, workers: Workers, as_json: bool) -> None:
    """Print the row count and an order-independent digest of each store at a version.

    Digests are keyed with the query's id: compare them between copies of one checkpoint, not
    between queries.
    """
    storage = open_storage(uri)
    with work_done("reading"):
        at, digests = digest_stores(storage, version=version, workers=workers)
    print_result(
        lambda: digest_json(at, digests),
        as_json=as_json,
        table=lambda: _print_table(at, digests),
        checkpoint=storage.root,
        lines="stores",
    )


def digest_json(version: int, digests: Iterable[tuple[StoreId, StateDigest]]) -> Json:
    """Returns the output of `digest --json`."""
    stores = [{**id_json(store), "rows": one.rows, "digest": one.digest} for store, one in digests]
    return {"version": version, "stores": stores}


def _print_table(version: int, digests: Iterable[tuple[StoreId, StateDigest]]) -> None:
    ordered = [*digests]
    if len(ordered) > tables.MOST_ROWS and not settings().everything:
        ordered.sort(key=lambda one: -one[1].rows)  # the largest are shown
    rows = [(tables.short(store), f"{one.rows:,}", one.digest) for store, one in ordered]
    total = sum(one.rows for _, one in ordered)
    tables.print_line(
        f"version {version}: {counted(total, 'row')} in {counted(len(ordered), 'store')}"
    )
    tables.print_first((Column("store"), number("rows"), Column("digest")), rows, "store")
