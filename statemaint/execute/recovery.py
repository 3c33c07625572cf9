"""Carries out a repair or a rollback: moves files to the trash, and writes replacements.

Actions on stores come before those on the logs. One worker takes them in the plan's order. Several
work on a store each, whose actions keep their order: whatever ends the work, a prefix of each
store's actions is done, and Spark either refuses a store that lacks files or loads the right rows.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from statemaint.errors import Superseded
from statemaint.execute.fence import Fence, PinWatch
from statemaint.execute.ledger import Ledger
from statemaint.execute.store_record import RunContext
from statemaint.execute.stores import StoreExecutor, need_of
from statemaint.execute.trash import Trash, must_be_as_planned, recovery_notes, rolled_back
from statemaint.fold import Source, engine_for
from statemaint.fold.needs import loading
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.ids import StoreId
from statemaint.plan.actions import StorePlan, WriteSnapshot
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove
from statemaint.report.outcome import SnapshotWritten
from statemaint.storage import Storage
from statemaint.workers import Job, Workers, as_they_come

Done = Remove | SnapshotWritten
_Step = Remove | WriteSnapshot


def recover(  # noqa: PLR0913 -- each is a fact of its own
    plan: RecoveryPlan,
    storage: Storage,
    checkpoint: Checkpoint,
    *,
    run: str,
    fence: Fence,
    trash_for: float,
    before: Callable[[], object],
    workers: Workers | int | None = None,
    on_done: Callable[[Done], object] = lambda _: None,
) -> None:
    """Carries out the actions of a repair or a rollback.

    Each file is moved only if it is the very file of the plan. All are noted in the ledger and in
    the trash's manifest before the first is moved, with the log that a repair compared them with,
    or the query's logs.

    `checkpoint` is as it will be without the removed files. `before` is called before the first
    move, and before the first move of a log entry. `on_done` is called in the thread that did the
    action.
    """
    ledger, trash = Ledger(storage, run, fence), Trash(storage, run, trash_for)
    removes = [step for step in plan.actions if isinstance(step, Remove)]
    notes = recovery_notes(storage, plan, checkpoint, trash.until)
    logs = rolled_back(storage, plan, checkpoint)
    before()
    fence.must_hold()
    if removes:
        ledger.removing(plan.verb.value, removes)
        trash.announce(notes, plan.verb.value, logs)
    of_stores = [step for step in plan.actions if step.store is not None]
    of_logs = [step for step in plan.actions if step.store is None]
    stores = {store.id: store for store in checkpoint.stores}
    removed = frozenset(step.path for step in removes)
    recovery = _Recovery(storage, checkpoint, stores, ledger, trash, removed, on_done)
    recovery.carry_out(of_stores, workers)
    if of_logs:
        before()
        deque(recovery.each(of_logs), maxlen=0)


@dataclass(frozen=True, slots=True)
class _Recovery:
    storage: Storage
    checkpoint: Checkpoint
    stores: Mapping[StoreId, Store]
    ledger: Ledger
    trash: Trash
    removed: frozenset[str]
    on_done: Callable[[Done], object]

    def carry_out(self, steps: Sequence[_Step], workers: Workers | int | None) -> None:
        crew, size = Workers.of(workers), _bytes_read(steps)
        threads = crew.threads(self.storage.parallel, size)
        groups: dict[StoreId | None, list[_Step]] = defaultdict(list)
        for step in steps:
            groups[None if threads == 1 else step.store].append(step)
        jobs = [
            Job(partial(self.each, group), partial(self._need, group), _bytes_read(group))
            for group in groups.values()
        ]
        budget = crew.budget(loading(size, self.checkpoint.provider))
        deque(as_they_come(jobs, threads=threads, budget=budget), maxlen=0)

    def each(self, steps: Iterable[_Step]) -> Iterator[Done]:
        """Yields each action once it is done; an unconsumed action is not done."""
        for step in steps:
            for done in self._removed(step) if isinstance(step, Remove) else self._written(step):
                self.on_done(done)
                yield done

    def _removed(self, step: Remove) -> Iterator[Remove]:
        self.ledger.fence.check()
        must_be_as_planned(self.storage, step.entry)
        self.trash.put(step.entry)
        yield step

    def _written(self, step: WriteSnapshot) -> Iterator[SnapshotWritten]:
        step, checkpoint = self._with_families(step), self.checkpoint
        alone = self._alone(step)
        source = Source.of(self.storage, alone.store, checkpoint)
        context = RunContext(
            self.storage,
            engine_for(step.chain.size, checkpoint.provider),
            self.ledger,
            self.ledger.fence,
            PinWatch(self.storage, None),  # it deletes nothing
            target=checkpoint.target,
        )
        for outcome in StoreExecutor.of(alone, source, context).carry_out(verify=True):
            if isinstance(outcome, SnapshotWritten):
                yield outcome

    def _with_families(self, step: WriteSnapshot) -> WriteSnapshot:
        """Returns the step; a zip that names its families may be in the trash by now."""
        families = step.families
        if families is None or families.entry.path not in self.removed:
            return step
        entry = replace(families.entry, path=self.trash.path_of(families.entry))
        return replace(step, families=replace(families, entry=entry))

    def _need(self, steps: Iterable[_Step]) -> int:
        plans = [self._alone(step) for step in steps if isinstance(step, WriteSnapshot)]
        source = partial(Source.of, self.storage, described=self.checkpoint)
        return max((need_of(plan, source(plan.store)) for plan in plans), default=0)

    def _alone(self, step: WriteSnapshot) -> StorePlan:
        if step.store not in self.stores:
            raise Superseded(step.path, "its store was listed when this was planned and is missing")
        return StorePlan(self.stores[step.store], None, (step,), (), ())


def _bytes_read(steps: Iterable[_Step]) -> int:
    return sum(step.chain.size for step in steps if isinstance(step, WriteSnapshot))
