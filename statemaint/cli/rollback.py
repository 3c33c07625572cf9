"""`rollback`: what lies above a batch is shown, or moved away."""

import click

from statemaint.cli import recovery
from statemaint.cli.options import apply_flag, as_json, trash_flag, uri
from statemaint.recover import plan_rollback, rollback
from statemaint.storage import open_storage


@click.command("rollback")
@uri
@click.option(
    "--to-batch",
    "batch",
    type=click.IntRange(min=0),
    required=True,
    help="The newest batch that stays committed; `statemaint doctor` names those that load.",
)
@apply_flag
@trash_flag
@as_json
def rollback_verb(uri: str, *, batch: int, apply: bool, trash_for: float, as_json: bool) -> None:
    """Show what must go so that the query restarts behind a batch, or move it away (--apply).

    Refused where the batch's state does not load in every store. Stop the query first. The offsets
    of the next batch stay, so that it reads the same input again. Sinks that remember batches
    (files, Delta) skip those that they have: see the runbook.

    Exit code 3 where damage stays all the same, such as older batches that do not load.
    """
    storage = open_storage(uri)
    if apply:
        recovery.end_with_result(rollback(storage, batch, trash_for=trash_for), as_json=as_json)
    recovery.end_with_plan(plan_rollback(storage, batch), trash_for, as_json=as_json)
