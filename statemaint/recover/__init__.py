"""Repair and rollback: planned, proved and carried out."""

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
