"""The results of a run: outcomes, reports, and their JSON. Pure. Printed tables belong in `cli`."""

from statemaint.report.outcome import (
    Attested,
    Deleted,
    Emptied,
    Halted,
    Outcome,
    Report,
    Skipped,
    SnapshotWritten,
    StoreOutcome,
    StoreReport,
    exit_code_of,
)
from statemaint.report.store_report import summarize

__all__ = [
    "Attested",
    "Deleted",
    "Emptied",
    "Halted",
    "Outcome",
    "Report",
    "Skipped",
    "SnapshotWritten",
    "StoreOutcome",
    "StoreReport",
    "exit_code_of",
    "summarize",
]
