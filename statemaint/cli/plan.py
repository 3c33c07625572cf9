"""`plan`: the actions that a run of maintenance would take, and their reasons."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeVar

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
from statemaint.plan.actions import Attest, Delete, Plan, Request, StorePlan, WriteSnapshot
from statemaint.plan.withheld import by_reason
from statemaint.planning import plan_checkpoint
from statemaint.report.to_json import chain_length, plan_json
from statemaint.storage import open_storage
from statemaint.wording import counted

A = TypeVar("A", WriteSnapshot, Attest, Delete)


@click.command("plan")
@uri
@policy_flags
@scope_flags
@as_json_or_lines
def plan_verb(uri: str, *, policy: Policy, request: Request) -> None:
    """Show which files a run would write, keep and delete, and why; writes nothing."""
    checkpoint, plan = plan_checkpoint(open_storage(uri), policy, request=request, dry=True)
    print_result(lambda: plan_json(checkpoint, plan), lambda: print_plan(plan), lines="actions")
    end_with(plan.all_findings)


def print_plan(plan: Plan) -> None:
    tables.print_line(f"checkpoint  {plan.root}", wrap=False)
    tables.print_verdict(plan.verdict, Looked.NAMES)
    tables.print_line(f"committed   {tables.committed(plan.committed, plan.target)}")
    if plan.floor is not None:
        why, lowered_by = "", _lowered_by(plan)
        if isinstance(lowered_by, Pin):
            why = f" (pinned: {tables.pinned(lowered_by)})"
        elif lowered_by:
            why = " (the commit log reaches back to it, further than min_batches_to_retain)"
        tables.print_line(f"floor       version {plan.floor}{_kept_versions(plan)}{why}")
    tables.print_line(f"would       {_totals(plan)}")
    if not plan.actions:
        tables.print_line(f"to do       nothing: {_why_nothing(plan)}")
    for waiting in by_reason(plan.withheld):
        tables.print_line(f"withheld    {waiting}")
    kept = (*plan.unclassified, *(file for store in plan.stores for file in store.kept))
    counts = Counter(f"kept: {file.reason.words}" for file in kept)
    counts.update(f"deleted: {action.reason.words}" for action in _of(plan, Delete))
    for reason, count in sorted(counts.items()):
        tables.print_line(f"{count:>8,} {'file' if count == 1 else 'files'} {reason}")
    stores = sorted(plan.stores, key=lambda row: (not row.halted, -len(row.actions), row.store.id))
    columns: tuple[Column[StorePlan], ...] = (
        Column("store", lambda row: tables.short(row.store.id)),
        number("chain", lambda row: tables.chain_cell(chain_length(row.store, plan.target))),
        Column(
            "write", lambda row: Text("halted", BAD) if row.halted else _named(row, WriteSnapshot)
        ),
        Column("attest", lambda row: _named(row, Attest), spare=3),
        number("delete", lambda row: str(len(_of(row, Delete)))),
        number("reclaims", lambda row: decimal(_size(_of(row, Delete))), 1, varies=True),
    )
    tables.print_alike(columns, stores, "store")


def _lowered_by(plan: Plan) -> Pin | Literal["commits", ""]:
    """Returns what makes the floor lower than the policy's: a pin, or the commit log (S3)."""
    if plan.target is None or plan.floor is None:
        return ""
    if plan.floor >= plan.target - plan.policy.min_batches_to_retain:
        return ""
    return next((pin for pin in plan.pins if pin.version == plan.floor), "commits")


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
    lengths = (chain_length(store.store, plan.target) for store in plan.stores if not store.halted)
    longest = max((length for length in lengths if length is not None), default=None)
    if longest is None:
        return "the findings halt every store"
    least = plan.policy.min_deltas_for_snapshot
    return f"the longest chain has {counted(longest, 'delta')} (min_deltas_for_snapshot {least})"


def why_nothing_deleted(plan: Plan) -> str:
    """Returns why a plan deletes nothing; empty if it does, or if nothing is committed."""
    if _of(plan, Delete) or plan.floor is None:
        return ""
    if not plan.policy.verify:
        return "--no-verify disables deletion"
    if plan.findings or any(store.halted for store in plan.stores):
        return "see the findings"
    lowered_by = _lowered_by(plan)
    if isinstance(lowered_by, Pin):
        return f"what a pinned batch needs is kept: {tables.pinned(lowered_by)}"
    if lowered_by:
        return (
            f"the commit log still has the batch of version {plan.floor}, and what its "
            "versions need is kept; it shrinks as Spark drops its oldest batches "
            "(spark.sql.streaming.minBatchesToRetain)"
        )
    counts = Counter(kept.reason.words for store in plan.stores for kept in store.kept)
    kept = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common())
    return f"every file is kept: {kept}" if kept else ""


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


def _of(plan: Plan | StorePlan, kind: type[A]) -> list[A]:
    return [action for action in plan.actions if isinstance(action, kind)]


def _size(deletes: Iterable[Delete]) -> int:
    return sum(action.entry.size for action in deletes)


def _totals(plan: Plan) -> str:
    deleted, attested = _of(plan, Delete), _of(plan, Attest)
    files = files_of(len(deleted), _size(deleted))
    halted = sum(1 for store in plan.stores if store.halted)
    parts = [f"write {counted(len(_of(plan, WriteSnapshot)), 'snapshot')}"]
    parts += [f"prove {counted(len(attested), 'snapshot')}"] if attested else []
    parts += [f"delete {files}, in {counted(len(plan.stores), 'store')}"]
    return ", ".join(parts) + (f"; {counted(halted, 'store')} halted" if halted else "")


def _named(store: StorePlan, kind: type[A]) -> str:
    return ", ".join(f"{action.version} ({action.reason.words})" for action in _of(store, kind))
