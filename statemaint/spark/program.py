"""`python -m statemaint.spark`: the verbs on a fleet, on its own or under `spark-submit`."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import Any, NoReturn

import click
from rich.filesize import decimal

from statemaint import __version__
from statemaint.cli import tables
from statemaint.cli.options import DURATION, SHARE, as_json, policy_changes, with_options
from statemaint.cli.output import output_to
from statemaint.cli.savepoint import shape_flags
from statemaint.errors import ConfigError, StorageError
from statemaint.queries.reading import is_in_shard
from statemaint.records.runs import new_run_id
from statemaint.report.run import worst_code
from statemaint.spark import api, frames
from statemaint.spark.engine import carry_out
from statemaint.spark.fleet import Target, due_queries, fleet_of, read_fleet
from statemaint.spark.history import History
from statemaint.spark.outcomes import QuerySummary, summaries
from statemaint.spark.reporting import note_verifications, reporting
from statemaint.spark.session import check_executors, session
from statemaint.wording import counted

# Queries that a table shows; `--json` has all.
_MOST = 30
_tell = partial(click.echo, err=True)
Command = Callable[..., None]
Verb = Callable[[Any, Sequence[Target]], Any]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="statemaint.spark")
def program() -> None:
    """Maintain the queries of a file on Spark, by executors.

    Exit codes are those of `statemaint`; of several queries, the first of 1, 5, 3, 2, 4, 6, 0.
    """


_master = click.option("--master", help="The master.  [default: spark-submit's, or local[*]]")
_remote = click.option(
    "--remote", metavar="ADDRESS", help="A Spark Connect server instead: sc://..."
)
_due = click.option(
    "--due",
    is_flag=True,
    help="Only queries whose schedule has had a time since their last good run, by their records.",
)
_force = click.option(
    "--force-snapshot", "force", is_flag=True, help="Even where chains are short."
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
    _master,
    _remote,
    click.option("--output", metavar="PATH", help="Write all rows to this new Parquet dataset."),
    click.option(
        "--summary",
        metavar="FILE",
        help="Write the output to this file; spark-submit mixes it with messages.",
    ),
]


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags of every verb on a fleet."""

    file: str
    names: tuple[str, ...]
    shard: tuple[int, int]
    master: str | None
    remote: str | None
    output: str | None
    summary: str | None
    as_json: bool


def _fleet_flags(command: Command) -> Command:
    @wraps(command)
    def with_flags(**flags: Any) -> None:
        of_fleet = {field.name: flags.pop(field.name) for field in fields(_Flags)}
        command(flags=_Flags(**of_fleet), **flags)

    return as_json(with_options(with_flags, _FLEET))


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
def inventory(*, flags: _Flags) -> None:
    """List stores with their chains, sizes and findings."""
    _run(api.inventory, frames.INVENTORY, flags)


@program.command()
@_fleet_flags
@policy_changes
@_force
def plan(*, flags: _Flags, **choices: Any) -> None:
    """Show what maintenance would write and delete; writes nothing."""
    _run(partial(api.plan_fleet, **choices), frames.PLAN, flags)


@program.command()
@_fleet_flags
@_due
@policy_changes
@_force
@click.option("--run", "run", metavar="ID", help="The run's id.  [default: a new one]")
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    help="The number of the attempt at that run; a later one ends the leases of an earlier.",
)
@_history_flags
@click.option("--wait", type=DURATION, help="How long to wait for leases that other runs hold.")
def maintain(
    *, flags: _Flags, run: str | None, attempt: int | None, due: bool, **choices: Any
) -> None:
    """Write snapshots, delete files that no retained version needs, and report."""
    if attempt and not run:
        raise ConfigError("--attempt needs the id of its run; give it with --run")
    verb = partial(api.maintain_fleet, run=run, attempt=attempt, tell=_tell, **choices)
    _run(verb, frames.OUTCOMES, flags, reports="maintain", attempt=attempt or 1, due=due)


@program.command()
@click.argument("handed", nargs=-1, required=True, metavar="CHECKPOINT KEY ...")
@click.option("--attempt", type=click.IntRange(min=1), default=1, help="The number of the attempt.")
@_master
@_remote
def units(*, handed: tuple[str, ...], attempt: int, master: str | None, remote: str | None) -> None:
    """Maintain the bundles that Airflow's `plan` has handed over; Airflow runs this itself."""
    if len(handed) % 2:
        raise ConfigError("give each checkpoint followed by its key")
    pairs = list(zip(handed[::2], handed[1::2], strict=True))
    spark = session(master, remote)
    try:
        check_executors(spark, handed[::2])
        done = carry_out(spark, pairs, attempt=attempt, tell=_tell)
    finally:
        spark.stop()
    failed = sum(report.failure is not None for report in done)
    _tell(f"{len(done)} units, {failed} failed")


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
def verify(*, flags: _Flags, history: History | None, **choices: Any) -> None:
    """Check that every retained version of every store loads."""

    def note(fleet: Sequence[Target], table: Any) -> None:
        note_verifications(fleet, frames.rows_of(table))
        if history:
            now = time.time()
            history.add(new_run_id(now), table, now, verb="verify")

    verb = partial(api.verify_fleet, **choices)
    _run(verb, frames.VERIFIED, flags, note=note, reports="verify")


@program.command()
@_fleet_flags
@_due
@shape_flags
@click.option("--to", metavar="ADDRESS", help="An empty folder for the savepoint of one query.")
@click.option("--pin/--no-pin", default=True, help="As for `statemaint savepoint`.")
@_history_flags
def savepoint(*, flags: _Flags, to: str | None, due: bool, **choices: Any) -> None:
    """Make a savepoint of each query that has `savepoint: {to: ADDRESS}`, of its newest batch.

    In another shape it is of one query, and needs --query and --to.
    """

    def concerns(target: Target) -> bool:
        return bool(to or target.savepoint or target.mistake)

    verb = partial(api.savepoint_fleet, to=to, tell=_tell, **choices)
    _run(verb, frames.OUTCOMES, flags, reports="savepoint", concerns=concerns, due=due)


def _run(  # noqa: PLR0913 -- what differs between the verbs
    verb: Verb,
    columns: Mapping[str, str],
    flags: _Flags,
    *,
    note: Callable[[Sequence[Target], Any], None] | None = None,
    reports: str = "",
    attempt: int = 1,
    concerns: Callable[[Target], bool] = lambda _: True,
    due: bool = False,
) -> None:
    reading = read_fleet(flags.file)
    every, lost = _only(fleet_of(reading), flags.names), None
    concerned = [target for target in every if concerns(target)]
    fleet = [target for target in concerned if is_in_shard(target.query, flags.shard)]
    if due:
        of_shard = counted(len(fleet), "query", "queries")
        fleet = due_queries(reading, fleet, reports, time.time())
        _tell(f"due: {len(fleet)} of {of_shard}")
    with output_to(flags.summary, flag="--summary"):
        if concerned and not fleet:
            _end([], as_json=flags.as_json)  # others are not due, or in other shards
        with reporting(reading, fleet, reports, attempt=attempt) as ended:
            spark = session(flags.master, flags.remote)
            try:
                check_executors(spark, [target.checkpoint for target in fleet])
                if flags.output:
                    frames.must_be_new(spark, flags.output)
                table = frames.collected(verb(spark, fleet), columns)
                results = summaries(frames.rows_of(table))
                ended(results)
                if note:
                    note(fleet, table)
                if flags.output:
                    frame = frames.frame_of(spark, table, columns)
                    lost = frames.not_written(frame, flags.output)
            finally:
                spark.stop()
        _end(results, as_json=flags.as_json, lost=lost)


def _only(fleet: Sequence[Target], names: Sequence[str]) -> Sequence[Target]:
    queries = {target.query for target in fleet}
    if unknown := sorted(set(names) - queries):
        raise ConfigError(f"the file has no enabled query {', '.join(unknown)}")
    return [target for target in fleet if target.query in names] if names else fleet


def _end(results: Sequence[QuerySummary], *, as_json: bool, lost: str | None = None) -> NoReturn:
    codes = [summary.exit_code for summary in results]
    code = worst_code([*codes, StorageError.exit_code] if lost else codes)
    if as_json:
        document = {"exit_code": code, "queries": [summary.to_json() for summary in results]}
        click.echo(json.dumps(document, indent=2))
    else:
        _print(results)
    for summary in results:
        for error in summary.errors[:1]:
            _tell(f"{summary.query}: {error}")
    if lost:
        _tell(f"statemaint.spark: {lost}")
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
