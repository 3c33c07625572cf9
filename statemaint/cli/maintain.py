"""`maintain`: one run of maintenance, and its report."""

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NoReturn

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.options import (
    as_json,
    policy_flags,
    publish_flag,
    publishing,
    scope_flags,
    uri,
    workers_flag,
)
from statemaint.cli.output import print_findings, print_result
from statemaint.cli.plan import print_plan, why_nothing_deleted
from statemaint.cli.progress import actions_done
from statemaint.cli.tables import BAD, GOOD, WARNING, Column, files_of, lasting, number
from statemaint.cli.targets import Address
from statemaint.maintain import maintain
from statemaint.maintain.record import recorded
from statemaint.model.policy import Policy, duration
from statemaint.plan.actions import Request
from statemaint.plan.withheld import by_reason
from statemaint.report.outcome import Report, StoreOutcome, StoreReport
from statemaint.report.to_json import chain_length, report_json
from statemaint.storage import open_storage
from statemaint.wording import command, counted
from statemaint.workers import Workers


@click.command("maintain")
@uri
@policy_flags
@scope_flags
@click.option("--dry-run", is_flag=True, help="Report what a run would do; write nothing.")
@click.option(
    "--detail",
    type=click.Choice(["query", "partition"]),
    help="Whether the run's record has each partition.  [default: the queries file's, or query]",
)
@publish_flag
@click.option("--record", is_flag=True, hidden=True, help="No effect: every run is recorded.")
@workers_flag
@as_json
def maintain_verb(  # noqa: PLR0913 -- each is a separate choice
    uri: Address,
    *,
    policy: Policy,
    request: Request,
    dry_run: bool,
    detail: str | None,
    publish: bool,
    record: bool,
    workers: Workers,
    as_json: bool,
) -> None:
    """Write snapshots for long chains, delete files that no retained version needs, and report."""
    del record
    storage, every_unit = open_storage(uri), (detail or uri.detail) == "partition"
    wanted = publish and not dry_run
    with publishing(uri, storage, wanted=wanted), actions_done() as advance:
        work = partial(
            maintain, storage, policy, request=request, dry_run=dry_run, workers=workers,
            on_outcome=advance,
        )  # fmt: skip
        if dry_run:
            report = work()
        else:
            part = request.is_partial
            report = recorded(storage, work, every_unit=every_unit, part=part)
    end_with_report(report, as_json=as_json)


def end_with_report(report: Report, *, as_json: bool) -> NoReturn:
    print_result(lambda: report_json(report), as_json=as_json, table=lambda: _print_table(report))
    print_findings(report.findings)
    sys.exit(report.exit_code)


def _print_table(report: Report) -> None:
    if report.dry_run:
        tables.print_line(f"dry run, nothing was done: {report.plan.root}", wrap=False)
        print_plan(report.plan)
    else:
        tables.print_line(f"run {report.run}: {report.plan.root}", wrap=False)
        _print_run(report)


def _print_run(report: Report) -> None:
    for line in _summary(report):
        tables.print_line(line)
    stores = sorted(report.stores, key=_most_first)
    tables.print_first(_COLUMNS, [_report_cells(one) for one in stores], "store")
    requests = ", ".join(f"{verb} {count:,}" for verb, count in sorted(report.requests.items()))
    tables.print_line(f"storage requests: {requests}")


_COLUMNS = (
    Column("store"),
    Column("outcome"),
    number("chain"),
    number("files", 2),
    number("bytes"),
    number("reclaimable", 3),
    Column("digest", spare=4),
)
_OUTCOMES = {StoreOutcome.DONE: GOOD, StoreOutcome.SKIPPED: WARNING, StoreOutcome.HALTED: BAD}


def _summary(report: Report) -> Iterator[str | Text]:
    deleted = report.files_deleted.total()
    trash = report.plan.policy.trash_for
    what = "moved to the trash" if trash and deleted else "deleted"
    yield (
        f"{counted(report.snapshots_written, 'snapshot')} written "
        f"({decimal(report.bytes_written)}), "
        f"{files_of(deleted, report.bytes_deleted)} {what}, "
        f"{counted(len(report.stores), 'store')} in {lasting(report.seconds)}"
    )
    if report.emptied.files:
        emptied = files_of(report.emptied.files, report.emptied.bytes)
        yield f"{emptied} deleted from the trash, where they had expired"
    if trash and deleted:
        yield (
            f"they stay there for {duration(trash)}: "
            f"{command('undo', report.plan.root, report.run)}"
        )
    if not deleted and (why := why_nothing_deleted(report.plan)):
        yield f"nothing was deleted: {why}"
    yield from map(str, by_reason(report.withheld))
    halted = sum(1 for one in report.stores if one.state is StoreOutcome.HALTED)
    if halted:
        yield Text(f"{counted(halted, 'store')} halted, see the findings", BAD)


def _most_first(store: StoreReport) -> tuple[object, ...]:
    rank = (StoreOutcome.HALTED, StoreOutcome.SKIPPED, StoreOutcome.DONE).index(store.state)
    deleted = len(store.before.files) - len(store.after.files)
    return rank, -deleted, store.before.id


def _report_cells(store: StoreReport) -> tuple[str | Text, ...]:
    lengths = [chain_length(one, store.target) for one in (store.before, store.after)]
    chain, files = _change(lengths), _change([len(store.before.files), len(store.after.files)])
    sizes = [sum(file.entry.size for file in one.files) for one in (store.before, store.after)]
    proof = store.attestation
    return (
        tables.short(store.before.id),
        Text(store.state.value, _OUTCOMES[store.state]),
        chain,
        files,
        _change([decimal(size) for size in sizes]),
        decimal(store.reclaimable),
        f"{proof.digest[:12]} at {proof.version}" if proof else "",
    )


def _change(pair: Iterable[object]) -> str:
    before, after = ("broken" if one is None else str(one) for one in pair)
    return before if before == after else f"{before} -> {after}"
