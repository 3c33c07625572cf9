"""What happened: outcomes, reports, and their JSON. Pure. Tables for people belong in `cli`."""

from statemaint.report.outcome import (
    Attested,
    Deleted,
    Halted,
    Outcome,
    Report,
    Skipped,
    SnapshotWritten,
    StoreReport,
    StoreState,
)
from statemaint.report.store_report import summarize

__all__ = [
    "Attested",
    "Deleted",
    "Halted",
    "Outcome",
    "Report",
    "Skipped",
    "SnapshotWritten",
    "StoreReport",
    "StoreState",
    "summarize",
]
