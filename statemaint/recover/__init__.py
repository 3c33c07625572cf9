"""Repair and rollback: planned, proved on a view without the bad files, and carried out.

The rules for what may be removed are in `plan.recovery`.
"""

from statemaint.errors import ConfigError
from statemaint.model.ids import RecoveryVerb
from statemaint.recover.carry_out import RecoveryReport
from statemaint.recover.repair import plan_repair, repair
from statemaint.recover.rollback import plan_rollback, rollback
from statemaint.report.plan_file import RecoveryFile
from statemaint.scan.identity import must_be_of_query
from statemaint.storage import Storage
from statemaint.workers import Workers

__all__ = ["RecoveryReport", "apply_recovery", "plan_repair", "plan_rollback", "repair", "rollback"]


def apply_recovery(
    storage: Storage, plan_file: RecoveryFile, *, workers: Workers | int | None = None
) -> RecoveryReport:
    """Carries out exactly the repair or rollback that was reviewed, or nothing (S14)."""
    if plan_file.query_id is not None:
        must_be_of_query(storage, plan_file.query_id, plan_file.checkpoint)
    trash_for, expected = plan_file.trash_for, plan_file.fingerprint
    if plan_file.verb is RecoveryVerb.REPAIR:
        return repair(storage, trash_for=trash_for, expected=expected, workers=workers)
    if (batch := plan_file.batch) is None:
        raise ConfigError("a rollback needs the batch to roll back to")
    return rollback(storage, batch, trash_for=trash_for, expected=expected, workers=workers)
