"""`apply`: carries out exactly what `plan`, `repair`, `rollback` or `undo` printed."""

from functools import partial
from typing import IO

import click

from statemaint.cli import recovery
from statemaint.cli.maintain import end_with_report
from statemaint.cli.options import as_json, workers_flag
from statemaint.cli.progress import actions_done
from statemaint.cli.undo import end_with_undone
from statemaint.maintain import apply, parse_plan, parse_undo, undo
from statemaint.maintain.record import recorded
from statemaint.recover import apply_recovery, parse_recovery
from statemaint.storage import open_storage
from statemaint.workers import Workers


@click.command("apply")
@click.argument("plan_file", metavar="PLAN.json", type=click.File("rb"))
@click.option(
    "--at", metavar="URI", help="Address of the checkpoint; default: the one in the plan."
)
@workers_flag
@as_json
def apply_verb(plan_file: IO[bytes], at: str | None, *, workers: Workers, as_json: bool) -> None:
    """Carry out exactly what `plan`, `repair`, `rollback` or `undo --dry-run` printed, or refuse.

    The file is the output of one of them with --json.

    A plan whose files have changed since is refused with exit code 6.
    """
    content = plan_file.read()
    if undo_plan := parse_undo(plan_file.name, content):
        storage = open_storage(at or undo_plan.checkpoint)
        undone = undo(storage, undo_plan.run, expected=undo_plan.fingerprint)
        end_with_undone(undone, storage.root, as_json=as_json)
    if recovery_plan := parse_recovery(plan_file.name, content):
        storage = open_storage(at or recovery_plan.checkpoint)
        done = apply_recovery(storage, recovery_plan, workers=workers)
        recovery.end_with_result(done, as_json=as_json)
    plan = parse_plan(plan_file.name, content)
    storage = open_storage(at or plan.checkpoint)
    with actions_done() as advance:
        work = partial(apply, storage, plan, workers=workers, on_outcome=advance)
        report = work() if plan.request.is_partial else recorded(storage, work)
    end_with_report(report, as_json=as_json)
