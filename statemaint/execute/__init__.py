"""Carrying a plan out: the only code that writes or deletes."""

from statemaint.execute.execute import execute
from statemaint.execute.lease import Fence, Lease, leased, newest_number
from statemaint.execute.ledger import Ledger
from statemaint.execute.trash import Restored, restore, trashed_runs
from statemaint.execute.trash import expired as expired_trash

__all__ = [
    "Fence",
    "Lease",
    "Ledger",
    "Restored",
    "execute",
    "expired_trash",
    "leased",
    "newest_number",
    "restore",
    "trashed_runs",
]
