"""The common part of repair and rollback: carries out a proved plan under the lease."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, StatemaintError, StorageError, Superseded
from statemaint.execute.lease import leased
from statemaint.execute.recovery import recover
from statemaint.listing import Entry
from statemaint.maintain.run import alone_since
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import damaged
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, Rewind
from statemaint.records.claims import Holder, newest
from statemaint.records.runs import RunNote, new_run_id, write_note
from statemaint.report.facts import RunFacts
from statemaint.report.outcome import SnapshotWritten
from statemaint.report.to_json import recovery_fingerprint
from statemaint.storage import Storage
from statemaint.wording import Displayed, counted, quoted
from statemaint.workers import Workers, in_order, nothing


@dataclass(frozen=True, slots=True)
class Proved:
    """A recovery plan, and the checkpoint that it was proved on.

    Attributes:
        checkpoint: the checkpoint as a scan saw it without the removed files.
        logs: the entries of both logs as they were.
    """

    plan: RecoveryPlan
    checkpoint: Checkpoint
    logs: frozenset[Entry]


@dataclass(frozen=True, slots=True, repr=False)
class RecoveryReport(Displayed):
    """The result of a repair or a rollback.

    Attributes:
        run: the id by which `undo` brings the removed files back; empty if nothing was done.
    """

    run: str
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
        """Whether damage remains."""
        return damaged(self.plan.findings)

    @property
    def work(self) -> RunFacts:
        """What it did, for the record; a file in the trash counts as deleted."""
        sums = {
            "snapshots": len(self.written),
            "written": self.bytes_written,
            "deleted": self.bytes_removed,
        }
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
    first: Callable[[], object] = nothing,
) -> RecoveryReport:
    """Makes a plan and carries it out; writes nothing if there is nothing to do.

    `prove` makes the plan, and is called again if another run may have worked in the meantime.
    `first` is called under the lease, before anything is changed.
    `expected` is the fingerprint that the plan must have; `None` for any.

    Raises:
        Superseded: when the plan has another fingerprint, or the logs or a file have changed, which
            includes the remaining files that the newest version needs.
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

        def unchanged() -> None:
            if changed := sorted(entry.path for entry in log_entries(storage) ^ proved.logs):
                raise Superseded(changed[0], "changed since this was planned; stop the query")
            must_stand(storage, proved.checkpoint, workers)

        done: list[Remove | SnapshotWritten] = []

        def noted(exit_code: int = 0) -> RecoveryReport:
            result = _report(run, proved.plan, done)
            note = RunNote(
                started=started,
                ended=storage.now(),
                fence=lease.number,
                snapshots_written=len(result.written),
                files_deleted=len(result.removed),
                bytes_written=result.bytes_written,
                bytes_deleted=result.bytes_removed,
                exit_code=exit_code,
            )
            write_note(storage, run, "mend", note)
            return result

        first()
        with _counting(run, done, noted):
            recover(proved.plan, storage, proved.checkpoint, run=run, fence=lease, workers=workers,
                    trash_for=trash_for, before=unchanged, on_done=done.append)  # fmt: skip
        return noted()


def rewind_of(
    storage: Storage,
    checkpoint: Checkpoint,
    entries: Iterable[Entry],
    batch: int | None,
    removes: Iterable[Remove] = (),
) -> Rewind | None:
    """Returns what the logs record of going back to a committed batch.

    Args:
        storage: where the checkpoint lives.
        checkpoint: its scan, before anything is removed.
        entries: those of its logs.
        batch: the batch that stays.
        removes: what goes.
    """
    if batch not in checkpoint.batches:
        return None
    times = {entry.path: entry.modified for entry in entries}
    newest = max(checkpoint.batches)
    sources = () if newest == batch else _sources(storage, batch, newest)
    repeated = f"offsets/{batch + 1}" in times.keys() - {remove.path for remove in removes}
    committed = times.get(f"commits/{newest}"), times.get(f"commits/{batch}")
    return Rewind(newest, committed, sources, repeated=repeated)


def _sources(storage: Storage, batch: int, newest: int) -> tuple[tuple[str, str, str], ...]:
    try:
        before, after = (
            logs.parse_offsets(storage.read(f"offsets/{number}")).sources
            for number in (batch, newest)
        )
    except (CodecError, StorageError):  # only shown
        return ()
    return tuple((source, before.get(source, "-"), after[source]) for source in after)


@contextmanager
def _counting(
    run: str, done: Sequence[Remove | SnapshotWritten], noted: Callable[[int], object]
) -> Iterator[None]:
    """Records what was done before an error, and adds the number of moved files to the error.

    No worker moves any after it.
    """
    try:
        yield
    except StatemaintError as error:
        if done:
            noted(error.exit_code)
        if removed := sum(isinstance(outcome, Remove) for outcome in done):
            are, them = ("is", "it") if removed == 1 else ("are", "them")
            back = f"`statemaint undo` of run {run} brings {them} back"
            error.add_note(f"{counted(removed, 'file')} {are} in the trash already, {back}")
        raise


def _report(
    run: str, plan: RecoveryPlan, done: Iterable[Remove | SnapshotWritten]
) -> RecoveryReport:
    place = {(type(step), step.path): number for number, step in enumerate(plan.actions)}
    removed = [outcome for outcome in done if isinstance(outcome, Remove)]
    written = [outcome for outcome in done if isinstance(outcome, SnapshotWritten)]
    removed.sort(key=lambda remove: place[Remove, remove.path])
    written.sort(key=lambda snapshot: place[WriteSnapshot, snapshot.action.path])
    return RecoveryReport(run, plan, tuple(removed), tuple(written))


def must_stand(storage: Storage, checkpoint: Checkpoint, workers: Workers | int | None) -> None:
    """Makes sure that the newest committed version still loads from the files that remain.

    Executors that run on delete what they no longer need: all below the newest snapshot, which a
    rollback moves away.

    `checkpoint` is as it will be without the removed files.
    """
    version = checkpoint.target
    if version is None:
        return
    jobs = [partial(_must_stand, storage, store, version) for store in checkpoint.needed(version)]
    threads = Workers.of(workers).threads(storage.parallel, 0)
    deque(in_order(jobs, threads=threads), maxlen=0)


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
