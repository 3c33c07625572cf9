"""Carrying a plan out: the only code that writes or deletes."""

from statemaint.execute.execute import execute
from statemaint.execute.lease import Fence, Lease, leased
from statemaint.execute.ledger import Ledger
from statemaint.execute.trash import Restored, restore, trashed_runs
from statemaint.execute.trash import empty as empty_trash

__all__ = [
    "Fence",
    "Lease",
    "Ledger",
    "Restored",
    "empty_trash",
    "execute",
    "leased",
    "restore",
    "trashed_runs",
]
