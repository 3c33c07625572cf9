"""`verify`: checks every file that a retained version needs."""

import click

from statemaint.audit import Verification, verify
from statemaint.cli import tables
from statemaint.cli.options import Share, as_json, uri, workers_flag
from statemaint.cli.output import Json, end_with, print_result
from statemaint.model.findings import Finding, damaged
from statemaint.report.to_json import findings_json
from statemaint.storage import open_storage
from statemaint.workers import Workers


@click.command("verify")
@uri
@click.option(
    "--deep",
    is_flag=True,
    help="Decode every file, compare every snapshot, and check every row of the newest version.",
)
@click.option(
    "--sample",
    type=Share(),
    metavar="N/T",
    help="Check only the N-th of T shares of the partitions; T runs cover all of them.",
)
@workers_flag
@as_json
def verify_verb(
    uri: str,
    *,
    deep: bool,
    sample: tuple[int, int] | None,
    workers: Workers,
    as_json: bool,
) -> None:
    """Check every file that a retained version of any store needs.

    Reads only the beginning and the end of each file, and trusts snapshots that an attestation
    covers. A change inside a file is found by --deep only.
    """
    found = verify(open_storage(uri), deep=deep, sample=sample, workers=workers)
    print_result(
        lambda: verify_json(found.versions_checked, found.findings),
        as_json=as_json,
        table=lambda: _print_table(found),
    )
    end_with(found.findings)


def verify_json(checked: int, findings: tuple[Finding, ...]) -> Json:
    """Returns the output of `verify --json`."""
    return {
        "healthy": not damaged(findings),
        "versions_checked": checked,
        "findings": findings_json(findings),
    }


def _print_table(found: Verification) -> None:
    """Prints a verification in one line; its findings follow on stderr."""
    stores = len(found.checkpoint.stores)
    word = "healthy" if found.healthy else "DAMAGED"
    tables.print_line(f"{word}: {found.versions_checked} versions of {stores} stores checked")
