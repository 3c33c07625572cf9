"""Brings back the files that a run moved to the trash, as far as they still fit (S17)."""

from statemaint.undo.run import Undone, plan_undo, undo

__all__ = ["Undone", "plan_undo", "undo"]
