"""The texts that tasks write to their logs. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from statemaint.plan.actions import Action, Attest, Delete, Plan, WriteSnapshot
from statemaint.plan.withheld import by_reason
from statemaint.report.outcome import (
    Attested,
    Deleted,
    Report,
    SnapshotWritten,
    StoreOutcome,
    StoreReport,
)
from statemaint.report.task import BundleReport
from statemaint.wording import counted

# A partition without maintenance for a year has about nine thousand deltas.
_MOST_LINES = 10_000
_MOST_LABELS = 16
_COLUMNS = (
    "partitions",
    "done",
    "skipped",
    "halted",
    "snapshots",
    "written",
    "deleted",
    "freed",
    "findings",
)


def size(count: int) -> str:
    """Returns a count of bytes in readable form: `0 B`, `1.5 kB`, `22.0 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:  # noqa: PLR2004 -- what a kilo is
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def plan_line(plan: Plan, query: str) -> str:
    """Returns the decisions for a query, in one line."""
    if plan.target is None:
        return f"{query} at {plan.root}: no batch is committed yet, nothing to do"
    writes = sum(1 for action in plan.actions if isinstance(action, WriteSnapshot))
    deletes = [action.entry.size for action in plan.actions if isinstance(action, Delete)]
    need = "needs" if len(plan.units) == 1 else "need"
    units = counted(len({store.store.id.unit for store in plan.stores}), "partition")
    return (
        f"{query} at {plan.root}: batch {plan.committed} is committed; target version "
        f"{plan.target}, floor {plan.floor}; {len(plan.units)} of {units} "
        f"{need} attention: {counted(writes, 'snapshot')} to write, "
        f"{counted(len(deletes), 'file')} ({size(sum(deletes))}) to delete"
    )


def dry_run_lines(plan: Plan) -> Iterator[str]:
    """Yields the actions of a plan, up to a limit, and why snapshots are withheld, one per line."""
    if not plan.actions:
        yield "DRY RUN: nothing to do"
    for action in plan.actions[:_MOST_LINES]:
        yield f"DRY RUN: {_would(action)}"
    if len(plan.actions) > _MOST_LINES:
        yield f"DRY RUN: and {len(plan.actions) - _MOST_LINES} more; the plan's file has all"
    for one in by_reason(plan.withheld):
        yield f"DRY RUN: {one}"


def planned_counts(plan: Plan) -> dict[str, int]:
    """Returns the number of snapshots and files of a plan, and the bytes of the files."""
    writes = [one for one in plan.actions if isinstance(one, WriteSnapshot)]
    deletes = [one for one in plan.actions if isinstance(one, Delete)]
    size = sum(one.entry.size for one in deletes)
    return {"snapshots": len(writes), "files": len(deletes), "bytes": size}


def _would(action: Action) -> str:
    match action:
        case WriteSnapshot():
            return f"would write {action.path} ({action.reason.value})"
        case Attest():
            return f"would verify {action.path} ({action.reason.value})"
        case Delete():
            return f"would delete {action.path} ({action.reason.value}, {size(action.entry.size)})"


def task_line(labels: Sequence[str]) -> str:
    """Returns the names of the tasks that a plan was spread over, up to a limit, in one line."""
    more = f", and {len(labels) - _MOST_LABELS} more" if labels[_MOST_LABELS:] else ""
    return f"{counted(len(labels), 'task')}: {', '.join(labels[:_MOST_LABELS])}{more}"


def store_lines(report: Report) -> Iterator[str]:
    """Yields what a run has done in each store, up to a limit, one per line."""
    gone = "moved to the trash" if report.plan.policy.trash_for else "deleted"
    for store in report.stores[:_MOST_LINES]:
        yield f"{store.before.id}: {', '.join(_done(store, gone)) or 'nothing to do'}"
    if len(report.stores) > _MOST_LINES:
        yield f"and {counted(len(report.stores) - _MOST_LINES, 'more store')}"


def _done(store: StoreReport, gone: str) -> Iterator[str]:
    written = [one for one in store.outcomes if isinstance(one, SnapshotWritten)]
    verified = [one.action.version for one in store.outcomes if isinstance(one, Attested)]
    deleted = [one.action.entry.size for one in store.outcomes if isinstance(one, Deleted)]
    if written:
        total = size(sum(one.bytes for one in written))
        yield f"{_snapshots(one.action.version for one in written)} written ({total})"
    if verified:
        yield f"{_snapshots(verified)} verified"
    if deleted:
        yield f"{counted(len(deleted), 'file')} {gone} ({size(sum(deleted))})"
    if store.state is not StoreOutcome.DONE:
        yield store.state.value


def _snapshots(versions: Iterable[int]) -> str:
    listed = [str(one) for one in sorted(versions)]
    return f"{'snapshots' if listed[1:] else 'snapshot'} {' and '.join(listed)}"


def table(reports: Sequence[BundleReport]) -> str:
    """Returns all bundles of a run as a plain-text table, with their totals."""
    rows = [_row(report.label, [report]) for report in reports]
    total = [_row("all", reports)] if len(rows) != 1 else []
    lines = [_COLUMNS, *rows, *total]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    return "\n".join(_aligned(line, widths) for line in lines)


def _row(label: str, reports: Sequence[BundleReport]) -> tuple[str, ...]:
    def total(name: str) -> int:
        return sum(getattr(report, name) for report in reports)

    codes = sorted({finding["code"] for report in reports for finding in report.findings})
    return (
        label,
        *(str(total(name)) for name in ("done", "skipped", "halted", "snapshots")),
        size(total("bytes_written")),
        str(total("files")),
        size(total("bytes")),
        ", ".join(codes) or "-",
    )


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers, last = (
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join((name, *numbers, last.strip()))
