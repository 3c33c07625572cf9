"""`python -m statemaint.spark`: the verbs on a fleet, on its own or under `spark-submit`."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, NoReturn

import click
from rich.filesize import decimal

from statemaint import __version__
from statemaint.cli import tables
from statemaint.cli.options import DURATION, SHARE, as_json, policy_changes
from statemaint.cli.output import output_to
from statemaint.cli.savepoint import shape_flags
from statemaint.errors import ConfigError, StorageError
from statemaint.queries.reading import is_in_shard
from statemaint.records.runs import new_run_id
from statemaint.records.savepoints import Shape
from statemaint.report.run import worst_code
from statemaint.spark import api
from statemaint.spark import due as due_queries
from statemaint.spark.columns import INVENTORY, OUTCOMES, PLAN, VERIFIED
from statemaint.spark.fleet import Target, fleet_of, read_fleet
from statemaint.spark.frames import collected, frame_of, must_be_new, not_written, rows_of
from statemaint.spark.handed import carry_out
from statemaint.spark.history import History
from statemaint.spark.preflight import check_executors
from statemaint.spark.reporting import note_verifications, reporting
from statemaint.spark.session import session
from statemaint.spark.summary import QuerySummary, summaries
from statemaint.wording import counted

# Queries that a table shows; `--json` has all.
_MOST = 30
Command = Callable[..., None]
Verb = Callable[[Any, Sequence[Target]], Any]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="statemaint.spark")
def program() -> None:
    """Maintain the queries of a file on Spark, by executors.

    Exit codes are those of `statemaint`; of several queries, the first of 1, 5, 3, 2, 4, 6, 0.
    """


def _fleet_flags(command: Command) -> Command:
    for option in reversed(_FLEET):
        command = option(command)
    return as_json(command)


_due = click.option(
    "--due",
    is_flag=True,
    help="Only queries whose schedule has had a time since their last good run, by their records.",
)
_FLEET = [
    click.option(
        "--queries",
        "file",
        required=True,
        metavar="FILE",
        envvar="STATEMAINT_QUERIES",
        help=(
            "The queries file, or a folder of such files, as for Airflow.  [default: "
            "STATEMAINT_QUERIES]"
        ),
    ),
    click.option(
        "--query",
        "names",
        multiple=True,
        metavar="NAME",
        help="Only this query of the file; repeatable.",
    ),
    click.option(
        "--shard",
        metavar="I/N",
        type=SHARE,
        default="1/1",
        help=(
            "Only the Ith of N parts of the queries, the same each time, so that N programs share "
            "a file.  [default: 1/1]"
        ),
    ),
    click.option("--master", help="The master.  [default: spark-submit's, or local[*]]"),
    click.option("--remote", metavar="ADDRESS", help="A Spark Connect server instead: sc://..."),
    click.option("--output", metavar="PATH", help="Write all rows to this new Parquet dataset."),
    click.option(
        "--summary",
        metavar="FILE",
        help="Write the output to this file; spark-submit mixes it with messages.",
    ),
]


def _history_flags(command: Command) -> Command:
    """Adds the flags of a history, which the command gets as one, `history`."""

    @click.option("--history", metavar="ADDRESS", help="Add the rows to this Parquet dataset.")
    @click.option(
        "--keep-history",
        type=DURATION,
        help="Delete days of --history that ended longer ago.  [default: keep all]",
    )
    @wraps(command)
    def with_history(*, history: str | None, keep_history: float | None, **flags: Any) -> None:
        if keep_history is not None and not history:
            raise ConfigError("--keep-history has no effect without --history")
        command(history=History.at(history, keep_history) if history else None, **flags)

    return with_history


@program.command()
@_fleet_flags
def inventory(**flags: Any) -> None:
    """List stores with their chains, sizes and findings."""
    _run(api.inventory, INVENTORY, **flags)


@program.command()
@_fleet_flags
@policy_changes
@click.option("--force-snapshot", "force", is_flag=True, help="Even where chains are short.")
def plan(*, policy: Mapping[str, Any], force: bool, **flags: Any) -> None:
    """Show what maintenance would write and delete; writes nothing."""
    _run(partial(api.plan_fleet, policy=policy, force=force), PLAN, **flags)


@program.command()
@_fleet_flags
@_due
@policy_changes
@click.option("--force-snapshot", "force", is_flag=True, help="Even where chains are short.")
@click.option("--run", "run", metavar="ID", help="The run's id.  [default: a new one]")
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    help="The number of the attempt at that run; a later one ends the leases of an earlier.",
)
@_history_flags
@click.option("--wait", type=DURATION, help="How long to wait for leases that other runs hold.")
def maintain(  # noqa: PLR0913 -- the flags of the verb
    *,
    policy: Mapping[str, Any],
    force: bool,
    run: str | None,
    attempt: int | None,
    wait: float | None,
    history: History | None,
    due: bool,
    **flags: Any,
) -> None:
    """Write snapshots, delete files that no retained version needs, and report."""
    if attempt and not run:
        raise ConfigError("--attempt needs the id of its run; give it with --run")
    verb = partial(
        api.maintain_fleet,
        policy=policy,
        force=force,
        run=run,
        attempt=attempt,
        wait=wait,
        history=history,
        tell=partial(click.echo, err=True),
    )
    kind = due_queries.MAINTENANCE if due else None
    _run(verb, OUTCOMES, reports="maintain", attempt=attempt or 1, due=kind, **flags)


@program.command()
@click.argument("handed", nargs=-1, required=True, metavar="CHECKPOINT KEY ...")
@click.option("--attempt", type=click.IntRange(min=1), default=1, help="The number of the attempt.")
@click.option("--master", help="The master.  [default: spark-submit's, or local[*]]")
@click.option("--remote", metavar="ADDRESS", help="A Spark Connect server instead: sc://...")
def units(*, handed: tuple[str, ...], attempt: int, master: str | None, remote: str | None) -> None:
    """Maintain the bundles that Airflow's `plan` has handed over; Airflow runs this itself."""
    if len(handed) % 2:
        raise ConfigError("give each checkpoint followed by its key")
    pairs = list(zip(handed[::2], handed[1::2], strict=True))
    spark = session(master, remote)
    try:
        check_executors(spark, handed[::2])
        done = carry_out(spark, pairs, attempt=attempt, tell=partial(click.echo, err=True))
    finally:
        spark.stop()
    failed = sum(report.failure is not None for report in done)
    click.echo(f"{len(done)} units, {failed} failed", err=True)


@program.command()
@_fleet_flags
@click.option("--deep", is_flag=True, help="Decode every file, and compare every snapshot.")
@click.option(
    "--shares",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The number of tasks that share the partitions of a query.",
)
@_history_flags
def verify(*, deep: bool, shares: int, history: History | None, **flags: Any) -> None:
    """Check that every retained version of every store loads."""
    verb = partial(api.verify_fleet, deep=deep, shares=shares)

    def note(fleet: Sequence[Target], table: Any) -> None:
        note_verifications(fleet, rows_of(table))
        if history:
            now = time.time()
            history.add(new_run_id(now), table, now, verb="verify")

    _run(verb, VERIFIED, note=note, reports="verify", **flags)


@program.command()
@_fleet_flags
@_due
@shape_flags
@click.option("--to", metavar="ADDRESS", help="An empty folder for the savepoint of one query.")
@click.option("--pin/--no-pin", default=True, help="As for `statemaint savepoint`.")
@_history_flags
def savepoint(
    *,
    shape: Shape,
    to: str | None,
    pin: bool,
    history: History | None,
    due: bool,
    **flags: Any,
) -> None:
    """Make a savepoint of each query that has `savepoint: {to: ADDRESS}`, of its newest batch.

    In another shape it is of one query, and needs --query and --to.
    """
    tell = partial(click.echo, err=True)
    verb = partial(
        api.savepoint_fleet,
        shape=shape,
        to=to,
        pin=pin,
        history=history,
        tell=tell,
    )
    kind = due_queries.SAVEPOINTS if due else None

    def concerns(target: Target) -> bool:
        return bool(to or target.savepoint or target.mistake)

    _run(verb, OUTCOMES, reports="savepoint", concerns=concerns, due=kind, **flags)


def _run(  # noqa: PLR0913 -- the flags of every verb
    verb: Verb,
    columns: Mapping[str, str],
    *,
    file: str,
    names: tuple[str, ...],
    shard: tuple[int, int],
    master: str | None,
    remote: str | None,
    output: str | None,
    summary: str | None,
    as_json: bool,
    note: Callable[[Sequence[Target], Any], None] | None = None,
    reports: str = "",
    attempt: int = 1,
    concerns: Callable[[Target], bool] = lambda _: True,
    due: due_queries.Kind | None = None,
) -> None:
    reading = read_fleet(file)
    every, lost = _only(fleet_of(reading), names), None
    fleet = [target for target in every if is_in_shard(target.query, shard)]
    if due:
        concerned = [target for target in fleet if concerns(target)]
        fleet = due_queries.due(reading, concerned, due, time.time())
        click.echo(f"due: {len(fleet)} of {counted(len(concerned), 'query', 'queries')}", err=True)
    with output_to(summary, flag="--summary"):
        if any(map(concerns, every)) and not any(map(concerns, fleet)):
            _end([], as_json=as_json, lost=None)  # others are not due, or in other shards
        with reporting(reading, fleet, reports, attempt=attempt) as ended:
            spark = session(master, remote)
            try:
                check_executors(spark, [target.checkpoint for target in fleet])
                if output:
                    must_be_new(spark, output)
                table = collected(verb(spark, fleet), columns)
                ended(summaries(rows_of(table)))
                if note:
                    note(fleet, table)
                if output:
                    lost = not_written(frame_of(spark, table, columns), output)
            finally:
                spark.stop()
        _end(summaries(rows_of(table)), as_json=as_json, lost=lost)


def _only(fleet: Sequence[Target], names: Sequence[str]) -> Sequence[Target]:
    queries = {target.query for target in fleet}
    if unknown := sorted(set(names) - queries):
        raise ConfigError(f"the file has no enabled query {', '.join(unknown)}")
    return [target for target in fleet if target.query in names] if names else fleet


def _end(results: Sequence[QuerySummary], *, as_json: bool, lost: str | None) -> NoReturn:
    codes = [summary.exit_code for summary in results]
    code = worst_code([*codes, StorageError.exit_code] if lost else codes)
    if as_json:
        document = {"exit_code": code, "queries": [summary.to_json() for summary in results]}
        click.echo(json.dumps(document, indent=2))
    else:
        _print(results)
    for summary in results:
        for error in summary.errors[:1]:
            click.echo(f"{summary.query}: {error}", err=True)
    if lost:
        click.echo(f"statemaint.spark: {lost}", err=True)
    sys.exit(code)


def _print(results: Sequence[QuerySummary]) -> None:
    columns = ("query", "stores", "longest chain", "files", "bytes", "done", "findings", "exit")
    tables.print_table(columns, [_cells(summary) for summary in results[:_MOST]])
    if len(results) > _MOST:
        tables.print_line(f"and {len(results) - _MOST} more; --json lists them")
    stores = sum(summary.stores for summary in results)
    bad = [summary for summary in results if summary.exit_code]
    worst_of_all = f"; the worst is {bad[0].query}" if bad else ""
    whole = f"{counted(len(results), 'query', 'queries')}, {counted(stores, 'store')}"
    tables.print_line(f"{whole}, {len(bad)} with problems{worst_of_all}")


def _cells(summary: QuerySummary) -> tuple[str, ...]:
    sums = summary.sums
    done = [f"{count} {kind}" for kind, count in sorted(summary.actions.items())]
    if "snapshots_written" in sums:
        done += [f"{sums['snapshots_written']} written", f"{sums['files_deleted']} deleted"]
    if "versions_checked" in sums:
        done += [f"{counted(sums['versions_checked'], 'version')} passed"]
    return (
        summary.query,
        str(summary.stores or ""),
        "" if summary.chain is None else str(summary.chain),
        str(sums.get("files", "")),
        decimal(sums["bytes"]) if "bytes" in sums else "",
        ", ".join(done),
        " ".join(sorted(summary.codes)),
        str(summary.exit_code),
    )
