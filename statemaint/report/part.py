"""The result of one task of a run, as passed on to the task that reports them all. Pure."""

from collections.abc import Iterable
from typing import Any

from statemaint.model.findings import Finding, damaged
from statemaint.plan import Withheld, by_reason
from statemaint.report.facts import facts_of
from statemaint.report.outcome import Report, StoreOutcome
from statemaint.report.query_state import lag
from statemaint.report.units import units_of

_MOST_REASONS = 5
MOST_FINDINGS = 20


def summary(report: Report, label: str, target: int | None, *, every_unit: bool) -> dict[str, Any]:
    """Returns the summary of a task that maintained some partitions.

    Args:
        report: of these partitions.
        label: the name that the task is shown by.
        target: the version that the run's plan fixed.
        every_unit: whether the metrics include each partition.
    """
    return {
        **_counts(report, label),
        "failed": damaged(report.findings),
        "lag": lag((one.after for one in report.stores), target),
        "facts": facts_of(report, every_unit=every_unit).to_json(),
        "units": [list(one) for one in units_of(report.stores)],
        "withheld": waiting_json(report.withheld),
    }


def waiting_json(withheld: Iterable[Withheld]) -> list[dict[str, Any]]:
    """Returns withheld snapshots by their reason, as one task hands them to another."""
    return [one.to_json() for one in by_reason(withheld)]


def reasons(findings: Iterable[Finding]) -> str:
    """Returns why a task fails: the code and detail of each damage, in one line."""
    damage = [finding for finding in findings if damaged((finding,))]
    shown = "; ".join(f"{one.code.value}: {one.detail}" for one in damage[:_MOST_REASONS])
    more = len(damage) - _MOST_REASONS
    return f"{shown}; and {more} more" if more > 0 else shown


def _counts(report: Report, label: str) -> dict[str, Any]:
    """Returns the result of some partitions: counts, and the first findings."""
    states = [one.state for one in report.stores]
    return {
        "label": label,
        **{state.value: states.count(state) for state in StoreOutcome},
        "snapshots": report.snapshots_written,
        "bytes_written": report.bytes_written,
        "files": report.files_deleted.total(),
        "bytes": report.bytes_deleted,
        "seconds": round(report.seconds, 3),
        "finding_count": len(report.findings),
        "findings": findings_json(report.findings),
    }


def findings_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Returns the first findings as one task hands them to another, damage before all else."""
    ordered = sorted(findings, key=lambda one: not one.damage)
    return [
        {"code": one.code.value, "detail": one.detail, "damage": one.damage}
        for one in ordered[:MOST_FINDINGS]
    ]
