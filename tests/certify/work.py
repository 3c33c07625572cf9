"""What each verb does, on a storage that can be stopped."""

from statemaint.errors import StatemaintError
from statemaint.maintain import maintain, undo
from statemaint.maintain.run import end_run
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.records.claims import Holder
from statemaint.recover import repair, rollback
from statemaint.report.run import Report
from statemaint.scan.handover import Handover, Recorder
from tests.certify.seat import Seat
from tests.certify.world import Doer

NEVER = 1 << 60
"""The version that a run goes back to which goes nowhere."""
_KEPT = 1000.0


def stops(doer: Doer) -> bool:
    """Returns whether the query must not run meanwhile."""
    return doer.verb in ("repair", "rollback") or (doer.verb == "undo" and doer.back < NEVER)


def plan_work(storage: Seat, policy: Policy) -> Handover | None:
    """Returns what the plan of a run hands to its tasks; `None` where it has none for them."""
    recorder = Recorder(storage)
    try:
        checkpoint, plan = plan_checkpoint(recorder, policy)
    except StatemaintError:
        return None
    if plan.halted or plan.target is None:
        return None
    return Handover.from_json(recorder.handover(checkpoint).to_json())


def task_work(handover: Handover | None, storage: Seat, doer: Doer) -> Report:
    """Maintains a part, under a lease that others share."""
    return maintain(
        storage,
        doer.policy,
        request=doer.request,
        run=doer.run,
        holder=shared_by(doer.run),
        workers=doer.workers,
        handover=handover,
    )


def end_work(sound: bool, storage: Seat, doer: Doer) -> None:  # noqa: FBT001
    """Ends the run of several tasks, none of which has found damage if it is `sound`."""
    end_run(storage, shared_by(doer.run), sound=sound)


def shared_by(run: str) -> Holder:
    return Holder(run, nonce=f"of {run}")


def undo_work(run: str, storage: Seat, _: Doer) -> None:
    undo(storage, run)


def rollback_work(batch: int, storage: Seat, _: Doer) -> None:
    rollback(storage, batch, trash_for=_KEPT)


def repair_work(storage: Seat, _: Doer) -> None:
    repair(storage, trash_for=_KEPT)
