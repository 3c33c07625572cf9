"""`maintain`: one run of maintenance, and its report."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import options as flags
from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, Row, end_with_many, of_many
from statemaint.cli.output import Json, print_findings, print_result, tell
from statemaint.cli.progress import actions_done
from statemaint.cli.scan import print_plan, why_nothing_deleted
from statemaint.cli.tables import BAD, GOOD, WARNING, Column, files_of, lasting, number
from statemaint.cli.targets import Address, CheckpointName, of_queries
from statemaint.errors import ConfigError
from statemaint.maintain import maintain
from statemaint.maintain.record import recorded
from statemaint.model.checkpoint import Store
from statemaint.model.policy import Policy, duration
from statemaint.model.verdict import Looked
from statemaint.plan.actions import Request
from statemaint.plan.withheld import by_reason
from statemaint.report.outcome import StoreOutcome, StoreReport
from statemaint.report.run import Report
from statemaint.report.to_json import chain_length, fields_json, report_json, verdict_json
from statemaint.storage import open_storage
from statemaint.wording import command, counted


def _gateway(text: str) -> str:
    from statemaint.queries.checks import web_address  # noqa: PLC0415 -- loads croniter

    try:
        return web_address(text)
    except ValueError as error:
        raise ConfigError(str(error)) from None


@click.command("maintain")
@click.argument("uri", metavar="[URI]...", nargs=-1, type=CheckpointName())
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Maintain the enabled queries with this tag in the queries file; repeatable.",
)
@flags.policy_flags
@flags.scope_flags
@click.option("--dry-run", is_flag=True, help="Report what a run would do; write nothing.")
@click.option(
    "--detail",
    type=click.Choice(["query", "partition"]),
    help="Whether the run's record has each partition.  [default: the queries file's, or query]",
)
@flags.publish_flag
@click.option(
    "--push",
    metavar="URL",
    type=flags.Parsed("url", _gateway),
    help="Push the metrics of each checkpoint to a Pushgateway.",
)
@click.option("--record", is_flag=True, hidden=True, help="No effect: every run is recorded.")
@flags.workers_flag
@flags.as_json
def maintain_verb(
    uri: tuple[Address, ...], *, tags: tuple[str, ...], record: bool, **options: Any
) -> None:
    """Write snapshots for long chains, delete files that no retained version needs, and report.

    For several checkpoints, a folder or bucket of them, or the queries of a file: as many at a time
    as --workers says, within --memory together, with a row each and the exit code of the worst.
    """
    del record
    if len(uri) == 1 and not tags:
        _end_with_one(uri[0], **options)
    place, addresses, also = ", ".join(uri), uri, 0
    if tags or not uri:
        place, of_file, problems = of_queries(click.get_current_context(), tags)
        addresses, also = (*uri, *of_file), ConfigError.exit_code if problems else 0
        for problem in problems:
            tell(f"statemaint: {ConfigError.code}: {problem}")
    end_with_many(place, [*dict.fromkeys(addresses)], FLEET, options, also=also)


@of_many(lambda: FLEET)
def _end_with_one(uri: Address, **options: Any) -> NoReturn:
    with actions_done() as advance:
        report = _maintained(uri, on_outcome=advance, **options)
    end_with_report(report)


def _maintained(  # noqa: PLR0913 -- as of the verb
    uri: Address,
    *,
    policy: Callable[[Address], Policy],
    request: Request,
    dry_run: bool,
    detail: str | None,
    publish: bool,
    push: str | None,
    **options: Any,
) -> Report:
    storage, every_unit = open_storage(uri), (detail or uri.detail) == "partition"
    wanted = not dry_run and (publish or push is not None)
    with flags.publishing(uri, storage, wanted=wanted, push=push):
        work = partial(maintain, storage, policy(uri), request=request, dry_run=dry_run, **options)
        if dry_run:
            return work()
        return recorded(storage, work, every_unit=every_unit, part=request.is_partial)


def _row(uri: Address, **options: Any) -> Row:
    report = _maintained(uri, **options)
    before, after = (
        max((chain_length(store, report.plan.target) or 0 for store in stores), default=0)
        for stores in (report.before, report.after)
    )
    return {
        **verdict_json(report.verdict, Looked.NAMES),
        **fields_json(report, "run dry_run"),
        "stores": len(report.stores),
        "actions": len(report.plan.actions),
        **fields_json(report, "snapshots_written bytes_written"),
        "files_deleted": report.files_deleted.total(),
        "bytes_deleted": report.bytes_deleted,
        "longest_chain_before": before,
        "longest_chain": after,
        "seconds": round(report.seconds, 3),
    }, report.findings


def _fleet_totals(rows: Sequence[Json]) -> str:
    planned, written, deleted, size = (
        sum(row[name] for row in rows)
        for name in ("actions", "snapshots_written", "files_deleted", "bytes_deleted")
    )
    if rows and rows[0]["dry_run"]:
        return f"dry run, nothing was done: {counted(planned, 'action')} planned"
    return f"{counted(written, 'snapshot')} written, {files_of(deleted, size)} deleted"


FLEET: Fleet = Fleet(
    columns=(
        number("stores", lambda row: f"{row['stores']:,}", 3),
        number("planned", lambda row: f"{row['actions']:,}", 4),
        number("snapshots", lambda row: f"{row['snapshots_written']:,}", 2),
        number("deleted", lambda row: f"{row['files_deleted']:,}", 1),
        number("bytes", lambda row: decimal(row["bytes_deleted"])),
        number("chain", lambda row: _change((row["longest_chain_before"], row["longest_chain"]))),
    ),
    read=_row,
    order=lambda row: -row["actions"],
    totals=_fleet_totals,
    looked=lambda _: Looked.NAMES,
    doing="maintaining",
)


def end_with_report(report: Report) -> NoReturn:
    print_result(lambda: report_json(report), lambda: _print_table(report))
    print_findings(report.findings)
    sys.exit(report.exit_code)


def _print_table(report: Report) -> None:
    if report.dry_run:
        tables.print_line(f"dry run, nothing was done: {report.plan.root}", wrap=False)
        print_plan(report.plan)
        return
    tables.print_line(f"run {report.run}: {report.plan.root}", wrap=False)
    tables.print_verdict(report.verdict, Looked.NAMES)
    for line in _summary(report):
        tables.print_line(line)
    tables.print_alike(_COLUMNS, sorted(report.stores, key=_most_first), "store")
    requests = ", ".join(f"{verb} {count:,}" for verb, count in sorted(report.requests.items()))
    tables.print_line(f"storage requests: {requests}")
    for label, stores in (("before", report.before), ("after ", report.after)):
        tables.print_line(f"{label}  {_sizes([*stores], report)}")


def _sizes(stores: Sequence[Store], report: Report) -> str:
    plan, forecast = report.plan, report.forecast
    files, size = sum(len(store.files) for store in stores), sum(store.size for store in stores)
    load = forecast.load(stores, plan.target)
    read = files_of(load.total.files, load.total.bytes)
    of_part = " of these stores" if plan.request.is_partial else ""
    restart = f"a restart{of_part} reads {read}, in {forecast.seconds(load)}"
    return f"{files_of(files, size)}; {restart}"


# The worst first, as their stores.
_OUTCOMES = {StoreOutcome.HALTED: BAD, StoreOutcome.SKIPPED: WARNING, StoreOutcome.DONE: GOOD}


def _summary(report: Report) -> Iterator[str | Text]:
    deleted, trash = report.files_deleted.total(), report.plan.policy.trash_for
    what = "moved to the trash" if trash and deleted else "deleted"
    written = f"{counted(report.snapshots_written, 'snapshot')} written"
    took = f"{counted(len(report.stores), 'store')} in {lasting(report.seconds)}"
    gone = f"{files_of(deleted, report.bytes_deleted)} {what}"
    yield f"{written} ({decimal(report.bytes_written)}), {gone}, {took}"
    if report.emptied.files:
        emptied = files_of(report.emptied.files, report.emptied.bytes)
        yield f"{emptied} deleted from the trash, where they had expired"
    if trash and deleted:
        undo = command("undo", report.plan.root, report.run)
        yield f"they stay there for {duration(trash)}: {undo}"
    if not deleted and (why := why_nothing_deleted(report.plan)):
        yield f"nothing was deleted: {why}"
    yield from map(str, by_reason(report.withheld))
    if halted := sum(1 for store in report.stores if store.state is StoreOutcome.HALTED):
        yield Text(f"{counted(halted, 'store')} halted, see the findings", BAD)


def _most_first(store: StoreReport) -> tuple[object, ...]:
    added = len(store.after.files) - len(store.before.files)
    return [*_OUTCOMES].index(store.state), added, store.before.id


def _change(pair: Iterable[object]) -> str:
    before, after = ("broken" if value is None else str(value) for value in pair)
    return before if before == after else f"{before} -> {after}"


def _proof(report: StoreReport) -> str:
    proof = report.attestation
    return f"{proof.digest[:12]} at {proof.version}" if proof else ""


_COLUMNS: tuple[Column[StoreReport], ...] = (
    Column("store", lambda row: tables.short(row.before.id)),
    Column("outcome", lambda row: Text(row.state.value, _OUTCOMES[row.state])),
    number(
        "chain", lambda row: _change(chain_length(store, row.target or 0) for store in row.stores)
    ),
    number("files", lambda row: _change(len(store.files) for store in row.stores), 2),
    number("bytes", lambda row: _change(decimal(store.size) for store in row.stores), varies=True),
    number("reclaimable", lambda row: decimal(row.reclaimable), 3, varies=True),
    Column("digest", _proof, spare=4, varies=True),
)
