"""Carries out plans: snapshots, deletions, trash, ledger and lease. It chooses no state file.

Maintenance, repair, rollback and undo write to a query's files only through this package. One other
package writes to a checkpoint: `provider`, for a stopped query.

Whatever asks the storage raises `StorageError` when it fails, and whatever writes or deletes raises
`LeaseLostError` once another run holds the lease, or it was ended; then nothing more happens.
`Superseded` is raised when a file that an action relies on was replaced or is missing since
planning, a `CheckpointError` when it is damaged or holds another state, and `UnreadableError` when
the query might be unable to read one.
"""

from statemaint.execute.announced import adopt_announcements
from statemaint.execute.attempts import LeaseGuardedStorage, UnitClaim, forget_units
from statemaint.execute.commits import Neighbours, must_stand, newest_commit
from statemaint.execute.compaction import compact as compact_ledger
from statemaint.execute.compaction import is_due as ledger_is_due
from statemaint.execute.fence import Fence, and_then
from statemaint.execute.lease import QUIET, Lease, end_earlier, leased, renewing
from statemaint.execute.ledger import Ledger
from statemaint.execute.recovery import recover
from statemaint.execute.stores import execute

__all__ = [
    "QUIET",
    "Fence",
    "Lease",
    "LeaseGuardedStorage",
    "Ledger",
    "Neighbours",
    "UnitClaim",
    "adopt_announcements",
    "and_then",
    "compact_ledger",
    "end_earlier",
    "execute",
    "forget_units",
    "leased",
    "ledger_is_due",
    "must_stand",
    "newest_commit",
    "recover",
    "renewing",
]
