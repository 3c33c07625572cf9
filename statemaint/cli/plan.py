"""`plan`: the actions that a run of maintenance would take, and their reasons."""

from collections import Counter
from collections.abc import Iterable, Iterator

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.options import as_json_or_lines, policy_flags, scope_flags, uri
from statemaint.cli.output import end_with, print_result
from statemaint.cli.tables import BAD, Column, files_of, number
from statemaint.model.pins import Pin
from statemaint.model.policy import Policy
from statemaint.model.verdict import Looked
from statemaint.plan.actions import Action, Delete, Plan, Request, StorePlan, WriteSnapshot
from statemaint.plan.withheld import by_reason
from statemaint.planning import plan_checkpoint
from statemaint.report.to_json import chain_length, plan_json
from statemaint.storage import open_storage
from statemaint.wording import counted


@click.command("plan")
@uri
@policy_flags
@scope_flags
@as_json_or_lines
def plan_verb(uri: str, *, policy: Policy, request: Request, as_json: bool) -> None:
    """Show which files a run would write, keep and delete, and why; writes nothing."""
    checkpoint, plan = plan_checkpoint(open_storage(uri), policy, request=request, dry=True)
    print_result(
        lambda: plan_json(checkpoint, plan),
        as_json=as_json,
        table=lambda: print_plan(plan),
        lines="actions",
    )
    end_with(plan.all_findings)


def print_plan(plan: Plan) -> None:
    tables.print_line(f"checkpoint  {plan.root}", wrap=False)
    tables.print_verdict(plan.verdict, Looked.NAMES)
    tables.print_line(f"committed   {tables.committed(plan.committed, plan.target)}")
    if plan.floor is not None:
        why = f" ({_FLOOR_OF_LOG})" if floor_of_log(plan) else ""
        if pin := floor_of_pin(plan):
            why = f" (pinned: {tables.pinned(pin)})"
        tables.print_line(f"floor       version {plan.floor}{_kept_versions(plan)}{why}")
    tables.print_line(f"would       {_totals(plan)}")
    if not plan.actions:
        tables.print_line(f"to do       nothing: {_why_nothing(plan)}")
    for one in by_reason(plan.withheld):
        tables.print_line(f"withheld    {one}")
    for reason, count in _counts(plan).items():
        tables.print_line(f"{count:>8,} {'file' if count == 1 else 'files'} {reason}")
    stores = sorted(plan.stores, key=lambda x: (not x.halted, -len(x.actions), x.store.id))
    tables.print_alike(_COLUMNS, [_plan_cells(one, plan.target) for one in stores], "store")


_FLOOR_OF_LOG = "the commit log reaches back to it, further than min_batches_to_retain"
_COLUMNS = (
    Column("store"),
    number("chain"),
    Column("write"),
    Column("attest", spare=3),
    number("delete"),
    number("reclaims", spare=1, varies=True),
)


def floor_of_log(plan: Plan) -> bool:
    """Returns whether the floor is the commit log's, because it is lower than the policy's (S3)."""
    return _is_below_policy(plan) and floor_of_pin(plan) is None


def floor_of_pin(plan: Plan) -> Pin | None:
    """Returns the pin that makes the floor lower than the policy's."""
    pins = (pin for pin in plan.pins if pin.version == plan.floor)
    return next(pins, None) if _is_below_policy(plan) else None


def _is_below_policy(plan: Plan) -> bool:
    if plan.target is None or plan.floor is None:
        return False
    return plan.floor < plan.target - plan.policy.min_batches_to_retain


def _why_nothing(plan: Plan) -> str:
    if plan.target is None:
        return "no batch is committed"
    if not plan.halted and not plan.stores:
        return "there is no state"
    if plan.halted:
        return "the findings halt every store"
    return "; ".join(filter(None, (_why_none_written(plan), why_nothing_deleted(plan))))


def _why_none_written(plan: Plan) -> str:
    if plan.withheld:
        return "each due snapshot is withheld"
    lengths = (chain_length(one.store, plan.target) for one in plan.stores if not one.halted)
    longest = max((one for one in lengths if one is not None), default=None)
    if longest is None:
        return "the findings halt every store"
    least = plan.policy.min_deltas_for_snapshot
    return f"the longest chain has {counted(longest, 'delta')} (min_deltas_for_snapshot {least})"


def why_nothing_deleted(plan: Plan) -> str:
    """Returns why a plan deletes nothing; empty if it does, or if nothing is committed."""
    if any(isinstance(one, Delete) for one in plan.actions) or plan.floor is None:
        return ""
    if not plan.policy.verify:
        return "--no-verify disables deletion"
    if plan.findings or any(one.halted for one in plan.stores):
        return "see the findings"
    if pin := floor_of_pin(plan):
        return f"what a pinned batch needs is kept: {tables.pinned(pin)}"
    if floor_of_log(plan):
        return (
            f"the commit log still has the batch of version {plan.floor}, and what its "
            "versions need is kept; it shrinks as Spark drops its oldest batches "
            "(spark.sql.streaming.minBatchesToRetain)"
        )
    kept = ", ".join(_kept(plan))
    return f"every file is kept: {kept}" if kept else ""


def _kept(plan: Plan) -> Iterator[str]:
    counts = Counter(kept.reason.words for one in plan.stores for kept in one.kept)
    yield from (f"{count:,} {reason}" for reason, count in counts.most_common())


def _kept_versions(plan: Plan) -> str:
    """Returns which versions stay loadable: all from the floor, or the number that load now."""
    if plan.floor is None or plan.target is None or not plan.stores:
        return ""
    number, loads = plan.target - plan.floor + 1, plan.loadable
    if loads == number:
        return ": it and all above stay loadable"
    versions = f"{loads:,} of the {counted(number, 'version')} from it on"
    every = "every requested store" if plan.request.is_partial else "every store"
    return f": {versions} load in {every}, and stay loadable"


def _totals(plan: Plan) -> str:
    written = sum(1 for one in plan.actions if isinstance(one, WriteSnapshot))
    deleted = [one for one in plan.actions if isinstance(one, Delete)]
    attested = len(plan.actions) - written - len(deleted)
    files = files_of(len(deleted), sum(one.entry.size for one in deleted))
    halted = sum(1 for one in plan.stores if one.halted)
    parts = [f"write {counted(written, 'snapshot')}"]
    parts += [f"prove {counted(attested, 'snapshot')}"] if attested else []
    parts += [f"delete {files}, in {counted(len(plan.stores), 'store')}"]
    return ", ".join(parts) + (f"; {counted(halted, 'store')} halted" if halted else "")


def _plan_cells(store: StorePlan, target: int | None) -> tuple[str | Text, ...]:
    length = chain_length(store.store, target)
    written = [one for one in store.actions if isinstance(one, WriteSnapshot)]
    deleted = [one for one in store.actions if isinstance(one, Delete)]
    attested = [one for one in store.actions if not isinstance(one, WriteSnapshot | Delete)]
    return (
        tables.short(store.store.id),
        Text("broken", BAD) if length is None else str(length),
        Text("halted", BAD) if store.halted else _named(written),
        _named(attested),
        str(len(deleted)),
        decimal(sum(one.entry.size for one in deleted)),
    )


def _named(actions: Iterable[Action]) -> str:
    return ", ".join(f"{one.version} ({one.reason.words})" for one in actions)


def _counts(plan: Plan) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for store in plan.stores:
        counts.update(f"kept: {one.reason.words}" for one in store.kept)
        deletes = (one for one in store.actions if isinstance(one, Delete))
        counts.update(f"deleted: {one.reason.words}" for one in deletes)
    counts.update(f"kept: {one.reason.words}" for one in plan.unclassified)
    return dict(sorted(counts.items()))
