"""Carrying a plan out: the only code that writes or deletes."""

from statemaint.execute.execute import execute

__all__ = ["execute"]
