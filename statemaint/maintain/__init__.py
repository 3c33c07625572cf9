"""The use cases: what the command line and Airflow ask for."""

from statemaint.execute import Restored
from statemaint.maintain.apply import PlanFile, apply, parse_plan
from statemaint.maintain.doctor import Diagnosis, doctor
from statemaint.maintain.history import Run, list_runs
from statemaint.maintain.maintain import end_run, maintain, new_run_id
from statemaint.maintain.planning import plan_checkpoint, scan_checkpoint
from statemaint.maintain.show import StateRow, StateSelection, read_state, select_state
from statemaint.maintain.undo import Undone, undo
from statemaint.maintain.verify import Verification, digest_stores, verify

__all__ = [
    "Diagnosis",
    "PlanFile",
    "Restored",
    "Run",
    "StateRow",
    "StateSelection",
    "Undone",
    "Verification",
    "apply",
    "digest_stores",
    "doctor",
    "end_run",
    "list_runs",
    "maintain",
    "new_run_id",
    "parse_plan",
    "plan_checkpoint",
    "read_state",
    "scan_checkpoint",
    "select_state",
    "undo",
    "verify",
]
