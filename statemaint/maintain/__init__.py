"""A run of maintenance, the application of a plan, the history of runs, and their undo.

These are use cases: each combines `planning`, `execute` and `report`. Use cases that only read
belong in `audit` or `state`, repair and rollback in `recover`.
"""

from statemaint.maintain.apply import apply
from statemaint.maintain.run import (
    begin_run,
    check_free,
    end_run,
    maintain,
    reserve,
)
from statemaint.maintain.runs import Run, list_actions, list_runs
from statemaint.records.claims import Holder
from statemaint.records.runs import new_run_id
from statemaint.records.trashed import bytes_in_trash
from statemaint.undo import Undone, plan_undo, undo

__all__ = [
    "Holder",
    "Run",
    "Undone",
    "apply",
    "begin_run",
    "bytes_in_trash",
    "check_free",
    "end_run",
    "list_actions",
    "list_runs",
    "maintain",
    "new_run_id",
    "plan_undo",
    "reserve",
    "undo",
]
