"""`repair`: damage is shown with its proof, or mended."""

import click

from statemaint.cli import recovery
from statemaint.cli.options import apply_flag, as_json, trash_flag, uri
from statemaint.recover import plan_repair, repair
from statemaint.storage import open_storage


@click.command("repair")
@uri
@apply_flag
@trash_flag
@as_json
def repair_verb(uri: str, *, apply: bool, trash_for: float, as_json: bool) -> None:
    """Show how damage can be mended, each with its proof, or mend it (--apply).

    A bad snapshot is made anew from the log, or dropped where no retained version is loaded from
    it; so goes a checksum that does not fit a sound file, and a snapshot above the commit log.
    Stop the query first. The bad files go to the trash.

    Exit code 3 where damage stays that cannot be mended here: see `statemaint doctor`.
    """
    storage = open_storage(uri)
    if apply:
        recovery.end_with_result(repair(storage, trash_for=trash_for), as_json=as_json)
    recovery.end_with_plan(plan_repair(storage), trash_for, as_json=as_json)
