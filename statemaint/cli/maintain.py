"""`maintain`: one run of maintenance, and its report."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import click
from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress

from statemaint.cli import tables
from statemaint.cli.options import as_json, policy_flags, scope_flags, uri, workers_flag
from statemaint.cli.output import print_findings, print_result
from statemaint.cli.plan import print_plan
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.plan import Plan, Request
from statemaint.report import Outcome, Report, StoreReport
from statemaint.report.to_json import chain_length, report_json
from statemaint.storage import open_storage
from statemaint.workers import Workers


@click.command("maintain")
@uri
@policy_flags
@scope_flags
@click.option("--dry-run", is_flag=True, help="Report what a run would do; write nothing.")
@workers_flag
@as_json
def maintain_verb(
    uri: str, *, policy: Policy, request: Request, dry_run: bool, workers: Workers, as_json: bool
) -> None:
    """Write snapshots for long chains, delete files that no retained version needs, and report."""
    storage = open_storage(uri)
    with progress_bar() as advance:
        report = maintain(
            storage, policy, request=request, dry_run=dry_run, workers=workers, on_outcome=advance
        )
    end_with_report(report, as_json=as_json)


@contextmanager
def progress_bar() -> Iterator[Callable[[Outcome, Plan], None]]:
    """Yields a function that advances a bar on stderr by an outcome; no bar without a terminal."""
    console, hidden = Console(stderr=True), not sys.stderr.isatty()
    with Progress(console=console, transient=True, disable=hidden) as progress:

        def advance(outcome: Outcome, plan: Plan) -> None:
            if not progress.tasks:
                progress.add_task("maintaining", total=len(plan.actions))
            progress.update(progress.tasks[0].id, advance=1, description=str(outcome.store))

        yield advance


def end_with_report(report: Report, *, as_json: bool) -> NoReturn:
    """Prints a run's report and its findings, then exits with the report's exit code."""
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
    columns = ("store", "outcome", "chain", "files", "bytes", "reclaimable", "digest")
    tables.print_table(columns, map(_report_cells, report.stores))
    tables.print_line(
        f"{report.snapshots_written} snapshots written ({decimal(report.bytes_written)}), "
        f"{report.files_deleted.total()} files deleted ({decimal(report.bytes_deleted)}) "
        f"in {report.seconds:.1f} s"
    )
    requests = ", ".join(f"{verb} {count}" for verb, count in sorted(report.requests.items()))
    tables.print_line(f"storage requests: {requests}")


def _report_cells(store: StoreReport) -> tuple[str, ...]:
    lengths = [chain_length(one, store.target) for one in (store.before, store.after)]
    chain, files = _change(lengths), _change([len(store.before.files), len(store.after.files)])
    sizes = [sum(file.entry.size for file in one.files) for one in (store.before, store.after)]
    proof = store.attestation
    return (
        str(store.before.id),
        store.state.value,
        chain,
        files,
        _change([decimal(size) for size in sizes]),
        decimal(store.reclaimable),
        f"{proof.digest[:12]} at {proof.version}" if proof else "",
    )


def _change(pair: Iterable[object]) -> str:
    before, after = ("broken" if one is None else str(one) for one in pair)
    return before if before == after else f"{before} -> {after}"
