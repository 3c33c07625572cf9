"""`savepoint`: a checkpoint of its own from which a query continues after a batch."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import wraps
from operator import attrgetter
from tempfile import gettempdir
from typing import Any

import click
from rich.filesize import decimal

from statemaint.cli.messages import note
from statemaint.cli.options import (
    NUMBER,
    SIZE,
    Command,
    as_json,
    publish_flag,
    publishing,
    uri,
    workers_flag,
)
from statemaint.cli.output import print_result
from statemaint.cli.progress import work_done
from statemaint.cli.tables import Column, number, print_table, rows_of
from statemaint.cli.targets import Address, savepoints_of
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.errors import ConfigError
from statemaint.model.ids import version_of
from statemaint.records.savepoints import PROVIDERS, Shape
from statemaint.savepoint import SavepointReport, savepoint
from statemaint.savepoint.plan import committed_batches
from statemaint.savepoint.report import OperatorForecast, note_in_record
from statemaint.storage import open_storage
from statemaint.wording import counted, moment


def shape_flags(command: Command) -> Command:
    """Adds the flags of another shape, and passes the verb one `shape`."""

    @click.option("--partitions", type=NUMBER, metavar="M", help="Another number of partitions.")
    @click.option("--provider", type=click.Choice([*PROVIDERS]), help="Another state store.")
    @click.option("--ids", type=click.Choice(["v1", "v2"]), help="With unique ids (v2) or without.")
    @click.option("--codec", type=click.Choice([*COMPRESSIONS]), help="Another compression.")
    @click.option("--row-checksums/--no-row-checksums", default=None, help="Rows with checksums.")
    @wraps(command)
    def with_shape(*, provider: str | None, **given: Any) -> None:
        chosen = {one.name: given.pop(one.name) for one in fields(Shape) if one.name != "provider"}
        command(shape=Shape(provider=PROVIDERS[provider] if provider else None, **chosen), **given)

    return with_shape


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
@shape_flags
@click.option(
    "--pin/--no-pin",
    default=True,
    help="Whether to pin the batch meanwhile, and to note the savepoint for the metrics, which "
    "takes the right to write to URI.  [default: pin]",
)
@click.option("--dry-run", is_flag=True, help="Report what would be saved; write nothing.")
@click.option(
    "--partition-size",
    type=SIZE,
    metavar="SIZE",
    help="With --dry-run, suggest the number of partitions that have so many bytes of rows on "
    "average, such as 200MB; it reads the whole state.",
)
@publish_flag
@workers_flag
@as_json
def savepoint_verb(  # noqa: PLR0913 -- each is a separate choice
    uri: Address,
    dest: str | None,
    *,
    batch: int | None,
    sink_log: str | None,
    pin: bool,
    dry_run: bool,
    partition_size: int | None,
    publish: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make DEST a checkpoint from which the query continues after a batch; it may run meanwhile.

    DEST has one snapshot of each store, read back and compared, and what a restart reads of the
    logs. It is an address as URI is, of any storage: an empty folder, or the same savepoint, which
    is completed if it was interrupted. No Spark starts from one that is not complete.

    For a query's name, DEST may be left out: it is the `savepoint.to` of the queries file, of the
    newest batch or that of --batch.
    """
    if partition_size and not dry_run:
        raise ConfigError("--partition-size is of a --dry-run: it only suggests a number")
    if dest is None:
        dest, batch = _of_queries_file(uri, batch)
    source = open_storage(uri)
    with publishing(uri, source, wanted=publish), work_done("saving"):
        report = savepoint(
            source,
            open_storage(dest),
            batch=batch,
            sink=open_storage(sink_log) if sink_log else None,
            pin=pin,
            dry_run=dry_run,
            count_rows=partition_size is not None,
            **options,
        )
        if pin:
            note_in_record(source, report)
    print_result(
        lambda: savepoint_json(report, partition_size),
        as_json=as_json,
        table=lambda: _print(report, sink_log, partition_size),
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


def savepoint_json(report: SavepointReport, partition_size: int | None = None) -> dict[str, Any]:
    saved = report.note
    return {
        "checkpoint": saved.source,
        "savepoint": report.dest,
        "batch": saved.batch,
        "version": version_of(saved.batch),
        "query_id": saved.query_id,
        "id": saved.id,
        "dry_run": report.dry_run,
        "before": asdict(saved.before),
        "after": asdict(saved.after),
        "code": list(report.code),
        "begun": saved.begun,
        "ended": saved.ended,
        "stores": report.stores,
        "rows": None if report.dry_run else report.rows,
        "bytes_read": report.read,
        "bytes_written": report.written,
        "continued": report.continued,
        "starts": report.starts,
        "unchecked_sources": list(report.unchecked),
        "operators": [asdict(one) for one in report.operators],
        "suggested_partitions": partition_size and report.partitions_of(partition_size),
    }


def _print(report: SavepointReport, sink_log: str | None, partition_size: int | None) -> None:
    click.echo("\n".join(_lines(report, sink_log)))
    if report.operators:
        print_table(_COLUMNS, rows_of(_COLUMNS, report.operators))
    if partition_size:
        count, size = report.partitions_of(partition_size), decimal(partition_size)
        click.echo(f"for {size} of rows in a partition on average: --partitions {count}")


def _changed(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} to {after}"


_COLUMNS: tuple[Column[OperatorForecast], ...] = (
    Column("operator", lambda of: str(of.operator)),
    number("rows", lambda of: f"{of.rows:,}", 1),
    number("bytes", lambda of: decimal(of.bytes)),
    number("stores", lambda of: str(of.stores), 2),
    number("partitions", lambda of: _changed(of.before.partitions, of.after.partitions)),
    number("largest", lambda of: _changed(decimal(of.before.largest), decimal(of.after.largest))),
    number("median", lambda of: _changed(decimal(of.before.median), decimal(of.after.median))),
)


def _lines(report: SavepointReport, sink_log: str | None) -> Iterator[str]:
    saved, stores = report.note, counted(report.stores, "store")
    yield f"savepoint {report.dest}"
    yield f"of        batch {saved.batch} (version {version_of(saved.batch)}) of {saved.source}"
    if saved.changes:
        yield f"changes   {', '.join(saved.changes)}"
    if report.unchecked:
        ids = ", ".join(report.unchecked)
        yield f"sources   {ids}: unknown whether they still have what follows batch {saved.batch}"
    if saved.ended is None:
        yield f"reads     {decimal(report.read)} for {stores}"
        if report.operators:
            yield from _takes(report.operators)
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
    if saved.changes:
        yield "start     by this code; Spark takes other settings from the savepoint's offset log:"
        yield from (f"          {line}" for line in report.code)


def _takes(operators: Sequence[OperatorForecast]) -> Iterator[str]:
    rows, size, spill = (sum(map(attrgetter(one), operators)) for one in ("rows", "bytes", "spill"))
    yield f"counted   {counted(rows, 'row')} in {decimal(size)}, by a read of the whole state"
    if memory := max(one.memory for one in operators):
        place = f", and {decimal(spill)} in {gettempdir()}" if spill else ""
        yield f"takes     at most {decimal(memory)} of memory for the rows of a store{place}"
