"""Carries out a repair or a rollback: moves files to the trash, and writes replacements."""

from collections.abc import Callable, Iterator, Mapping

from statemaint.errors import NotFoundError, Superseded
from statemaint.execute.lease import Fence
from statemaint.execute.ledger import Ledger
from statemaint.execute.run_context import RunContext
from statemaint.execute.store_executor import StoreExecutor
from statemaint.execute.trash import Trash
from statemaint.execute.world import is_same, recovery_notes, rolled_back
from statemaint.fold import Source, engine_for
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.ids import StoreId
from statemaint.plan import RecoveryPlan, Remove, StorePlan, WriteSnapshot
from statemaint.report import SnapshotWritten
from statemaint.storage import Storage


def recover(  # noqa: PLR0913 -- each is a fact of its own
    plan: RecoveryPlan,
    storage: Storage,
    checkpoint: Checkpoint,
    *,
    run: str,
    fence: Fence,
    trash_for: float,
    before: Callable[[], object],
) -> Iterator[Remove | SnapshotWritten]:
    """Yields each action of a repair or a rollback once done; an unconsumed action is not done.

    Each file is moved only if it is the very file of the plan. All are noted in the ledger and in
    the trash's manifest before the first is moved, with the world that they were in: the log that
    a repair compared them with, or the query's logs.

    Args:
        plan: the plan to carry out.
        storage: where its checkpoint lives.
        checkpoint: the checkpoint as it will be without the removed files.
        run: the id under which the ledger notes the actions.
        fence: the lease that the run holds.
        trash_for: seconds that the files are kept at least.
        before: called before the first move, and before the first move of a log entry; whatever it
            raises ends the work.

    Raises:
        LeaseLostError: when another run has taken the lease; nothing more happens.
        Superseded: when a file has changed since planning.
        CheckpointError: when a snapshot does not hold the state that was folded for it.
        StorageError: when the storage fails.
    """
    ledger, trash = Ledger(storage, run, fence), Trash(storage, run, trash_for)
    stores = {store.id: store for store in checkpoint.stores}
    removes = [step for step in plan.actions if isinstance(step, Remove)]
    notes = recovery_notes(storage, plan, checkpoint, trash.until)
    logs = rolled_back(storage, plan, checkpoint)
    before()
    fence.must_hold()
    if removes:
        ledger.removing(plan.verb.value, removes)
        trash.announce(notes, plan.verb.value, logs)
    of_logs = next((step for step in removes if step.store is None), None)
    for step in plan.actions:
        if isinstance(step, Remove):
            if step is of_logs:
                before()
            yield _removed(step, storage, trash, fence)
        else:
            yield from _written(step, stores, storage, checkpoint, ledger, fence)


def _removed(step: Remove, storage: Storage, trash: Trash, fence: Fence) -> Remove:
    fence.check()
    try:
        found = storage.stat(step.path)
    except NotFoundError as error:
        raise Superseded(step.path, "was there when this was planned and is gone") from error
    if not is_same(found, step.entry):
        raise Superseded(step.path, "was replaced since this was planned")
    trash.put(step.entry)
    return step


def _written(
    step: WriteSnapshot,
    stores: Mapping[StoreId, Store],
    storage: Storage,
    checkpoint: Checkpoint,
    ledger: Ledger,
    fence: Fence,
) -> Iterator[SnapshotWritten]:
    store = stores[step.store]
    alone = StorePlan(store, None, (step,), (), ())
    source = Source.of(storage, store, checkpoint)
    engine = engine_for(step.chain.size, checkpoint.provider)
    context = RunContext(storage, engine, ledger, fence, target=checkpoint.target)
    yield from StoreExecutor.of(alone, source, context).writer.write((step,), verify=True)
