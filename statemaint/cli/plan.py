"""`plan`: what a run of maintenance would do, and why."""

import click

from statemaint.cli import tables
from statemaint.cli.options import as_json, policy_flags, scope_flags, uri
from statemaint.cli.output import end, show
from statemaint.model.policy import Policy
from statemaint.plan import Request
from statemaint.planning import plan_checkpoint
from statemaint.report.to_json import plan_json
from statemaint.storage import open_storage


@click.command("plan")
@uri
@policy_flags
@scope_flags
@as_json
def plan_verb(uri: str, *, policy: Policy, request: Request, as_json: bool) -> None:
    """Show what would be written, kept and deleted, and why; writes nothing."""
    checkpoint, plan = plan_checkpoint(open_storage(uri), policy, request=request)
    show(plan_json(checkpoint, plan), as_json=as_json, table=lambda: tables.plan(plan))
    end(plan.all_findings)
