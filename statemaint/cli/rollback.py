"""`rollback`: shows the files after a batch, or moves them to the trash."""

import click

from statemaint.cli import recovery
from statemaint.cli.options import apply_flag, as_json, trash_flag, uri, workers_flag
from statemaint.cli.progress import work_done
from statemaint.recover import plan_rollback, rollback
from statemaint.storage import open_storage
from statemaint.workers import Workers


@click.command("rollback")
@uri
@click.option(
    "--to-batch",
    "batch",
    type=click.IntRange(min=0),
    required=True,
    help="The batch to roll back to; `statemaint doctor` lists the batches that load.",
)
@apply_flag
@trash_flag
@workers_flag
@as_json
def rollback_verb(
    uri: str, *, batch: int, apply: bool, trash_for: float, workers: Workers, as_json: bool
) -> None:
    """Show which files a rollback to a batch would move to the trash, or move them (--apply).

    A rollback is refused if the state of that batch does not load in every store. Stop the query
    first. The offsets of the next batch are kept, so that the query reads the same input again.
    Sinks that record batch ids (files, Delta) skip batches they already have: see the runbook.

    The exit code is 3 if damage remains, such as older batches that do not load.
    """
    storage = open_storage(uri)
    if apply:
        with work_done("rolling back"):
            done = rollback(storage, batch, trash_for=trash_for, workers=workers)
        recovery.end_with_result(done, as_json=as_json)
    with work_done("planning"):
        plan = plan_rollback(storage, batch, workers=workers)
    recovery.end_with_plan(plan, trash_for, as_json=as_json)
