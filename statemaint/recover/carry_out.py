"""The common part of repair and rollback: carries out a proved plan under the lease."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, StatemaintError, StorageError, Superseded
from statemaint.execute.fence import PinWatch
from statemaint.execute.lease import leased
from statemaint.execute.ledger import Ledger
from statemaint.execute.store_record import RunContext, StoreRecord
from statemaint.execute.stores import StoreExecutor, need_of
from statemaint.execute.trash import Trash, must_be_as_planned, recovery_notes, rolled_back
from statemaint.fold import Source, engine_for
from statemaint.fold.needs import loading
from statemaint.listing import Entry
from statemaint.maintain.run import alone_since
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import damaged
from statemaint.model.ids import StoreId
from statemaint.plan.actions import StorePlan, WriteSnapshot
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, Rewind
from statemaint.records.claims import Holder, newest
from statemaint.records.runs import RunNote, new_run_id, write_note
from statemaint.report.facts import RunFacts
from statemaint.report.outcome import SnapshotWritten
from statemaint.report.to_json import recovery_fingerprint
from statemaint.storage.base import Check, Storage
from statemaint.wording import Displayed, counted, quoted
from statemaint.workers import Job, Workers, as_they_come, in_order, nothing

Done = Remove | SnapshotWritten
_Step = Remove | WriteSnapshot


@dataclass(frozen=True, slots=True)
class Proved:
    """A recovery plan, and the checkpoint that it was proved on."""

    plan: RecoveryPlan
    checkpoint: Checkpoint  # as a scan saw it without the removed files
    logs: frozenset[Entry]  # the entries of both logs as they were


@dataclass(frozen=True, slots=True, repr=False)
class RecoveryReport(Displayed):
    """The result of a repair or a rollback."""

    run: str  # the id by which `undo` brings the removed files back; empty if nothing was done
    plan: RecoveryPlan
    removed: tuple[Remove, ...] = ()
    written: tuple[SnapshotWritten, ...] = ()

    def _facts(self) -> Iterator[str]:
        yield quoted(self.plan.root)
        yield f"run {self.run}" if self.run else "nothing done"
        yield f"{counted(len(self.removed), 'file')} moved"
        yield f"{counted(len(self.written), 'snapshot')} written"

    def _rows(self) -> Iterator[dict[str, object]]:
        for remove in self.removed:
            yield {"path": remove.path, "reason": remove.reason.words}

    @property
    def record_id(self) -> str:
        return self.run

    @property
    def incomplete(self) -> bool:
        return damaged(self.plan.findings)

    @property
    def work(self) -> RunFacts:
        written, deleted = self.bytes_written, self.bytes_removed
        sums = {"snapshots": len(self.written), "written": written, "deleted": deleted}
        reasons = Counter(remove.reason.value for remove in self.removed)
        return RunFacts(sums=sums, counts={"deleted": dict(reasons)})

    @property
    def bytes_written(self) -> int:
        return sum(snapshot.bytes for snapshot in self.written)

    @property
    def bytes_removed(self) -> int:
        return sum(remove.entry.size for remove in self.removed)


def log_entries(storage: Storage) -> frozenset[Entry]:
    return frozenset(entry for folder in ("commits", "offsets") for entry in storage.list(folder))


def carry_out(
    storage: Storage,
    prove: Callable[[], Proved],
    *,
    trash_for: float,
    expected: str | None,
    workers: Workers | int | None = None,
    first: Check = nothing,
) -> RecoveryReport:
    """Makes a plan and carries it out; writes nothing if there is nothing to do.

    `prove` makes the plan, and is called again if another run may have worked in the meantime.
    `first` is called under the lease, before anything is changed.
    """

    def planned() -> Proved:
        proved = prove()
        if expected is not None and recovery_fingerprint(proved.plan) != expected:
            raise Superseded(proved.plan.root, "the files of the plan have changed")
        return proved

    before, proved = newest(storage), planned()
    if not proved.plan.actions:
        return RecoveryReport("", proved.plan)
    run, started = new_run_id(storage.now()), storage.now()
    with leased(storage, Holder(run)) as lease:
        if not alone_since(before, lease):
            proved = planned()
        ledger, trash = Ledger(storage, run, lease), Trash(storage, run, trash_for)
        recovery = Recovery(storage, proved, ledger, trash, Workers.of(workers))
        first()
        try:
            recovery.carry_out()
        except StatemaintError as error:  # no worker moves any file after it
            if recovery.done:
                recovery.noted(started, error.exit_code)
            if removed := sum(isinstance(outcome, Remove) for outcome in recovery.done):
                are, them = ("is", "it") if removed == 1 else ("are", "them")
                back = f"`statemaint undo` of run {run} brings {them} back"
                error.add_note(f"{counted(removed, 'file')} {are} in the trash already, {back}")
            raise
        return recovery.noted(started)


@dataclass(frozen=True)
class Recovery:
    """Moves files to the trash, and writes replacements.

    Actions on stores come before those on the logs. One worker takes them in the plan's order.
    Several work on a store each, whose actions keep their order: whatever ends the work, a prefix
    of each store's actions is done, and Spark either refuses a store that lacks files or loads the
    right rows.
    """

    storage: Storage
    proved: Proved
    ledger: Ledger
    trash: Trash
    workers: Workers
    done: list[Done] = field(default_factory=list)
    # Of each store: its next snapshot must not replace what is noted of those before.
    _records: dict[StoreId, StoreRecord] = field(default_factory=dict)

    def carry_out(self) -> None:
        # All files are noted in the ledger and in the trash's manifest before the first is moved,
        # with the log that a repair compared them with, or the query's logs.
        storage, plan, checkpoint = self.storage, self.proved.plan, self.proved.checkpoint
        notes = recovery_notes(storage, plan, checkpoint, self.trash.until)
        logs = rolled_back(storage, plan, checkpoint)
        self.must_be_unchanged()
        self.ledger.fence.must_hold()
        if self._removes:
            self.ledger.removing(plan.verb.value, [*self._removes.values()])
            self.trash.announce(notes, plan.verb.value, logs)
        self._on_stores([step for step in plan.actions if step.store is not None])
        if of_logs := [step for step in plan.actions if step.store is None]:
            self.must_be_unchanged()
            deque(self._each(of_logs), maxlen=0)

    def must_be_unchanged(self) -> None:
        if changed := sorted(it.path for it in log_entries(self.storage) ^ self.proved.logs):
            raise Superseded(changed[0], "changed since this was planned; stop the query")
        must_stand(self.storage, self.proved.checkpoint, self.workers)

    def noted(self, started: float, exit_code: int = 0) -> RecoveryReport:
        run, plan = self.ledger.run, self.proved.plan
        place = {(type(step), step.path): number for number, step in enumerate(plan.actions)}
        removed = [outcome for outcome in self.done if isinstance(outcome, Remove)]
        written = [outcome for outcome in self.done if isinstance(outcome, SnapshotWritten)]
        removed.sort(key=lambda remove: place[Remove, remove.path])
        written.sort(key=lambda snapshot: place[WriteSnapshot, snapshot.action.path])
        report = RecoveryReport(run, plan, tuple(removed), tuple(written))
        note = replace(
            RunNote.of_nothing(self.storage, started, self.ledger.fence.number, exit_code),
            snapshots_written=len(written),
            files_deleted=len(removed),
            bytes_written=report.bytes_written,
            bytes_deleted=report.bytes_removed,
        )
        write_note(self.storage, run, "mend", note)
        return report

    def _on_stores(self, steps: Sequence[_Step]) -> None:
        size = _bytes_read(steps)
        threads = self.workers.threads(self.storage.parallel, size)
        groups: dict[StoreId | None, list[_Step]] = defaultdict(list)
        for step in steps:
            groups[None if threads == 1 else step.store].append(step)
        jobs = [
            Job(partial(self._each, group), partial(self._need, group), _bytes_read(group))
            for group in groups.values()
        ]
        budget = self.workers.budget(loading(size, self.proved.checkpoint.provider))
        deque(as_they_come(jobs, threads=threads, budget=budget), maxlen=0)

    def _each(self, steps: Iterable[_Step]) -> Iterator[Done]:
        """Yields each action once it is done; an unconsumed action is not done."""
        for step in steps:
            for done in self._removed(step) if isinstance(step, Remove) else self._written(step):
                self.done.append(done)
                yield done

    def _removed(self, step: Remove) -> Iterator[Remove]:
        self.ledger.fence.check()
        must_be_as_planned(self.storage, step.entry)
        self.trash.put(step.entry)
        yield step

    def _written(self, step: WriteSnapshot) -> Iterator[SnapshotWritten]:
        step, checkpoint = self._with_families(step), self.proved.checkpoint
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
        record = self._records.setdefault(step.store, StoreRecord.of(context, alone.store))
        executor = StoreExecutor.of(alone, source, context, record)
        for outcome in executor.carry_out(verify=True):
            if isinstance(outcome, SnapshotWritten):
                yield outcome

    def _with_families(self, step: WriteSnapshot) -> WriteSnapshot:
        """Returns the step; a zip that names its families may be in the trash by now."""
        if (families := step.families) is None:
            return step
        if families.entry.path not in self._removes:
            return step
        entry = replace(families.entry, path=self.trash.path_of(families.entry))
        return replace(step, families=replace(families, entry=entry))

    def _need(self, steps: Iterable[_Step]) -> int:
        plans = [self._alone(step) for step in steps if isinstance(step, WriteSnapshot)]
        source = partial(Source.of, self.storage, described=self.proved.checkpoint)
        return max((need_of(plan, source(plan.store)) for plan in plans), default=0)

    def _alone(self, step: WriteSnapshot) -> StorePlan:
        if step.store not in self._stores:
            raise Superseded(step.path, "its store was listed when this was planned and is missing")
        return StorePlan(self._stores[step.store], None, (step,), (), ())

    @cached_property
    def _stores(self) -> Mapping[StoreId, Store]:
        return {store.id: store for store in self.proved.checkpoint.stores}

    @cached_property
    def _removes(self) -> Mapping[str, Remove]:
        return {step.path: step for step in self.proved.plan.actions if isinstance(step, Remove)}


def _bytes_read(steps: Iterable[_Step]) -> int:
    return sum(step.chain.size for step in steps if isinstance(step, WriteSnapshot))


def rewind_of(
    storage: Storage,
    checkpoint: Checkpoint,
    entries: Iterable[Entry],
    batch: int | None,
    removes: Iterable[Remove] = (),
) -> Rewind | None:
    # `checkpoint` and the `entries` of its logs are from before anything is removed.
    if batch not in checkpoint.batches:
        return None
    times = {entry.path: entry.modified for entry in entries}
    newest = max(checkpoint.batches)
    sources: tuple[tuple[str, str, str], ...] = ()
    with suppress(CodecError, StorageError):  # only shown
        if newest != batch:
            texts = (storage.read(f"offsets/{number}") for number in (batch, newest))
            before, after = (logs.parse_offsets(text).sources for text in texts)
            sources = tuple((it, before.get(it, "-"), after[it]) for it in after)
    repeated = f"offsets/{batch + 1}" in times.keys() - {remove.path for remove in removes}
    committed = times.get(f"commits/{newest}"), times.get(f"commits/{batch}")
    return Rewind(newest, committed, sources, repeated=repeated)


def must_stand(storage: Storage, checkpoint: Checkpoint, workers: Workers) -> None:
    """Makes sure that the newest committed version still loads from the files that remain.

    Executors that run on delete all below the newest snapshot, which a rollback moves away.
    """
    version = checkpoint.target
    if version is None:
        return
    jobs = [partial(_must_stand, storage, store, version) for store in checkpoint.needed(version)]
    deque(in_order(jobs, threads=workers.threads(storage.parallel, 0)), maxlen=0)


def _must_stand(storage: Storage, store: Store, version: int) -> None:
    listed = {*storage.list(store.id.directory)}
    if missing := sorted(entry.path for entry in _needed(store, version) if entry not in listed):
        detail = (
            f"version {version} is loaded from it, and it was deleted or replaced since this was "
            "planned; stop the query with all its executors"
        )
        raise Superseded(missing[0], detail)


def _needed(store: Store, version: int) -> Iterator[Entry]:
    """Yields the files that a version is loaded from; none if a repair has to write one first."""
    chain = store.versions.chain(version)
    if not isinstance(chain, Chain):
        return
    yield from (delta.entry for delta in chain.deltas)
    if chain.base:
        yield chain.base.entry
        parts = store.rocks.parts.get(chain.base.entry.path, {}) if store.rocks else {}
        yield from (file.entry for file in store.files if file.entry.path in parts)
