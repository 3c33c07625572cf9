"""`repair`: shows which damage can be repaired, with proofs, or repairs it."""

import click

from statemaint.cli import recovery
from statemaint.cli.options import apply_flag, as_json, trash_flag, uri, workers_flag
from statemaint.cli.progress import work_done
from statemaint.recover import plan_repair, repair
from statemaint.storage import open_storage
from statemaint.workers import Workers


@click.command("repair")
@uri
@apply_flag
@trash_flag
@workers_flag
@as_json
def repair_verb(
    uri: str, *, apply: bool, trash_for: float, workers: Workers, as_json: bool
) -> None:
    """Show which damage can be repaired, with a proof for each step, or repair it (--apply).

    A bad snapshot is rebuilt from the log, or removed if no retained version is loaded from it. A
    checksum that does not match a sound file is removed, as is a snapshot above the commit
    log. Stop the query first. Removed files are moved to the trash.

    The exit code is 3 if damage remains that cannot be repaired: see `statemaint doctor`.
    """
    storage = open_storage(uri)
    if apply:
        with work_done("repairing"):
            done = repair(storage, trash_for=trash_for, workers=workers)
        recovery.end_with_result(done, as_json=as_json)
    with work_done("planning"):
        plan = plan_repair(storage, workers=workers)
    recovery.end_with_plan(plan, trash_for, as_json=as_json)
