"""The texts of a run: its logs, its note for an operator, and what to do next. Pure."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from statemaint.model.findings import FindingCode
from statemaint.plan.actions import Delete, Plan, WriteSnapshot
from statemaint.plan.withheld import by_reason
from statemaint.report.outcome import Attested, Deleted, SnapshotWritten, StoreOutcome, StoreReport
from statemaint.report.run import Report
from statemaint.report.summary import groups, sentence, steps_of
from statemaint.report.task import MOST_FINDINGS, BundleReport, PlanSummary
from statemaint.wording import command, counted

# A partition without maintenance for a year has about nine thousand deltas.
_MOST_LINES = 10_000
_MOST_LABELS = 16
# Airflow's notes hold a thousand characters.
_MOST_NOTE = 1000
# A spreadsheet runs a cell that begins with one of these.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_RUNBOOK = "docs/runbook.md"

# Another build may have found what this one has no code for.
_PASSING = frozenset(code for code in FindingCode if code.about.passes)
_ADVISED = frozenset(code for code in FindingCode if code.about.advised)

Json = dict[str, Any]


def size(count: int) -> str:
    """Returns a count of bytes in readable form: `0 B`, `1.5 kB`, `22.0 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:  # noqa: PLR2004 -- what a kilo is
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def plan_line(plan: Plan, query: str) -> str:
    if plan.target is None:
        return f"{query} at {plan.root}: no batch is committed yet, nothing to do"
    counts = planned_counts(plan)
    need = "needs" if len(plan.units) == 1 else "need"
    units = counted(len({store.store.id.unit for store in plan.stores}), "partition")
    return (
        f"{query} at {plan.root}: batch {plan.committed} is committed; target version "
        f"{plan.target}, floor {plan.floor}; {len(plan.units)} of {units} "
        f"{need} attention: {counted(counts['snapshots'], 'snapshot')} to write, "
        f"{counted(counts['files'], 'file')} ({size(counts['bytes'])}) to delete"
    )


def dry_run_lines(plan: Plan) -> Iterator[str]:
    if not plan.actions:
        yield "DRY RUN: nothing to do"
    for group in groups(steps_of(plan.actions)):
        yield f"DRY RUN: would {sentence(group, size)}"
    for waiting in by_reason(plan.withheld):
        yield f"DRY RUN: {waiting}"


def planned_counts(plan: Plan) -> dict[str, int]:
    sizes = [action.entry.size for action in plan.actions if isinstance(action, Delete)]
    writes = sum(isinstance(action, WriteSnapshot) for action in plan.actions)
    return {"snapshots": writes, "files": len(sizes), "bytes": sum(sizes)}


def task_line(labels: Sequence[str]) -> str:
    more = f", and {len(labels) - _MOST_LABELS} more" if labels[_MOST_LABELS:] else ""
    return f"{counted(len(labels), 'task')}: {', '.join(labels[:_MOST_LABELS])}{more}"


def store_lines(report: Report) -> Iterator[str]:
    gone = "moved to the trash" if report.plan.policy.trash_for else "deleted"
    for store in report.stores[:_MOST_LINES]:
        yield f"{store.before.id}: {', '.join(_done(store, gone)) or 'nothing to do'}"
    if len(report.stores) > _MOST_LINES:
        yield f"and {counted(len(report.stores) - _MOST_LINES, 'more store')}"


def _done(store: StoreReport, gone: str) -> Iterator[str]:
    written = [done for done in store.outcomes if isinstance(done, SnapshotWritten)]
    verified = [done for done in store.outcomes if isinstance(done, Attested)]
    deleted = [done.action.entry.size for done in store.outcomes if isinstance(done, Deleted)]
    if written:
        yield f"{_snapshots(written)} written ({size(sum(done.bytes for done in written))})"
    if verified:
        yield f"{_snapshots(verified)} verified"
    if deleted:
        yield f"{counted(len(deleted), 'file')} {gone} ({size(sum(deleted))})"
    if store.state is not StoreOutcome.DONE:
        yield store.state.value


def _snapshots(outcomes: Iterable[SnapshotWritten | Attested]) -> str:
    listed = list(map(str, sorted(done.action.version for done in outcomes)))
    return f"{'snapshots' if listed[1:] else 'snapshot'} {' and '.join(listed)}"


# The columns of the table: the field of a report, and how its sum is shown.
_SUMS: dict[str, tuple[str, Callable[[int], str]]] = {
    "done": ("done", str),
    "skipped": ("skipped", str),
    "halted": ("halted", str),
    "snapshots": ("snapshots", str),
    "written": ("bytes_written", size),
    "deleted": ("files", str),
    "freed": ("bytes", size),
}


def table(reports: Sequence[BundleReport]) -> str:
    rows = [_row(report.label, [report]) for report in reports]
    total = [_row("all", reports)] if len(rows) != 1 else []
    lines = [("partitions", *_SUMS, "findings"), *rows, *total]
    first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))
    layout = "  ".join((f"{{:<{first}}}", *(f"{{:>{width}}}" for width in others[:-1]), "{}"))
    return "\n".join(layout.format(*line) for line in lines)


def _row(label: str, reports: Sequence[BundleReport]) -> tuple[str, ...]:
    codes = sorted({finding["code"] for report in reports for finding in report.findings})
    sums = (
        shown(sum(getattr(report, field) for report in reports)) for field, shown in _SUMS.values()
    )
    return (label, *sums, ", ".join(codes) or "-")


def advice(findings: Sequence[Json], checkpoint: str) -> Json:
    """Returns what is broken, and what to do: for each code its runbook entry and the command."""
    by_code: dict[str, Json] = {}
    for finding in findings:
        code = finding["code"]
        if finding["damage"] or code in _ADVISED:
            step = command("doctor" if finding["damage"] else "scan", checkpoint)
            if code in _PASSING:
                step = command("maintain", checkpoint, "--dry-run")
            facts = {"code": code, "detail": finding["detail"]}
            place = f"{_RUNBOOK}#{code.lower()}"
            by_code.setdefault(code, {**facts, "runbook": place, "command": step})
    broken = [finding for finding in findings if finding["damage"]]
    return {"broken": broken[:MOST_FINDINGS], "todo": list(by_code.values())}


def is_damaged(broken: Iterable[Json]) -> bool:
    """Returns whether a checkpoint is damaged, not just blocked by its storage or the query."""
    return any(finding["code"] not in _PASSING for finding in broken)


def dry_note(plan: Plan, decided: PlanSummary, file: str | None) -> str:
    counts = {**planned_counts(plan), "target": plan.target, "scope": decided.scope}
    lines = [f"DRY RUN, nothing was changed. {_counted(counts, would=True)}"]
    lines += [f"DRY RUN: {line}" for line in (*_scope(counts), *_withheld(decided.withheld))]
    if file:
        lines.append(f"DRY RUN: the whole plan is in {file} and on the page of this run")
    return cut([*lines, *_broken(decided.findings)])


def note(extra: Mapping[str, Any]) -> str:
    lines = _scope(extra)
    if extra["failure"]:
        lines.append(f"Nothing was maintained: {extra['failure']}")
    else:
        lines.append(_counted(extra, would=False))
    if emptied := extra["trash_files_deleted"]:
        expired, freed = counted(emptied, "expired file"), size(extra["trash_bytes_deleted"])
        lines.append(f"{expired} deleted from the trash ({freed}).")
    lines += _withheld(extra["withheld"])
    if extra["without_report"]:
        silent = counted(extra["without_report"], "task")
        lines.append(f"{silent} gave no report; the logs say why.")
    lines += _broken(extra["broken"])
    lines += [f"Next: `{step['command']}`, {step['runbook']}" for step in extra["todo"]]
    return cut(lines)


def note_of_queries(reports: Mapping[str, Json]) -> str:
    failed = {name: report for name, report in reports.items() if not report["success"]}
    snapshots, files, freed = (
        sum(report.get(key, 0) for report in reports.values())
        for key in ("snapshots", "files", "bytes")
    )
    done = (
        f"{counted(len(reports), 'query', 'queries')}, {len(failed)} failed: "
        f"{counted(snapshots, 'snapshot')} written, "
        f"{counted(files, 'file')} deleted ({size(freed)})."
    )
    why = {name: " ".join(report["note"].split()) for name, report in failed.items()}
    return cut([done, *(f"{name}: {note}" for name, note in why.items())])


def _scope(extra: Mapping[str, Any]) -> list[str]:
    return [f"Only {extra['scope']}, as set in the form."] if extra["scope"] else []


def _counted(counts: Mapping[str, Any], *, would: bool) -> str:
    if not (counts["snapshots"] or counts["files"]):
        return f"Nothing {'would be' if would else 'was'} written or deleted."
    verb = "would be " if would else ""
    return (
        f"{counted(counts['snapshots'], 'snapshot')} {verb}written, "
        f"{counted(counts['files'], 'file')} {verb}deleted "
        f"({size(counts['bytes'])}), up to version {counts['target']}."
    )


def _withheld(waits: Iterable[object]) -> list[str]:
    return [f"{waiting}." for waiting in waits]


def _broken(findings: Iterable[Json]) -> list[str]:
    damage = (finding for finding in findings if finding["damage"])
    return [f"Broken: {finding['code']}: {finding['detail']}" for finding in damage]


def cut(lines: Sequence[str]) -> str:
    text = "\n\n".join(lines)
    return text if len(text) <= _MOST_NOTE else f"{text[: _MOST_NOTE - 4].rstrip()} ..."


def as_csv(rows: Iterable[Iterable[object]]) -> str:
    """Returns rows as CSV, in which no cell is a formula for a spreadsheet; lists are words."""
    text = io.StringIO()
    csv.writer(text).writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    value = " ".join(map(str, value)) if isinstance(value, list) else value
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value
