"""`plan`: the actions that a run of maintenance would take, and their reasons."""

from collections import Counter
from collections.abc import Iterable

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import as_json, policy_flags, scope_flags, uri
from statemaint.cli.output import end_with, print_result
from statemaint.model.policy import Policy
from statemaint.plan import Action, Delete, Plan, Request, StorePlan, WriteSnapshot
from statemaint.planning import plan_checkpoint
from statemaint.report.to_json import chain_length, plan_json
from statemaint.storage import open_storage


@click.command("plan")
@uri
@policy_flags
@scope_flags
@as_json
def plan_verb(uri: str, *, policy: Policy, request: Request, as_json: bool) -> None:
    """Show which files a run would write, keep and delete, and why; writes nothing."""
    checkpoint, plan = plan_checkpoint(open_storage(uri), policy, request=request)
    print_result(
        lambda: plan_json(checkpoint, plan), as_json=as_json, table=lambda: print_plan(plan)
    )
    end_with(plan.all_findings)


def print_plan(plan: Plan) -> None:
    """Prints a plan: the actions in each store, then the reasons for keeping files."""
    tables.print_line(f"checkpoint  {plan.root}", wrap=False)
    tables.print_line(f"committed   {tables.committed(plan.committed, plan.target)}")
    if plan.floor is not None:
        tables.print_line(f"floor       version {plan.floor}: it and all above stay loadable")
    columns = ("store", "chain", "write", "attest", "delete", "reclaims")
    tables.print_table(columns, (_plan_cells(one, plan.target) for one in plan.stores))
    for reason, count in _counts(plan).items():
        tables.print_line(f"{count:>8} {'file' if count == 1 else 'files'} {reason}")


def _plan_cells(store: StorePlan, target: int | None) -> tuple[str, ...]:
    length = chain_length(store.store, target)
    written = [one for one in store.actions if isinstance(one, WriteSnapshot)]
    deleted = [one for one in store.actions if isinstance(one, Delete)]
    attested = [one for one in store.actions if not isinstance(one, WriteSnapshot | Delete)]
    return (
        str(store.store.id),
        "broken" if length is None else str(length),
        "halted" if store.halted else _named(written),
        _named(attested),
        str(len(deleted)),
        decimal(sum(one.entry.size for one in deleted)),
    )


def _named(actions: Iterable[Action]) -> str:
    return ", ".join(f"{one.version} ({one.reason.value})" for one in actions)


def _counts(plan: Plan) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for store in plan.stores:
        counts.update(f"kept: {one.reason.value}" for one in store.kept)
        deletes = (one for one in store.actions if isinstance(one, Delete))
        counts.update(f"deleted: {one.reason.value}" for one in deletes)
    counts.update(f"kept: {one.reason.value}" for one in plan.unclassified)
    return dict(sorted(counts.items()))
