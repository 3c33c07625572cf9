"""Repair and rollback: planned, proved on a view without the bad files, and carried out.

The rules of what may go are in `plan.recovery`.
"""

from statemaint.recover.mend_file import MendFile, apply_mend, parse_mend
from statemaint.recover.mending import Mended
from statemaint.recover.repair import plan_repair, repair
from statemaint.recover.rollback import plan_rollback, rollback

__all__ = [
    "MendFile",
    "Mended",
    "apply_mend",
    "parse_mend",
    "plan_repair",
    "plan_rollback",
    "repair",
    "rollback",
]
