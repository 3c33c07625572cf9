"""A run of maintenance, the application of a plan, the history of runs, and their undo.

These are use cases: each combines `planning`, `execute` and `report`. Use cases that only read
belong in `audit` or `state`, repair and rollback in `recover`.
"""

from statemaint.maintain.run import maintain
from statemaint.maintain.runs import list_runs
from statemaint.undo.run import undo

__all__ = ["list_runs", "maintain", "undo"]
