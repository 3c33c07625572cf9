"""`bootstrap`: rows that the caller gives become one more committed batch of the state."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from statemaint.cli.options import ADDRESS, POSITIVE, as_json, operator_flag, uri
from statemaint.cli.output import note, print_json, settings
from statemaint.cli.progress import work_done
from statemaint.cli.tables import Column, number, print_first, print_lines
from statemaint.cli.targets import Address
from statemaint.provider import Bootstrapped, bootstrap
from statemaint.report.to_json import fields_json
from statemaint.storage import open_storage
from statemaint.wording import command, counted

_NAMED = re.compile(r"([^/=]+)=(.+)", re.DOTALL)


@click.command("bootstrap")
@uri
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@operator_flag
@click.option(
    "--at",
    metavar="BATCH",
    type=POSITIVE,
    help="The batch that the rows become: refuse them if the query has committed others since.  "
    "[default: the one after the newest]",
)
@click.option(
    "--to",
    "dest",
    metavar="DEST",
    type=ADDRESS,
    help="Leave URI as it is, and make this empty folder, of any storage, a savepoint with the "
    "rows; the query may run.",
)
@click.option(
    "--sink-log",
    metavar="DIR",
    type=ADDRESS,
    help="The folder that the query's file sink writes to, of any storage: add the batch to the "
    "log there, without which the sink fails at its next compaction; with --to the empty folder "
    "that the query will write to.",
)
@click.option("--dry-run", is_flag=True, help="Check everything; write nothing.")
@as_json
def bootstrap_verb(
    uri: Address, files: Sequence[str], *, dest: str | None, sink_log: str | None, **options: Any
) -> None:
    """Put rows of a Parquet file into the state, or remove keys, as one more committed batch.

    FILE has the columns `key` and `value`, as `statemaint show --format parquet` writes them; a
    null `value` removes the key, and keys that FILE lacks stay as they are. For a join or
    `transformWithState` it is NAME=FILE, for each store, side or variable.

    Stop the query first, unless there is --to. The batch reads no input, and nothing that was
    committed before is rewritten. `statemaint rollback` takes it back. What the values mean is not
    checked, nor whether the query still reads the input that they stand for.

    The exit code is 6 if the query has begun a batch, or has moved on since --at.
    """
    storage, given = open_storage(uri), _given(files)
    to = open_storage(dest) if dest else None
    dest = to.root if to else None  # a query may start elsewhere
    with work_done("reading"):
        done = bootstrap(
            storage,
            given,
            to=to,
            sink=open_storage(sink_log) if sink_log else None,
            **options,
        )
    if settings().as_json:
        document = {
            "checkpoint": storage.root,
            "savepoint": dest,
            "operator": options["operator"],
            **fields_json(done, "batch version"),
            "dry_run": not done.run,
            "rows": sum(done.rows.values()),
            "partitions": [{"partition": each, "rows": rows} for each, rows in done.rows.items()],
            "stores": done.stores,
            "run": done.run or None,
        }
        print_json(document)
        return
    print_lines(_lines(done, storage.root, dest, sink_log))
    if done.rows:
        print_first(_COLUMNS, [*done.rows.items()], "partition")
    if not done.run:
        note("nothing was written; leave --dry-run away to write it")


def _given(files: Sequence[str]) -> str | dict[str, str]:
    named = [(match[1], match[2]) for file in files if (match := _NAMED.fullmatch(file))]
    if not named and len(files) == 1:
        return files[0]
    if len(named) < len(files):
        raise click.UsageError("several files need their names: NAME=FILE for each")
    if len(given := dict(named)) < len(named):
        raise click.UsageError("each name takes one file")
    return given


_COLUMNS: tuple[Column[tuple[int, int]], ...] = (
    number("partition", lambda row: str(row[0])),
    number("rows", lambda row: f"{row[1]:,}"),
)


def _lines(done: Bootstrapped, root: str, dest: str | None, sink_log: str | None) -> Iterator[str]:
    partitions = counted(len(done.rows), "partition")
    yield f"rows      {counted(sum(done.rows.values()), 'row')} in {partitions}"
    yield f"batch     {done.batch} (version {done.version}) of {dest or root}"
    yield f"files     one for each of {counted(done.stores, 'store')}, and an entry of both logs"
    if dest:
        yield f"savepoint of batch {done.batch - 1} of {root}"
    if not done.run:
        return
    yield f"run       {done.run}"
    if dest:
        yield f'start     .option("checkpointLocation", "{dest}")'
    else:
        yield f"undo      {command('rollback', root, '--to-batch', str(done.batch - 1))}"
        if sink_log:  # the sink would skip the output of a batch that its log has
            entry = f"{sink_log}/_spark_metadata/{done.batch}"
            yield f"          then delete {entry} or {entry}.compact, whichever is there"
