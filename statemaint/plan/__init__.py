"""The decision: from a checkpoint, a policy and a time to a list of actions. Pure.

No storage, no clock and no SDK: everything that a decision depends on is an argument.
"""

from statemaint.plan.actions import (
    Action,
    Attest,
    Delete,
    Kept,
    Plan,
    Request,
    StorePlan,
    Wait,
    Withheld,
    WriteSnapshot,
)
from statemaint.plan.findings.health import batches_through, diagnose
from statemaint.plan.findings.logs import diagnose_logs
from statemaint.plan.findings.names import (
    blocks_batch,
    blocks_load,
    name_findings,
    names_snapshot,
    unloadable,
)
from statemaint.plan.findings.stale import doubted, edited_finding, replaced_finding, stale_finding
from statemaint.plan.planner import MOST_SKEW, plan
from statemaint.plan.reasons import (
    AttestReason,
    DeleteReason,
    KeepReason,
    SnapshotReason,
    WithheldReason,
)
from statemaint.plan.recovery.recovery_plan import (
    Proof,
    RecoveryPlan,
    Remove,
    RemoveReason,
    RepairStep,
)
from statemaint.plan.recovery.repair_steps import (
    lacks_base,
    missing_bases,
    of_checksum,
    rebuilt,
    refers,
    repair_steps,
    self_checking,
    witness,
)
from statemaint.plan.recovery.rollback import newest_to_go_back_to, rolled_back
from statemaint.plan.restoring import PutBack, UndoPlan
from statemaint.plan.snapshots import withheld
from statemaint.plan.staleness import Suspect, judge, was_replaced
from statemaint.plan.store import RELY_ON_BASE
from statemaint.plan.uploads import observed
from statemaint.plan.withheld import Waiting, by_reason, long_waits, together

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
    "Proof",
    "PutBack",
    "RecoveryPlan",
    "Remove",
    "RemoveReason",
    "RepairStep",
    "Request",
    "SnapshotReason",
    "StorePlan",
    "Suspect",
    "UndoPlan",
    "Wait",
    "Waiting",
    "Withheld",
    "WithheldReason",
    "WriteSnapshot",
    "batches_through",
    "blocks_batch",
    "blocks_load",
    "by_reason",
    "diagnose",
    "diagnose_logs",
    "doubted",
    "edited_finding",
    "judge",
    "lacks_base",
    "long_waits",
    "missing_bases",
    "name_findings",
    "names_snapshot",
    "newest_to_go_back_to",
    "observed",
    "of_checksum",
    "plan",
    "rebuilt",
    "refers",
    "repair_steps",
    "replaced_finding",
    "rolled_back",
    "self_checking",
    "stale_finding",
    "together",
    "unloadable",
    "was_replaced",
    "withheld",
    "witness",
]
