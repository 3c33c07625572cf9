"""What a person reads: the same facts as the JSON, as tables on stdout."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from statemaint.audit import Verification
from statemaint.cli.rows import changed_columns, columns, group
from statemaint.codec.integrity.digest import StateDigest
from statemaint.maintain import Run, Undone
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId
from statemaint.plan import Action, Delete, Plan, StorePlan, WriteSnapshot, diagnose
from statemaint.report import Report, StoreReport
from statemaint.report.to_json import chain_length, store_json
from statemaint.state import StateRow
from statemaint.state.diff import ChangedRow, Counts, StateDiff
from statemaint.state.stats import Figures, LargeKey, StateStats

_WIDTH = 110


def scan(checkpoint: Checkpoint) -> None:
    """Prints a checkpoint, a line for each store."""
    console = _console()
    console.print(f"checkpoint  {escape(checkpoint.root)}")
    console.print(f"query       {escape(checkpoint.query_id) or '(unknown)'}")
    console.print(f"provider    {checkpoint.provider}, {checkpoint.codec}")
    console.print(f"committed   {_committed(checkpoint.committed, checkpoint.target)}")
    console.print(f"required    version {checkpoint.required} is the oldest in the commit log")
    for operator in checkpoint.operators:
        console.print(f"operator    {operator.id}: {escape(operator.name)}")
    table = _table("store", "versions", "snapshots", "chain", "files", "bytes", "findings")
    for store in checkpoint.stores:
        table.add_row(*_store_cells(store, checkpoint.target, diagnose(store, checkpoint)))
    console.print(table)


def _store_cells(store: Store, target: int | None, findings: Iterable[Finding]) -> tuple[str, ...]:
    fields = store_json(store, target, findings)
    versions = "-".join(str(one) for one in fields["versions"]) or "none"
    return (
        escape(str(store.id)),
        versions,
        " ".join(str(one) for one in fields["snapshots"]) or "none",
        "broken" if fields["chain_length"] is None else str(fields["chain_length"]),
        str(fields["files"]),
        decimal(fields["bytes"]),
        " ".join(sorted({one["code"] for one in fields["findings"]})),
    )


def plan(plan: Plan) -> None:
    """Prints a plan: what happens in each store, then why files are kept."""
    console = _console()
    console.print(f"checkpoint  {escape(plan.root)}")
    console.print(f"committed   {_committed(plan.committed, plan.target)}")
    if plan.floor is not None:
        console.print(f"floor       version {plan.floor}: it and all above stay loadable")
    table = _table("store", "chain", "write", "attest", "delete", "reclaims")
    for store in plan.stores:
        table.add_row(*_plan_cells(store, plan.target))
    console.print(table)
    for reason, count in _counts(plan).items():
        console.print(f"{count:>8} {'file' if count == 1 else 'files'} {reason}")


def undone(found: Undone) -> None:
    """Prints what an undo brought back."""
    files = "file" if found.files == 1 else "files"
    console = _console()
    console.print(f"brought back {found.files} {files} of run {escape(found.run)}")
    console.print(f"             {decimal(found.bytes)}; the next maintain deletes them again")
    console.print("             unless it is told to retain more")
    if found.left:
        stay = "1 file stays" if len(found.left) == 1 else f"{len(found.left)} files stay"
        console.print(f"{stay} in the trash")


def runs(found: Iterable[Run]) -> None:
    """Prints runs, a line each, and below them what was undone by which."""
    console, listed = _console(), tuple(found)
    table = _table(
        "run", "started (UTC)", "seconds", "snapshots", "deleted", "bytes", "exit", "undo"
    )
    for run in listed:
        table.add_row(*_run_cells(run))
    console.print(table)
    for run in listed:
        for one in reversed(run.undone):
            files = f"{one.files} files back" + (f", {one.left} left" if one.left else "")
            said = f"{run.run} was undone {_time(one.time)} by {one.run}: {files}"
            console.print(escape(said), soft_wrap=True)


def _run_cells(run: Run) -> tuple[str, ...]:
    return (
        escape(run.run),
        _time(run.started),
        f"{run.seconds:.1f}",
        str(run.snapshots_written),
        str(run.files_deleted),
        decimal(run.bytes_deleted),
        str(run.exit_code),
        _undo_cell(run),
    )


def _undo_cell(run: Run) -> str:
    """Returns whether a run can be undone, was undone, or is an undo itself."""
    if run.undo_of is not None:
        return "is one"
    if run.undone:
        return "partly" if run.in_trash else "done"
    return "yes" if run.in_trash else "no"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _plan_cells(store: StorePlan, target: int | None) -> tuple[str, ...]:
    length = chain_length(store.store, target)
    written = [one for one in store.actions if isinstance(one, WriteSnapshot)]
    deleted = [one for one in store.actions if isinstance(one, Delete)]
    attested = [one for one in store.actions if not isinstance(one, WriteSnapshot | Delete)]
    return (
        escape(str(store.store.id)),
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


def report(report: Report) -> None:
    """Prints what a run did."""
    console = _console()
    head = "dry run, nothing was done" if report.dry_run else f"run {report.run}"
    console.print(f"{head}: {escape(report.plan.root)}")
    if report.dry_run:
        plan(report.plan)
        return
    table = _table("store", "outcome", "chain", "files", "bytes", "reclaimable", "digest")
    for store in report.stores:
        table.add_row(*_report_cells(store))
    console.print(table)
    console.print(
        f"{report.snapshots_written} snapshots written ({decimal(report.bytes_written)}), "
        f"{report.files_deleted.total()} files deleted ({decimal(report.bytes_deleted)}) "
        f"in {report.seconds:.1f} s"
    )
    requests = ", ".join(f"{verb} {count}" for verb, count in sorted(report.requests.items()))
    console.print(f"storage requests: {requests}")


def _report_cells(store: StoreReport) -> tuple[str, ...]:
    lengths = [chain_length(one, store.target) for one in (store.before, store.after)]
    chain, files = _change(lengths), _change([len(store.before.files), len(store.after.files)])
    sizes = [sum(file.entry.size for file in one.files) for one in (store.before, store.after)]
    proof = store.attestation
    return (
        escape(str(store.before.id)),
        store.state.value,
        chain,
        files,
        _change([decimal(size) for size in sizes]),
        decimal(store.reclaimable),
        f"{proof.digest[:12]} at {proof.version}" if proof else "",
    )


def _change(pair: Iterable[object]) -> str:
    before, after = ("broken" if one is None else str(one) for one in pair)
    return before if before == after else f"{before} -> {after}"


def verification(found: Verification) -> None:
    """Prints a verification in one line; the findings follow on stderr."""
    stores = len(found.checkpoint.stores)
    word = "healthy" if found.healthy else "DAMAGED"
    _console().print(f"{word}: {found.versions_checked} versions of {stores} stores checked")


def digests(version: int, digests: Iterable[tuple[StoreId, StateDigest]]) -> None:
    """Prints the digest of each store."""
    table = _table("store", "version", "rows", "digest")
    for store, one in digests:
        table.add_row(escape(str(store)), str(version), str(one.rows), one.digest)
    _console().print(table)


def state(version: int, rows: Iterable[StateRow]) -> None:
    """Prints rows of state, a table for each kind of row."""
    _rows(((row, columns(row)) for row in rows), f"at version {version}")


def _rows(rows: Iterable[tuple[StateRow | ChangedRow, dict[str, Any]]], when: str) -> None:
    console = _console()
    by_group = sorted(rows, key=lambda row: group(row[0]))
    for (operator, store, family), some in groupby(by_group, key=lambda row: group(row[0])):
        title = " / ".join(one for one in (f"op {operator}", store, family) if one)
        found = [cells for _, cells in some]
        table = _table(*(escape(_printable(name)) for name in found[0]))
        for row in found:
            table.add_row(*(escape(_cell(value)) for value in row.values()))
        noun = "row" if len(found) == 1 else "rows"
        console.print(f"{escape(title)}: {len(found)} {noun} {when}")
        console.print(table)


def diff(found: StateDiff) -> None:
    """Prints what became of rows: first how many, then each."""
    console = _console()
    console.print(f"from version {found.older} to version {found.newer}")
    table = _table("store", "added", "changed", "removed", "rewritten")
    for one in found.stores:
        table.add_row(_place(one.store, one.family), *_counted(one.counts))
    table.add_row("total", *_counted(found.total))
    console.print(table)
    when = f"between versions {found.older} and {found.newer}"
    _rows(((row, changed_columns(row)) for row in found.rows), when)


def _counted(counts: Counts) -> tuple[str, ...]:
    found = (counts.added, counts.changed, counts.removed, counts.rewritten)
    return tuple(_known(one) for one in found)


def stats(found: StateStats) -> None:
    """Prints what state is made of: operators, stores, the largest keys, what is worth a look."""
    console = _console()
    versions = max(one.figures.versions for one in found.operators)
    console.print(f"version {found.version}; untouched: since version {_known(found.since)}")
    console.print(f"changes: records of a version, in the mean of the last {versions}")
    measures = ("rows", "bytes", "changes", "removes", "rewritten", "untouched")
    table = _table("operator", *measures, "largest partition")
    for one in found.operators:
        ratio = "" if one.skew.ratio is None else f" ({one.skew.ratio:.1f} x mean)"
        skew = f"{one.skew.partition}: {one.skew.rows}{ratio}"
        table.add_row(f"op {one.operator}", *_measures(one.figures), skew)
    console.print(table)
    table = _table("store", *measures)
    for store in found.stores:
        table.add_row(_place(store.store, store.family), *_measures(store.figures))
    console.print(table)
    _largest(key for one in found.operators for key in one.largest)
    for notice in found.notices:
        console.print(f"{notice.code}: {escape(_printable(notice.detail))}", soft_wrap=True)


def _measures(found: Figures) -> tuple[str, ...]:
    each, churn = found.changes_per_version, found.churn
    return (
        str(found.rows),
        decimal(found.bytes),
        "?" if each is None else f"{each:.1f}",
        _share(churn.removes_share if churn else None),
        _share(churn.rewritten_share if churn else None),
        _share(found.untouched_share),
    )


def _largest(keys: Iterable[LargeKey]) -> None:
    table = _table("largest keys", "bytes", "key")
    for one in keys:
        table.add_row(_place(one.store, one.family), str(one.bytes), escape(_cell(one.key)))
    if table.row_count:
        _console().print(table)


def _place(store: StoreId, family: str | None) -> str:
    return escape(f"{store} / {_printable(family)}" if family else str(store))


def _share(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def _cell(value: Any) -> str:
    return _printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _printable(text: str) -> str:
    """Returns a text without what would move the cursor or change the terminal's colours."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def queries(config: str, listed: Mapping[str, str], *, full: bool) -> None:
    """Prints a valid file of queries: how many, or each."""
    console = _console()
    if not full:
        console.print(f"{escape(config)}: valid, {len(listed)} queries")
        return
    table = _table("query", "checkpoint")
    for name, checkpoint in listed.items():
        table.add_row(escape(name), escape(checkpoint))
    console.print(table)


def _committed(batch: int | None, version: int | None) -> str:
    return "no batch yet" if batch is None else f"batch {batch}, so the target version is {version}"


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _console() -> Console:
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)
