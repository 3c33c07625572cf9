"""Repair and rollback: planned, proved on a view without the bad files, and carried out.

The rules for what may be removed are in `plan.recovery`.
"""

from statemaint.recover.carry_out import RecoveryReport
from statemaint.recover.plan_file import RecoveryFile, apply_recovery, parse_recovery
from statemaint.recover.repair import plan_repair, repair
from statemaint.recover.rollback import plan_rollback, rollback

__all__ = [
    "RecoveryFile",
    "RecoveryReport",
    "apply_recovery",
    "parse_recovery",
    "plan_repair",
    "plan_rollback",
    "repair",
    "rollback",
]
