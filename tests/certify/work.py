"""What each verb does, on a storage that can be stopped."""

from statemaint.maintain import Holder, end_run, maintain, undo
from statemaint.recover import repair, rollback
from statemaint.report import Report
from tests.certify.seat import Seat
from tests.certify.world import Doer

NEVER = 1 << 60
"""The version that a run goes back to which goes nowhere."""
_KEPT = 1000.0


def stops(doer: Doer) -> bool:
    """Returns whether the query must not run meanwhile."""
    return doer.verb in ("repair", "rollback") or (doer.verb == "undo" and doer.back < NEVER)


def task_work(storage: Seat, doer: Doer) -> Report:
    """Maintains a part, under a lease that others share."""
    holder, workers = shared_by(doer.run), doer.workers
    return maintain(
        storage, doer.policy, request=doer.request, run=doer.run, holder=holder, workers=workers
    )


def end_work(sound: bool, storage: Seat, doer: Doer) -> None:  # noqa: FBT001
    """Ends the run of several tasks, none of which has found damage if it is `sound`."""
    end_run(storage, shared_by(doer.run), sound=sound)


def shared_by(run: str) -> Holder:
    """Returns the holder that all tasks of a run are given."""
    return Holder(run, nonce=f"of {run}")


def undo_work(run: str, storage: Seat, _: Doer) -> None:
    """Undoes a run."""
    undo(storage, run)


def rollback_work(batch: int, storage: Seat, _: Doer) -> None:
    """Goes back to a batch."""
    rollback(storage, batch, trash_for=_KEPT)


def repair_work(storage: Seat, _: Doer) -> None:
    """Repairs what can be."""
    repair(storage, trash_for=_KEPT)
