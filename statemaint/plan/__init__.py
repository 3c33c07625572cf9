"""The decision: from a checkpoint, a policy and a time to a list of actions. Pure."""

from statemaint.plan.actions import (
    Action,
    Attest,
    AttestReason,
    Delete,
    DeleteReason,
    KeepReason,
    Kept,
    Plan,
    Request,
    SnapshotReason,
    StorePlan,
    WriteSnapshot,
)
from statemaint.plan.health import batches_through, diagnose
from statemaint.plan.log_health import diagnose_logs
from statemaint.plan.plan import MOST_SKEW, plan
from statemaint.plan.store import RELY_ON_BASE

__all__ = [
    "MOST_SKEW",
    "RELY_ON_BASE",
    "Action",
    "Attest",
    "AttestReason",
    "Delete",
    "DeleteReason",
    "KeepReason",
    "Kept",
    "Plan",
    "Request",
    "SnapshotReason",
    "StorePlan",
    "WriteSnapshot",
    "batches_through",
    "diagnose",
    "diagnose_logs",
    "plan",
]
