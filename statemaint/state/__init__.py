"""The rows of any version: shown, compared and counted. Nothing here can write.

Whether these rows are right is for `audit` to decide.
"""

from statemaint.state.diff import DiffSelection, StateDiff, diff_state
from statemaint.state.rows import StateRow, StateSelection, read_state, select_state
from statemaint.state.stats import StateStats, state_stats

__all__ = [
    "DiffSelection",
    "StateDiff",
    "StateRow",
    "StateSelection",
    "StateStats",
    "diff_state",
    "read_state",
    "select_state",
    "state_stats",
]
