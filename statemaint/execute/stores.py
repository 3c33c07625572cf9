"""Carries out a plan, store by store, one action after the other.

A crash between any two actions leaves every retained version loadable, and the next run continues
where this one ended: a snapshot appears whole or not at all, its proof is durable before anything
below it is deleted (S6, S7), and deletions are in an order of which every prefix is harmless.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from statemaint.errors import (
    CheckpointError,
    LeaseLostError,
    RefusedLinkError,
    StorageError,
    Superseded,
    UnreadableError,
    UnsupportedError,
)
from statemaint.execute.deleter import Deleter
from statemaint.execute.fence import Fence, PinWatch
from statemaint.execute.ledger import Ledger, Noted
from statemaint.execute.snapshot_writer import SnapshotWriter, StoreFolds
from statemaint.execute.store_record import RunContext, StoreRecord, announce
from statemaint.execute.trash import Trash
from statemaint.fold import Engine, Source, engine_for
from statemaint.fold.needs import chains_need, loading, read_need
from statemaint.model.chain import Chain
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.plan.actions import Action, Attest, Delete, Plan, StorePlan, WriteSnapshot
from statemaint.report.outcome import Halted, Outcome, Skipped
from statemaint.storage import Storage
from statemaint.workers import Job, Workers, as_they_come, nothing

# How long a stale snapshot stays in the trash if other files are deleted immediately.
STALE_FOR = 7 * 86400.0


def execute(  # noqa: PLR0913 -- each is a choice of its own
    plan: Plan,
    storage: Storage,
    *,
    run: str,
    fence: Fence | None = None,
    elapsed: Callable[[], float] = lambda: 0.0,
    engine: Engine | None = None,
    workers: Workers | int | None = None,
    noted: Noted = nothing,
    together: bool = False,
) -> Iterator[Outcome]:
    """Yields the outcomes of a plan as it is carried out.

    Damage or a failing storage ends the work on its own store only (S16). One worker does an action
    when its outcome is requested. Several work on a store each, the largest first, and run ahead of
    the caller; when it stops, or the lease is lost, each ends after its current action.

    No store is begun once `max_seconds_per_run` have `elapsed`. `noted` gets the path and the
    content of each store's record that was replaced. With `together`, which no other task may share
    the lease for, the snapshots of all stores are announced together.
    """
    crew, size = Workers.of(workers), sum(map(bytes_read, plan.stores))
    ahead = crew.ahead(storage.parallel, sum(bool(store.actions) for store in plan.stores), size)
    ledger = Ledger(storage, run, fence or Fence(), noted)
    context = _context(plan, ledger, engine or engine_for(size, plan.provider), ahead)
    if together and not plan.halted:
        context = announce(context, plan.stores)
    jobs = []
    for store in plan.stores:
        start = partial(_of_plan, plan, store, context, elapsed)
        need = partial(_need, plan, store, context)
        jobs.append(Job(start, need, bytes_read(store)))
    budget = crew.budget(loading(size, plan.provider))
    yield from as_they_come(jobs, threads=crew.threads(storage.parallel, size), budget=budget)
    context.announcement.forget(storage)


def _context(plan: Plan, ledger: Ledger, engine: Engine, ahead: int) -> RunContext:
    trash_for, storage, run = plan.policy.trash_for, ledger.storage, ledger.run
    return RunContext(
        storage=storage,
        engine=engine,
        ledger=ledger,
        fence=ledger.fence,
        pins=PinWatch(storage, plan.floor),
        trash=Trash(storage, run, trash_for) if trash_for else None,
        aside=Trash(storage, run, STALE_FOR),
        target=plan.target,
        commit=plan.commit,
        ahead=ahead,
    )


def bytes_read(plan: StorePlan) -> int:
    return sum(chain.size for chain in chains_of(plan))


def chains_of(plan: StorePlan) -> tuple[Chain, ...]:
    chains = [action.chain for action in plan.actions if isinstance(action, WriteSnapshot)]
    chains += [it.instead for it in plan.actions if isinstance(it, Delete) and it.instead]
    chains += [it.against for it in plan.actions if isinstance(it, Attest) and it.against]
    return tuple(chains)


def need_of(plan: StorePlan, source: Source) -> int:
    """Returns an upper estimate of the memory that a store's plan needs, in bytes."""
    if chains := chains_of(plan):
        writes = sum(isinstance(action, WriteSnapshot) for action in plan.actions)
        return chains_need(chains, source, plan.store, writes=writes)
    sizes = (action.snapshot.entry.size for action in plan.actions if isinstance(action, Attest))
    return max((read_need(size, far=source.far) for size in sizes), default=0)


def _need(plan: Plan, store: StorePlan, context: RunContext) -> int:
    if plan.halted or plan.target is None:
        return 0
    return need_of(store, Source.of(context.storage, store.store, plan))


def _of_plan(
    plan: Plan, store: StorePlan, context: RunContext, elapsed: Callable[[], float]
) -> Iterator[Outcome]:
    limit = plan.policy.max_seconds_per_run
    if plan.halted:
        yield Halted(store.store.id)
    elif plan.target is None or (limit is not None and elapsed() >= limit):
        yield Skipped(store.store.id)
    else:
        source = Source.of(context.storage, store.store, plan, ahead=context.ahead)
        yield from _store(StoreExecutor.of(store, source, context), verify=plan.policy.verify)


def _store(executor: "StoreExecutor", *, verify: bool) -> Iterator[Outcome]:
    store = executor.plan.store.id
    for finding in executor.plan.findings:
        if finding.damage:
            yield Halted(store, finding)
        elif finding.code is FindingCode.SUPERSEDED:
            yield Skipped(store, finding)
    try:
        yield from executor.carry_out(verify=verify)
    except LeaseLostError:
        raise
    except Superseded as error:
        yield Skipped(store, _finding(store, FindingCode.SUPERSEDED, error))
    except Exception as error:  # noqa: BLE001 -- our fault in one store must not stop the others
        yield Halted(store, _failure(store, error))


def _failure(store: StoreId, error: Exception) -> Finding:
    match error:
        case CheckpointError() | RefusedLinkError() | UnreadableError():
            return _finding(store, FindingCode(error.code), error)
        case UnsupportedError():
            return _finding(store, FindingCode.UNSUPPORTED, error)
        case StorageError():
            finding = _finding(store, FindingCode.STORAGE_FAILED, error)
            return replace(finding, lasting=error.lasting)
        case _:
            return Finding(FindingCode.FAULT, f"{type(error).__name__}: {error}", store)


def _finding(store: StoreId, code: FindingCode, error: Exception) -> Finding:
    return Finding(code, str(error), store, path=getattr(error, "path", None) or None)


@dataclass(frozen=True, slots=True)
class StoreExecutor:
    """One store while its plan is carried out."""

    plan: StorePlan
    record: StoreRecord
    writer: SnapshotWriter
    deleter: Deleter

    @classmethod
    def of(
        cls,
        plan: StorePlan,
        source: Source,
        context: RunContext,
        record: StoreRecord | None = None,
    ) -> "StoreExecutor":
        """Returns the executor of a plan; a `record` has what the run did in the store before."""
        record = record or StoreRecord.of(context, plan.store)
        folds = StoreFolds(plan.store, replace(source, sums={}), context.engine)
        writer = SnapshotWriter(context, folds, record)
        return cls(plan, record, writer, Deleter(context, writer, record, plan.base))

    def carry_out(self, *, verify: bool) -> Iterator[Outcome]:
        self._note_uploads()
        try:
            for _, group in groupby(self.plan.actions, key=type):
                yield from self._same(tuple(group), verify=verify)
        finally:  # a failure after a snapshot does not remove its proof
            self.record.settle()

    def _same(self, actions: tuple[Action, ...], *, verify: bool) -> Iterator[Outcome]:
        """Yields the outcome of each action; each proof is noted before anything else is folded."""
        writes = tuple(action for action in actions if isinstance(action, WriteSnapshot))
        for snapshots in _folds(writes):
            yield from self.writer.write(snapshots, verify=verify)
        for attest in (action for action in actions if isinstance(action, Attest)):
            self.record.settle()
            yield self.writer.attest(attest)
        deletes = tuple(action for action in actions if isinstance(action, Delete))
        yield from self.deleter.delete(deletes)

    def _note_uploads(self) -> None:
        """Records executors' snapshots that the ledger lacks, before any can be deleted."""
        kinds = {type(action) for action in self.plan.actions}
        if WriteSnapshot in kinds:  # uploads are recorded when these are announced
            return
        if (self.plan.unnoted or Delete in kinds) and self.record.noted != self.record.uploads:
            self.record.note()


def _folds(writes: tuple[WriteSnapshot, ...]) -> list[tuple[WriteSnapshot, ...]]:
    """Returns the snapshots that each fold gives; a store has at most two, target and floor."""
    match writes:
        case (target, floor) if (
            floor.chain.begins(target.chain) and floor.families == target.families
        ):
            return [writes]
        case _:
            return [(write,) for write in writes]
