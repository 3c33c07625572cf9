"""`savepoint`: a checkpoint of its own from which a query continues after a batch."""

from collections.abc import Iterator
from typing import Any

import click
from rich.filesize import decimal

from statemaint.cli.messages import note
from statemaint.cli.options import (
    NUMBER,
    as_json,
    publish_flag,
    publishing,
    uri,
    workers_flag,
)
from statemaint.cli.output import print_result
from statemaint.cli.progress import work_done
from statemaint.cli.targets import Address, savepoints_of
from statemaint.errors import ConfigError
from statemaint.model.ids import version_of
from statemaint.savepoint import SavepointReport, savepoint
from statemaint.savepoint.plan import committed_batches
from statemaint.savepoint.report import note_in_record
from statemaint.storage import open_storage
from statemaint.wording import counted, moment
from statemaint.workers import Workers


@click.command("savepoint")
@uri
@click.argument("dest", metavar="[DEST]", required=False)
@click.option("--batch", type=NUMBER, help="A committed batch.  [default: the newest]")
@click.option(
    "--new-id", is_flag=True, help="Give the query that starts from it an id of its own, as a fork."
)
@click.option(
    "--sink-log",
    metavar="DIR",
    help="The empty folder that the query's file sink will write to, of any storage: write the log "
    "there without which the sink fails at its first compaction.",
)
@click.option(
    "--pin/--no-pin",
    default=True,
    help="Whether to pin the batch meanwhile, and to note the savepoint for the metrics, which "
    "takes the right to write to URI.  [default: pin]",
)
@click.option("--dry-run", is_flag=True, help="Report what would be saved; write nothing.")
@publish_flag
@workers_flag
@as_json
def savepoint_verb(  # noqa: PLR0913 -- each is a separate choice
    uri: Address,
    dest: str | None,
    *,
    batch: int | None,
    new_id: bool,
    sink_log: str | None,
    pin: bool,
    dry_run: bool,
    publish: bool,
    workers: Workers,
    as_json: bool,
) -> None:
    """Make DEST a checkpoint from which the query continues after a batch; it may run meanwhile.

    DEST has one snapshot of each store, read back and compared, and what a restart reads of the
    logs. It is an address as URI is, of any storage: an empty folder, or the same savepoint, which
    is completed if it was interrupted. No Spark starts from one that is not complete.

    For a query's name, DEST may be left out: it is the `savepoint.to` of the queries file, of the
    newest batch or that of --batch.
    """
    if dest is None:
        dest, batch = _of_queries_file(uri, batch)
    source = open_storage(uri)
    with publishing(uri, source, wanted=publish), work_done("saving"):
        report = savepoint(
            source,
            open_storage(dest),
            batch=batch,
            new_id=new_id,
            sink=open_storage(sink_log) if sink_log else None,
            pin=pin,
            dry_run=dry_run,
            workers=workers,
        )
        if pin:
            note_in_record(source, report)
    print_result(
        lambda: savepoint_json(report),
        as_json=as_json,
        table=lambda: click.echo("\n".join(_lines(report, sink_log))),
    )
    if dry_run and not as_json:
        note("nothing was written; leave --dry-run away to save it")


def _of_queries_file(uri: Address, batch: int | None) -> tuple[str, int]:
    """Returns where the queries file has the savepoint of a batch, and the batch."""
    named = savepoints_of(uri)
    if named is None:
        raise ConfigError("DEST is missing; only for a query's name the queries file may have it")
    if batch is None:
        batch = max(committed_batches(open_storage(uri)), default=0)
    name, settings = named
    return settings.address(name, batch), batch


def savepoint_json(report: SavepointReport) -> dict[str, Any]:
    saved = report.note
    return {
        "checkpoint": saved.source,
        "savepoint": report.dest,
        "batch": saved.batch,
        "version": version_of(saved.batch),
        "query_id": saved.query_id,
        "id": saved.id,
        "dry_run": report.dry_run,
        "begun": saved.begun,
        "ended": saved.ended,
        "stores": report.stores,
        "rows": None if report.dry_run else report.rows,
        "bytes_read": report.read,
        "bytes_written": report.written,
        "continued": report.continued,
        "starts": report.starts,
        "unchecked_sources": list(report.unchecked),
    }


def _lines(report: SavepointReport, sink_log: str | None) -> Iterator[str]:
    saved, stores = report.note, counted(report.stores, "store")
    yield f"savepoint {report.dest}"
    yield f"of        batch {saved.batch} (version {version_of(saved.batch)}) of {saved.source}"
    if report.unchecked:
        ids = ", ".join(report.unchecked)
        yield f"sources   {ids}: unknown whether they still have what follows batch {saved.batch}"
    if saved.ended is None:
        yield f"reads     {decimal(report.read)} of {stores}"
        return
    earlier = f", {report.continued:,} of them before" if report.continued else ""
    yield f"stores    {report.stores:,}{earlier}, each read back and equal"
    yield f"holds     {counted(report.rows, 'row')} in {decimal(report.written)}"
    took = saved.ended - saved.begun
    yield f"ended     {moment(saved.ended)} UTC, {took:.1f} s after it was begun"
    if saved.id != saved.query_id:
        yield f"id        {saved.id}, of its own"
    if sink_log:
        yield f"sink      {sink_log}, with the log that its file sink reads"
