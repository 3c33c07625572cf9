"""`apply`: exactly what `plan`, `repair` or `rollback` printed."""

import sys
from typing import IO

import click

from statemaint.cli import recovery
from statemaint.cli.maintain import Bar, print_report, progress_bar
from statemaint.cli.options import as_json
from statemaint.cli.output import print_findings, print_result
from statemaint.maintain import apply, parse_plan
from statemaint.recover import apply_mend, parse_mend
from statemaint.report.to_json import report_json
from statemaint.storage import open_storage


@click.command("apply")
@click.argument("plan_file", metavar="PLAN.json", type=click.File("rb"))
@click.option("--at", metavar="URI", help="Where the checkpoint is; by default where it was.")
@as_json
def apply_verb(plan_file: IO[bytes], at: str | None, *, as_json: bool) -> None:
    """Carry out exactly what `plan`, `repair` or `rollback --json` printed, or refuse.

    It is refused, with exit code 6, where the files that it is about have changed.
    """
    content = plan_file.read()
    if found := parse_mend(plan_file.name, content):
        recovery.end_with_result(
            apply_mend(open_storage(at or found.checkpoint), found), as_json=as_json
        )
    asked = parse_plan(plan_file.name, content)
    with progress_bar() as progress:
        storage = open_storage(at or asked.checkpoint)
        report = apply(storage, asked, on_outcome=Bar(progress).advance)
    print_result(report_json(report), as_json=as_json, table=lambda: print_report(report))
    print_findings(report.findings)
    sys.exit(report.exit_code)
