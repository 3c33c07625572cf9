"""Carries out the plan of one store: snapshots, attestations and deletions, in its order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from statemaint.execute.deleter import Deleter
from statemaint.execute.run_context import RunContext
from statemaint.execute.snapshot_writer import SnapshotWriter
from statemaint.execute.store_folds import StoreFolds
from statemaint.execute.store_record import StoreRecord
from statemaint.fold import Source
from statemaint.plan import Action, Attest, Delete, StorePlan, WriteSnapshot
from statemaint.report import Outcome


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
        if (self.plan.unnoted or Delete in kinds) and not self.record.is_noted:
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
