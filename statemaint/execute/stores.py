"""Carries out a plan, store by store, one action after the other.

A crash between any two actions leaves every retained version loadable, and the next run continues
where this one ended: a snapshot appears whole or not at all, its proof is durable before anything
below it is deleted (S6, S7), and deletions are in an order of which every prefix is harmless.
"""

from collections.abc import Callable, Iterable, Iterator
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
from statemaint.execute.announced import Announcement, announce
from statemaint.execute.deleter import Deleter
from statemaint.execute.fence import Fence, PinWatch
from statemaint.execute.ledger import Ledger, Noted
from statemaint.execute.memory import bytes_read, need_of
from statemaint.execute.snapshot_writer import SnapshotWriter, StoreFolds
from statemaint.execute.store_record import RunContext, StoreRecord
from statemaint.execute.trash import Trash
from statemaint.fold import Engine, Source, engine_for
from statemaint.fold.needs import loading
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.plan.actions import Action, Attest, Delete, Plan, StorePlan, WriteSnapshot
from statemaint.records.attestations import StoreNotes
from statemaint.report.outcome import Halted, Outcome, Skipped
from statemaint.storage import Storage
from statemaint.workers import Job, Workers, as_they_come

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
    noted: Noted = lambda _path, _content: None,
    together: bool = False,
) -> Iterator[Outcome]:
    """Yields the outcomes of a plan as it is carried out.

    Damage or a failing storage ends the work on its own store only (S16). One worker does an action
    when its outcome is requested. Several work on a store each, the largest first, and run ahead of
    the caller; when it stops, or the lease is lost, each ends after its current action.

    No store is begun once `max_seconds_per_run` have `elapsed`. `noted` is called with the path and
    the content of each store's record that was replaced. With `together` the snapshots of all
    stores are announced together: no other task shares the lease.
    """
    crew, size = Workers.of(workers), sum(map(bytes_read, plan.stores))
    ahead = crew.ahead(storage.parallel, sum(1 for one in plan.stores if one.actions), size)
    ledger = Ledger(storage, run, fence or Fence(), noted)
    context = replace(_context(plan, ledger, engine), ahead=ahead)
    if together and not plan.halted:
        context = replace(context, announcement=_announced(plan, context))
    jobs = [
        Job(
            partial(_of_plan, plan, store, context, elapsed),
            partial(_need, plan, store, context),
            bytes_read(store),
        )
        for store in plan.stores
    ]
    threads, budget = (
        crew.threads(storage.parallel, size),
        crew.budget(loading(size, plan.provider)),
    )
    yield from as_they_come(jobs, threads=threads, budget=budget)
    context.announcement.forget(storage)


def _announced(plan: Plan, context: RunContext) -> Announcement:
    stores: dict[StoreId, StoreNotes] = {}
    paths: list[str] = []
    for store in plan.stores:
        if writes := [one for one in store.actions if isinstance(one, WriteSnapshot)]:
            record = StoreRecord.of(context, store.store)
            paths += record.expect(writes)
            stores[store.store.id] = record.notes
    return announce(context.storage, context.ledger.run, context.fence, stores, paths)


def _need(plan: Plan, store: StorePlan, context: RunContext) -> int:
    if plan.halted or plan.target is None:
        return 0
    return need_of(store, Source.of(context.storage, store.store, plan))


def _of_plan(
    plan: Plan, store: StorePlan, context: RunContext, elapsed: Callable[[], float]
) -> Iterator[Outcome]:
    if plan.halted:
        yield Halted(store.store.id)
    elif plan.target is None or _out_of_time(plan, elapsed()):
        yield Skipped(store.store.id)
    else:
        source = Source.of(context.storage, store.store, plan, ahead=context.ahead)
        yield from _store(StoreExecutor.of(store, source, context), verify=plan.policy.verify)


def _context(plan: Plan, ledger: Ledger, engine: Engine | None) -> RunContext:
    trash_for, storage, run = plan.policy.trash_for, ledger.storage, ledger.run
    return RunContext(
        storage=storage,
        engine=engine or engine_for(sum(map(bytes_read, plan.stores)), plan.provider),
        ledger=ledger,
        fence=ledger.fence,
        pins=PinWatch(storage, plan.floor),
        trash=Trash(storage, run, trash_for) if trash_for else None,
        aside=Trash(storage, run, STALE_FOR),
        target=plan.target,
        commit=plan.commit,
    )


def _out_of_time(plan: Plan, seconds: float) -> bool:
    limit = plan.policy.max_seconds_per_run
    return limit is not None and seconds >= limit


def _store(executor: "StoreExecutor", *, verify: bool) -> Iterator[Outcome]:
    yield from _standing_still(executor.plan)
    try:
        yield from executor.carry_out(verify=verify)
    except Superseded as error:
        yield Skipped(executor.plan.store.id, _finding(executor, FindingCode.SUPERSEDED, error))
    except (CheckpointError, RefusedLinkError, UnreadableError) as error:
        yield Halted(executor.plan.store.id, _finding(executor, FindingCode(error.code), error))
    except UnsupportedError as error:
        yield Halted(executor.plan.store.id, _finding(executor, FindingCode.UNSUPPORTED, error))
    except StorageError as error:
        finding = _finding(executor, FindingCode.STORAGE_FAILED, error)
        yield Halted(executor.plan.store.id, replace(finding, lasting=error.lasting))
    except LeaseLostError:
        raise
    except Exception as error:  # noqa: BLE001 -- our fault in one store must not stop the others
        yield Halted(
            executor.plan.store.id,
            _finding(executor, FindingCode.FAULT, f"{type(error).__name__}: {error}"),
        )


def _standing_still(plan: StorePlan) -> Iterator[Outcome]:
    for finding in plan.findings:
        if finding.damage:
            yield Halted(plan.store.id, finding)
        elif finding.code is FindingCode.SUPERSEDED:
            yield Skipped(plan.store.id, finding)


def _finding(executor: "StoreExecutor", code: FindingCode, error: Exception | str) -> Finding:
    path = getattr(error, "path", None) or None
    return Finding(code, str(error), executor.plan.store.id, path=path)


@dataclass(frozen=True, slots=True)
class StoreExecutor:
    """One store while its plan is carried out."""

    plan: StorePlan
    record: StoreRecord
    writer: SnapshotWriter
    deleter: Deleter

    @classmethod
    def of(cls, plan: StorePlan, source: Source, context: RunContext) -> "StoreExecutor":
        record = StoreRecord.of(context, plan.store)
        folds = StoreFolds(plan.store, replace(source, sums={}), context.engine)
        writer = SnapshotWriter(context, folds, record)
        return cls(plan, record, writer, Deleter(context, writer, record, plan.base))

    def carry_out(self, *, verify: bool) -> Iterator[Outcome]:
        """Yields the outcome of each action; adjacent actions of a kind are done together."""
        self._note_uploads()
        try:
            for _, group in groupby(self.plan.actions, key=type):
                yield from self._same(tuple(group), verify=verify)
        finally:  # a failure after a snapshot does not remove its proof
            self.record.settle()

    def _same(self, actions: tuple[Action, ...], *, verify: bool) -> Iterator[Outcome]:
        """Yields the outcome of each action; each proof is noted before anything else is folded."""
        for writes in _folds(one for one in actions if isinstance(one, WriteSnapshot)):
            yield from self.writer.write(writes, verify=verify)
        for attest in (one for one in actions if isinstance(one, Attest)):
            self.record.settle()
            yield self.writer.attest(attest)
        yield from self.deleter.delete(tuple(one for one in actions if isinstance(one, Delete)))

    def _note_uploads(self) -> None:
        """Records executors' snapshots that the ledger lacks, before any can be deleted."""
        kinds = {type(one) for one in self.plan.actions}
        if WriteSnapshot in kinds:  # uploads are recorded when these are announced
            return
        if (self.plan.unnoted or Delete in kinds) and self.record.noted != self.record.uploads:
            self.record.note()


def _folds(writes: Iterable[WriteSnapshot]) -> Iterator[tuple[WriteSnapshot, ...]]:
    """Yields the snapshots that each fold gives; a store has at most two, target and floor."""
    snapshots = tuple(writes)
    if len(snapshots) == 2 and _share_a_fold(*snapshots):  # noqa: PLR2004
        yield snapshots
    else:
        yield from ((write,) for write in snapshots)


def _share_a_fold(target: WriteSnapshot, floor: WriteSnapshot) -> bool:
    return floor.chain.begins(target.chain) and floor.families == target.families
