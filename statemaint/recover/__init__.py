"""Repair and rollback: planned, proved on a view without the bad files, and carried out.

The rules for what may be removed are in `plan.recovery`.
"""

from statemaint.recover.apply import apply_recovery
from statemaint.recover.carry_out import RecoveryReport
from statemaint.recover.repair import plan_repair, repair
from statemaint.recover.rollback import plan_rollback, rollback

__all__ = [
    "RecoveryReport",
    "apply_recovery",
    "plan_repair",
    "plan_rollback",
    "repair",
    "rollback",
]
