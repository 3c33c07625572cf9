"""Carries out a plan that was made and reviewed before (S14)."""

from statemaint.errors import Superseded
from statemaint.execute.lease import leased
from statemaint.maintain.run import OnOutcome, Work, tidy
from statemaint.model.findings import FindingCode
from statemaint.plan.actions import Plan
from statemaint.plan.planner import MOST_SKEW
from statemaint.planning import plan_checkpoint
from statemaint.records.claims import Holder
from statemaint.report.outcome import Report
from statemaint.report.plan_file import MaintenanceFile
from statemaint.report.to_json import fingerprint
from statemaint.scan.identity import must_be_checkpoint, must_be_of_query
from statemaint.storage import Storage
from statemaint.workers import Workers


def apply(
    storage: Storage,
    plan_file: MaintenanceFile,
    *,
    run: str | None = None,
    workers: Workers | int | None = None,
    on_outcome: OnOutcome = lambda _outcome, _plan: None,
) -> Report:
    """Carries out exactly the plan that was made, or nothing.

    The plan is made again as of its original time: if the same files are still there, it is the
    same, down to each file's size and time.

    `on_outcome` is called with each outcome as it happens, for progress.

    Raises:
        ConfigError: when the plan is for another query's checkpoint.
        Superseded: when a plan made now would be a different one.
        LeaseHeldError: when another run maintains the checkpoint.
    """
    sent = storage.requests
    must_be_checkpoint(storage)
    must_be_of_query(storage, plan_file.query_id, plan_file.checkpoint)
    work = Work(storage, run, sent, workers=workers)
    with leased(storage, Holder(work.run)) as lease:
        decided = _same(work.reading, plan_file, skew=lease.skew)
        report = work.carry_out(decided, lease, on_outcome, together=True)
        tidy(storage, lease, reading=work.reading)
    return work.counted(report)


def _same(storage: Storage, plan_file: MaintenanceFile, *, skew: float) -> Plan:
    if plan_file.now > storage.now() + MOST_SKEW:
        raise Superseded(storage.root, "the plan's time is in the future, by the storage's clock")
    plan = plan_checkpoint(
        storage, plan_file.policy, request=plan_file.request, as_of=plan_file.now, skew=skew
    )[1]
    if fingerprint(plan) != plan_file.fingerprint:
        skewed = (one.detail for one in plan.findings if one.code is FindingCode.CLOCK_SKEW)
        why = next(skewed, "the plan's files, or the plan itself, have changed")
        raise Superseded(storage.root, why)
    return plan
