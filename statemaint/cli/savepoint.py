"""`savepoint`: a checkpoint from which a query continues; `savepoints` lists and deletes them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from functools import wraps
from operator import attrgetter
from tempfile import gettempdir
from typing import Any

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import options as flags
from statemaint.cli import tables
from statemaint.cli.output import Json, note, print_json, print_lines, settings
from statemaint.cli.progress import work_done
from statemaint.cli.tables import BAD, Column, number, print_table, rows_of
from statemaint.cli.targets import Address, CheckpointName, savepoints_of
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.errors import CheckpointError, ConfigError
from statemaint.model.ids import version_of
from statemaint.records.savepoints import PROVIDERS, Shape
from statemaint.report.to_json import fields_json
from statemaint.savepoint import SavepointReport, savepoint
from statemaint.savepoint.catalog import BROKEN, Savepoint, list_savepoints, problems
from statemaint.savepoint.expiry import without_expired
from statemaint.savepoint.keep import RULES, KeepRules, decide, parse_rules
from statemaint.savepoint.plan import committed_batches
from statemaint.savepoint.report import OperatorForecast, note_in_record
from statemaint.storage import open_storage
from statemaint.wording import counted, moment, printable


def shape_flags(command: flags.Command) -> flags.Command:
    """Adds the flags of another shape, and passes the verb one `shape`."""

    @click.option(
        "--partitions", type=flags.NUMBER, metavar="M", help="Another number of partitions."
    )
    @click.option("--provider", type=click.Choice([*PROVIDERS]), help="Another state store.")
    @click.option("--ids", type=click.Choice(["v1", "v2"]), help="With unique ids (v2) or without.")
    @click.option("--codec", type=click.Choice([*COMPRESSIONS]), help="Another compression.")
    @click.option("--row-checksums/--no-row-checksums", default=None, help="Rows with checksums.")
    @wraps(command)
    def with_shape(**given: Any) -> None:
        chosen = {field.name: given.pop(field.name) for field in fields(Shape)}
        provider = PROVIDERS[chosen["provider"]] if chosen["provider"] else None
        command(shape=Shape(**{**chosen, "provider": provider}), **given)

    return with_shape


@click.command("savepoint")
@flags.uri
@click.argument("dest", metavar="[DEST]", required=False)
@click.option("--batch", type=flags.NUMBER, help="A committed batch.  [default: the newest]")
@click.option(
    "--new-id", is_flag=True, help="Give the query that starts from it an id of its own, as a fork."
)
@click.option(
    "--sink-log",
    metavar="DIR",
    type=flags.ADDRESS,
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
    type=flags.SIZE,
    metavar="SIZE",
    help="With --dry-run, suggest the number of partitions that have so many bytes of rows on "
    "average, such as 200MB; it reads the whole state.",
)
@flags.publish_flag
@flags.workers_flag
@flags.as_json
def savepoint_verb(
    uri: Address,
    dest: str | None,
    *,
    batch: int | None,
    sink_log: str | None,
    partition_size: int | None,
    publish: bool,
    **options: Any,
) -> None:
    """Make DEST a checkpoint from which the query continues after a batch; it may run meanwhile.

    DEST has one snapshot of each store, read back and compared, and what a restart reads of the
    logs. It is an address as URI is, of any storage: an empty folder, or the same savepoint, which
    is completed if it was interrupted. No Spark starts from one that is not complete.

    For a query's name, DEST may be left out: it is the `savepoint.to` of the queries file, of the
    newest batch or that of --batch.
    """
    if partition_size and not options["dry_run"]:
        raise ConfigError("--partition-size is of a --dry-run: it only suggests a number")
    if dest is None:
        dest, batch = _of_queries_file(uri, batch)
    source = open_storage(uri)
    wanted = publish and not options["dry_run"]
    with flags.publishing(uri, source, wanted=wanted), work_done("saving"):
        report = savepoint(
            source,
            open_storage(dest),
            batch=batch,
            sink=open_storage(sink_log) if sink_log else None,
            count_rows=partition_size is not None,
            **options,
        )
        if options["pin"]:
            note_in_record(source, report)
    if settings().as_json:
        print_json(savepoint_json(report, partition_size))
        return
    click.echo("\n".join(_lines(report, sink_log)))
    if report.operators:
        print_table(_COLUMNS, rows_of(_COLUMNS, report.operators))
    if partition_size:
        count, size = report.partitions_of(partition_size), decimal(partition_size)
        click.echo(f"for {size} of rows in a partition on average: --partitions {count}")
    if report.dry_run:
        note("nothing was written; leave --dry-run away to save it")


def _of_queries_file(uri: Address, batch: int | None) -> tuple[str, int]:
    """Returns where the queries file has the savepoint of a batch, and the batch."""
    named = savepoints_of(uri)
    if named is None:
        raise ConfigError("DEST is missing; only for a query's name the queries file may have it")
    if batch is None:
        batch = max(committed_batches(open_storage(uri)), default=0)
    name, of_query = named
    return of_query.address(name, batch), batch


def savepoint_json(report: SavepointReport, partition_size: int | None = None) -> Json:
    saved = report.note
    return {
        "checkpoint": saved.source,
        "savepoint": report.dest,
        "batch": saved.batch,
        "version": version_of(saved.batch),
        **fields_json(saved, "query_id id"),
        "dry_run": report.dry_run,
        "before": asdict(saved.before),
        "after": asdict(saved.after),
        "code": list(report.code),
        **fields_json(saved, "begun ended"),
        "stores": report.stores,
        "rows": None if report.dry_run else report.rows,
        "bytes_read": report.read,
        "bytes_written": report.written,
        **fields_json(report, "continued starts"),
        "unchecked_sources": list(report.unchecked),
        "operators": [asdict(operator) for operator in report.operators],
        "suggested_partitions": partition_size and report.partitions_of(partition_size),
    }


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
    if saved.forked:
        yield f"id        {saved.id}, of its own"
    if sink_log:
        yield f"sink      {sink_log}, with the log that its file sink reads"
    if saved.changes:
        yield "start     by this code; Spark takes other settings from the savepoint's offset log:"
        yield from (f"          {line}" for line in report.code)


def _takes(operators: Sequence[OperatorForecast]) -> Iterator[str]:
    rows, size, spill = (sum(map(attrgetter(key), operators)) for key in ("rows", "bytes", "spill"))
    yield f"counted   {counted(rows, 'row')} in {decimal(size)}, by a read of the whole state"
    if memory := max(operator.memory for operator in operators):
        place = f", and {decimal(spill)} in {gettempdir()}" if spill else ""
        yield f"takes     at most {decimal(memory)} of memory for the rows of a store{place}"


_DAY = 86400.0


@click.command("savepoints")
@click.argument("uri", metavar="DEST", type=CheckpointName())
@click.option(
    "--keep",
    type=flags.Parsed("rules", parse_rules),
    metavar="RULES",
    help="What to keep of each query, such as last=7,weekly=4; daily and monthly as well.",
)
@click.option(
    "--delete", is_flag=True, help="Delete the others; without this flag nothing is deleted."
)
@flags.as_json
def savepoints_verb(uri: Address, *, keep: KeepRules | None, delete: bool) -> None:
    """List the savepoints below a folder, up to three folders deep, and which of them expire.

    DEST is the folder's address, or the name of a query in the queries file: then these are the
    savepoints of its checkpoint in the folder of its `savepoint.to`, and its `savepoint.keep`
    counts if there is no --keep.

    With --keep, show which savepoints the rules keep. `last` keeps the newest ones; `daily`,
    `weekly` and `monthly` keep the newest of each day, week and month (UTC). Kept in any case are
    the newest whole one of each query, one that may be being written, one from which a query has
    run, and one that is damaged or cannot be read.

    With --delete, delete the others: of each the files that its record names, and its record. Other
    files stay and are reported, with exit code 3; so is a savepoint that is damaged. A deletion
    that was killed leaves none that a query could start from, and is completed by the next.
    """
    dest, source = str(uri), None
    if named := savepoints_of(uri):
        name, of_query = named
        dest, source = of_query.folder(name), open_storage(uri).root
        keep = keep or {str(rule): count for rule, count in (of_query.keep or {}).items()}
    if delete and not keep:
        raise ConfigError("--delete needs --keep: say what to keep, such as --keep last=7,weekly=4")
    now = open_storage(dest).now()
    with work_done("reading"):
        savepoints = list_savepoints(dest, source=source)
    if keep:
        savepoints = decide(savepoints, keep, now)
    if delete:
        savepoints = without_expired(savepoints, dest)
    if settings().as_json:
        rules = {rule: keep.get(rule, 0) for rule in RULES} if keep else None
        listed = [_savepoint_json(savepoint, now) for savepoint in savepoints]
        print_json({"folder": dest, "keep": rules, "savepoints": listed})
    else:
        _print_table(dest, savepoints, now)
    wrong = [*problems(savepoints)]
    print_lines(wrong)
    sys.exit(CheckpointError.exit_code if wrong else 0)


def _savepoint_json(savepoint: Savepoint, now: float) -> Json:
    of_note = ("source", "query_id", "id", "batch", "begun", "ended")
    ended = savepoint.note.ended if savepoint.note else None
    return {
        "address": savepoint.address,
        "state": savepoint.state.value,
        "why": savepoint.why,
        **{field: getattr(savepoint.note, field, None) for field in of_note},
        "age": None if ended is None else now - ended,
        "files": len(savepoint.entries),
        "bytes": savepoint.bytes,
        "unknown_files": len(savepoint.unknown),
        "changes": list(savepoint.note.changes) if savepoint.note else [],
        "kept": savepoint.kept,
        "deleted": savepoint.left == (),
        "left": savepoint.left or (),
    }


def _print_table(dest: str, savepoints: Sequence[Savepoint], now: float) -> None:
    if not savepoints:
        tables.print_line(f"{dest}: no savepoint in this folder, up to three folders deep")
        return
    size = decimal(sum(savepoint.bytes for savepoint in savepoints))
    tables.print_line(f"{dest}: {counted(len(savepoints), 'savepoint')} ({size})", wrap=False)
    folder = f"{dest.rstrip('/')}/"
    columns: tuple[Column[Savepoint], ...] = (
        Column("savepoint", lambda row: printable(row.address.removeprefix(folder))),
        number("batch", lambda row: str(row.note.batch) if row.note else "", 1),
        Column("ended (UTC)", lambda row: _of_end(row, moment), spare=3),
        number("days", lambda row: _of_end(row, lambda ended: f"{(now - ended) / _DAY:.1f}")),
        number("bytes", lambda row: decimal(row.bytes), 2),
        Column("state", _state),
        Column("kept as", _kept),
    )
    tables.print_first(columns, savepoints, "savepoint", most=60)
    if deleted := [savepoint for savepoint in savepoints if savepoint.left is not None]:
        gone = [entry for savepoint in deleted for entry in savepoint.named]
        files = tables.files_of(len(gone), sum(entry.size for entry in gone))
        tables.print_line(f"deleted {counted(len(deleted), 'savepoint')}: {files}")
    elif due := [savepoint for savepoint in savepoints if savepoint.kept == ()]:
        freed = decimal(sum(savepoint.bytes for savepoint in due))
        what = f"{counted(len(due), 'savepoint')} would be deleted ({freed})"
        tables.print_line(f"{what}: --delete deletes them")


def _of_end(savepoint: Savepoint, shown: Callable[[float], str]) -> str:
    ended = savepoint.note.ended if savepoint.note else None
    return "" if ended is None else shown(ended)


def _state(savepoint: Savepoint) -> str | Text:
    state, changes = savepoint.state.value, savepoint.note.changes if savepoint.note else ()
    return Text(state, BAD) if savepoint.state in BROKEN else ", ".join((state, *changes))


def _kept(savepoint: Savepoint) -> str:
    if savepoint.left is not None:
        return "deleted in part" if savepoint.left else "deleted"
    return "" if savepoint.kept is None else " ".join(savepoint.kept) or "expires"
