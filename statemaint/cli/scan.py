"""`scan`: the contents of a checkpoint, or of many; `plan`: what maintenance would do, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, TypeVar

import click
from rich.filesize import decimal
from rich.text import Text

from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, Row, of_many
from statemaint.cli.options import as_json_or_lines, policy_flags, scope_flags, uri
from statemaint.cli.output import Json, end_with, print_json, print_result, settings
from statemaint.cli.tables import BAD, WARNING, Column, files_of, number
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId
from statemaint.model.pins import Pin
from statemaint.model.policy import Policy
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan.actions import Attest, Delete, Plan, Request, StorePlan, WriteSnapshot
from statemaint.plan.findings.health import diagnose
from statemaint.plan.withheld import by_reason
from statemaint.planning import plan_checkpoint, scan_with_logs
from statemaint.report.to_json import chain_length, plan_json, scan_json
from statemaint.storage import open_storage
from statemaint.wording import counted


@click.command("scan")
@uri
@as_json_or_lines
@of_many(lambda: FLEET)
def scan_verb(uri: str) -> None:
    """Show the operators, partitions, stores, chains and sizes of a checkpoint.

    Broken stores come first, then those with long chains. For a folder or bucket of many
    checkpoints, one row for each of them.
    """
    checkpoint, document, findings = _read(uri)
    if settings().as_json:
        print_json(document, lines="stores")
    else:
        stores = _stores(checkpoint, document)
        tables.print_lines(_heading(checkpoint))
        tables.print_verdict(Verdict(document["verdict"]), Looked.NAMES)
        tables.print_line(Text.assemble("in all      ", *_totals(stores)))
        tables.print_alike(_COLUMNS, sorted(stores, key=_worst_first), "store")
    end_with(findings)


def _read(uri: str) -> tuple[Checkpoint, Json, tuple[Finding, ...]]:
    checkpoint = scan_with_logs(open_storage(uri))
    diagnosed = [diagnose(store, checkpoint) for store in checkpoint.stores]
    findings = (*checkpoint.findings, *chain.from_iterable(diagnosed))
    return checkpoint, scan_json(checkpoint, diagnosed), findings


def _stores(checkpoint: Checkpoint, document: Json) -> list[Json]:
    """Returns the stores of a document; without a committed batch none of them is broken."""
    begins = {"chain_length": 0} if checkpoint.target is None else {}
    return [{**store, **begins} for store in document["stores"]]


def _heading(checkpoint: Checkpoint) -> Iterator[str]:
    yield f"checkpoint  {checkpoint.root}"
    yield f"query       {checkpoint.query_id or '(unknown)'}"
    yield f"provider    {checkpoint.provider}, {checkpoint.codec}"
    yield f"committed   {tables.committed(checkpoint.committed, checkpoint.target)}"
    if checkpoint.required is not None:
        yield f"required    version {checkpoint.required} is the oldest in the commit log"
    for operator in checkpoint.operators:
        yield f"operator    {operator.id}: {operator.name}"
    for pin in checkpoint.pins:
        yield f"pinned      {tables.pinned(pin)}"


def _totals(stores: Sequence[Json]) -> Iterator[str | tuple[str, str]]:
    files, size = sum(store["files"] for store in stores), sum(store["bytes"] for store in stores)
    yield f"{counted(len(stores), 'store')}, {files_of(files, size)}"
    longest = max((int(store["chain_length"] or 0) for store in stores), default=0)
    if longest:
        yield f", longest chain {counted(longest, 'delta')}"
    if wrong := sum(1 for store in stores if store["chain_length"] is None or store["findings"]):
        yield ", "
        yield f"{counted(wrong, 'store')} with findings", BAD


def _worst_first(store: Json) -> tuple[Any, ...]:
    length = store["chain_length"]
    return length is not None, not store["findings"], -(length or 0), -store["bytes"], _id(store)


def _id(store: Json) -> StoreId:
    return StoreId(store["operator"], store["partition"], store["store"])


def _snapshots(store: Json) -> str:
    """Returns the newest snapshots, and the number of older ones."""
    versions = store["snapshots"]
    if len(versions) <= 2:  # noqa: PLR2004 -- target and floor, as a run leaves them
        return " ".join(map(str, versions)) or "none"
    return f"{versions[-2]} {versions[-1]} (+{len(versions) - 2})"


def _codes(store: Json) -> Text:
    codes = " ".join(sorted({finding["code"] for finding in store["findings"]}))
    return Text(codes, BAD if store["chain_length"] is None else WARNING)


_COLUMNS: tuple[Column[Json], ...] = (
    Column("store", lambda row: tables.short(_id(row))),
    number("versions", lambda row: "-".join(map(str, row["versions"])) or "none", 3),
    number("snapshots", _snapshots, 4),
    number("chain", lambda row: tables.chain_cell(row["chain_length"])),
    number("files", lambda row: str(row["files"]), 1),
    number("bytes", lambda row: decimal(row["bytes"]), varies=True),
    Column("findings", _codes),
)


def _row(uri: str, **_: Any) -> Row:
    checkpoint, document, findings = _read(uri)
    stores = _stores(checkpoint, document)
    lengths = [store["chain_length"] for store in stores]
    return {
        **{name: document[name] for name in ("verdict", "looked_at")},
        "last_committed_batch": checkpoint.committed,
        "stores": len(stores),
        "files": sum(store["files"] for store in stores),
        "bytes": sum(store["bytes"] for store in stores),
        "longest_chain": max((length for length in lengths if length is not None), default=0),
        "broken_stores": sum(1 for length in lengths if length is None),
    }, findings


def _longest(row: Json) -> str | Text:
    broken = row["broken_stores"]
    return Text(f"{broken} broken", BAD) if broken else str(row["longest_chain"])


FLEET: Fleet = Fleet(
    columns=(
        number("batch", lambda row: tables.known(row["last_committed_batch"]), 2),
        number("stores", lambda row: f"{row['stores']:,}", 3),
        number("chain", _longest),
        number("files", lambda row: f"{row['files']:,}", 1),
        number("bytes", lambda row: decimal(row["bytes"])),
    ),
    read=_row,
    order=lambda row: (-row["broken_stores"], -row["longest_chain"], -row["bytes"]),
    totals=lambda rows: (
        f"{counted(sum(row['stores'] for row in rows), 'store')}, "
        f"{files_of(sum(row['files'] for row in rows), sum(row['bytes'] for row in rows))}"
    ),
    looked=lambda _: Looked.NAMES,
)


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
    tables.print_line(f"would       {_would(plan)}")
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
        number(
            "chain",
            lambda row: tables.chain_cell(
                chain_length(row.store, plan.target_of(row.store.id) or 0)
            ),
        ),
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
    lengths = (
        chain_length(it.store, plan.target_of(it.store.id)) for it in plan.stores if not it.halted
    )
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


def _would(plan: Plan) -> str:
    deleted, attested = _of(plan, Delete), _of(plan, Attest)
    files = files_of(len(deleted), _size(deleted))
    halted = sum(1 for store in plan.stores if store.halted)
    parts = [f"write {counted(len(_of(plan, WriteSnapshot)), 'snapshot')}"]
    parts += [f"prove {counted(len(attested), 'snapshot')}"] if attested else []
    parts += [f"delete {files}, in {counted(len(plan.stores), 'store')}"]
    return ", ".join(parts) + (f"; {counted(halted, 'store')} halted" if halted else "")


def _named(store: StorePlan, kind: type[A]) -> str:
    return ", ".join(f"{action.version} ({action.reason.words})" for action in _of(store, kind))
