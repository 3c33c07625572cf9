"""The use cases: what the command line and Airflow ask for."""

from statemaint.maintain.maintain import maintain, new_run_id, plan_checkpoint, scan_checkpoint
from statemaint.maintain.verify import Verification, digest_stores, verify

__all__ = [
    "Verification",
    "digest_stores",
    "maintain",
    "new_run_id",
    "plan_checkpoint",
    "scan_checkpoint",
    "verify",
]
