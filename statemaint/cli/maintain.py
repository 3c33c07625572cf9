"""`maintain`: one run of maintenance, and its report."""

import sys

import click
from rich.console import Console
from rich.progress import Progress

from statemaint.cli import tables
from statemaint.cli.options import as_json, policy_flags, scope_flags, uri
from statemaint.cli.output import complain, show
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.plan import Plan, Request
from statemaint.report import Outcome
from statemaint.report.to_json import report_json
from statemaint.storage import open_storage


@click.command("maintain")
@uri
@policy_flags
@scope_flags
@click.option("--dry-run", is_flag=True, help="Report what would happen; write nothing.")
@as_json
def maintain_verb(
    uri: str, *, policy: Policy, request: Request, dry_run: bool, as_json: bool
) -> None:
    """Snapshot long chains, delete what no retained version needs, and report."""
    storage = open_storage(uri)
    with progress_bar() as progress:
        report = maintain(
            storage, policy, request=request, dry_run=dry_run, on_outcome=Bar(progress).advance
        )
    show(report_json(report), as_json=as_json, table=lambda: tables.report(report))
    complain(report.findings)
    sys.exit(report.exit_code)


def progress_bar() -> Progress:
    """Returns a display on stderr, which shows nothing where stderr is no terminal."""
    return Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


class Bar:
    """A progress bar over the plan's actions, made when the first of them has happened."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def advance(self, outcome: Outcome, plan: Plan) -> None:
        """Counts one outcome of a plan."""
        if not self._progress.tasks:
            self._progress.add_task("maintaining", total=len(plan.actions))
        task = self._progress.tasks[0]
        self._progress.update(task.id, advance=1, description=str(outcome.store))
