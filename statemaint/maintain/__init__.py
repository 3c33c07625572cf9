"""The use cases: what the command line and Airflow ask for."""

from statemaint.execute import Holder, Restored
from statemaint.maintain.apply import PlanFile, apply, parse_plan
from statemaint.maintain.diff import DiffSelection, StateDiff, diff_state
from statemaint.maintain.doctor import Diagnosis, doctor
from statemaint.maintain.history import Run, list_runs
from statemaint.maintain.maintain import begin_run, end_run, maintain, new_run_id
from statemaint.maintain.mend_file import MendFile, apply_mend, parse_mend
from statemaint.maintain.mending import Mended
from statemaint.maintain.planning import plan_checkpoint, scan_checkpoint
from statemaint.maintain.repair import plan_repair, repair
from statemaint.maintain.rollback import plan_rollback, rollback
from statemaint.maintain.show import StateRow, StateSelection, read_state, select_state
from statemaint.maintain.stats import StateStats, state_stats
from statemaint.maintain.undo import Undone, undo
from statemaint.maintain.verify import Verification, digest_stores, verify

__all__ = [
    "Diagnosis",
    "DiffSelection",
    "Holder",
    "MendFile",
    "Mended",
    "PlanFile",
    "Restored",
    "Run",
    "StateDiff",
    "StateRow",
    "StateSelection",
    "StateStats",
    "Undone",
    "Verification",
    "apply",
    "apply_mend",
    "begin_run",
    "diff_state",
    "digest_stores",
    "doctor",
    "end_run",
    "list_runs",
    "maintain",
    "new_run_id",
    "parse_mend",
    "parse_plan",
    "plan_checkpoint",
    "plan_repair",
    "plan_rollback",
    "read_state",
    "repair",
    "rollback",
    "scan_checkpoint",
    "select_state",
    "state_stats",
    "undo",
    "verify",
]
