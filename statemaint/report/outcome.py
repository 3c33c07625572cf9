"""The outcome of one step, and the report of one store after its steps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import unique
from functools import reduce
from itertools import groupby
from typing import assert_never

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import ChecksumFile, Snapshot, SstFile, StateFile
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation
from statemaint.plan.actions import Attest, Delete, StorePlan, Wait, Withheld, WriteSnapshot
from statemaint.plan.reasons import KeepReason, WithheldReason
from statemaint.plan.snapshots import withheld
from statemaint.wording import Explained


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    """A snapshot is in place."""

    action: WriteSnapshot
    entry: Entry
    attestation: Attestation | None  # `None` when it was not read back
    bytes: int  # 0 when another writer's file of that name already existed and proved to be equal
    checksum: Entry | None = None  # Spark's checksum file, if the snapshot has one
    parts: tuple[Entry, ...] = ()  # the shared files that were written for it
    # The paths of all files that it refers to, with their sizes.
    refers: Mapping[str, int] = field(default_factory=dict)

    @property
    def store(self) -> StoreId:
        return self.action.store

    @property
    def files(self) -> tuple[StateFile, ...]:
        action, beside = self.action, self.checksum
        shared = tuple(SstFile(part) for part in self.parts)
        side = (ChecksumFile(action.version, action.path, beside),) if beside else ()
        return (Snapshot(action.version, self.entry, action.id), *side, *shared)


@dataclass(frozen=True, slots=True)
class Attested:
    """A snapshot by another writer was read and proved correct."""

    action: Attest
    attestation: Attestation

    @property
    def store(self) -> StoreId:
        return self.action.store


@dataclass(frozen=True, slots=True)
class Deleted:
    """A file was deleted."""

    action: Delete

    @property
    def store(self) -> StoreId:
        return self.action.store


@dataclass(frozen=True, slots=True)
class Halted:
    """A store is stopped, because of damage or because its storage failed (S16).

    `finding` is `None` when the checkpoint itself is damaged; that finding is in the plan.
    """

    store: StoreId
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A store was left for the next run: the time ran out, or the query advanced."""

    store: StoreId
    finding: Finding | None = None


Outcome = SnapshotWritten | Attested | Deleted | Halted | Skipped


@unique
class StoreOutcome(Explained):
    """The state of a store after a run."""

    DONE = "done", "its part of the plan is carried out"
    SKIPPED = "skipped", "left for the next run: the time ran out, or the query moved on"
    HALTED = "halted", "damaged, or its storage failed: see its findings"


@dataclass(frozen=True, slots=True)
class EarlierDeeds:
    """What earlier attempts at a run did in a store, of which only the ledger is left."""

    snapshots: int = 0
    written: int = 0
    deleted: Counter[str] = field(default_factory=Counter)
    freed: int = 0


@dataclass(frozen=True, slots=True)
class StoreReport:
    """One store, as a run found it and left it."""

    before: Store
    after: Store
    state: StoreOutcome
    outcomes: tuple[Outcome, ...]  # in order
    findings: tuple[Finding, ...]
    target: int | None  # the run's target version, 0 if that has no such partition
    reclaimable: int = 0  # bytes that a later run will delete, once a snapshot is old enough
    withheld: tuple[Withheld, ...] = ()  # the due snapshots that were not written
    earlier: EarlierDeeds = field(default_factory=EarlierDeeds)  # what lost attempts did

    @property
    def stores(self) -> tuple[Store, Store]:
        return self.before, self.after

    @property
    def _written(self) -> list[SnapshotWritten]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, SnapshotWritten)]

    @property
    def _deletes(self) -> list[Delete]:
        return [outcome.action for outcome in self.outcomes if isinstance(outcome, Deleted)]

    @property
    def snapshots_written(self) -> int:
        return sum(snapshot.bytes > 0 for snapshot in self._written) + self.earlier.snapshots

    @property
    def bytes_written(self) -> int:
        return sum(snapshot.bytes for snapshot in self._written) + self.earlier.written

    @property
    def files_deleted(self) -> Counter[str]:
        return Counter(delete.reason.value for delete in self._deletes) + self.earlier.deleted

    @property
    def bytes_deleted(self) -> int:
        return sum(delete.entry.size for delete in self._deletes) + self.earlier.freed

    @property
    def attestation(self) -> Attestation | None:
        """Returns the attestation of the highest version that still covers its snapshot."""
        entries = {file.entry.path: file.entry for file in self.after.files}
        proofs = (proof for proof in self.after.attestations if proof.path in entries)
        fitting = (proof for proof in proofs if proof.covers(entries[proof.path]))
        return max(fitting, key=lambda proof: proof.version, default=None)


_LATER = (KeepReason.GRACE, KeepReason.LIMIT)


def summarize(plan: StorePlan, outcomes: Iterable[Outcome], target: int | None) -> StoreReport:
    happened = tuple(outcomes)
    ends = [outcome.finding for outcome in happened if isinstance(outcome, Halted | Skipped)]
    new = [finding for finding in ends if finding and finding not in plan.findings]
    return StoreReport(
        before=plan.store,
        after=_after_all(plan.store, happened),
        state=StoreOutcome.HALTED if plan.halted else _state(happened),
        outcomes=happened,
        findings=(*plan.findings, *new),
        target=target,
        reclaimable=_reclaimable(plan, happened),
        withheld=plan.withheld + tuple(_not_reached(plan, happened)),
    )


def _after_all(store: Store, outcomes: Iterable[Outcome]) -> Store:
    for deleting, group in groupby(outcomes, lambda outcome: isinstance(outcome, Deleted)):
        if deleting:  # in one pass, however many there are
            deleted = {each.action.entry for each in group if isinstance(each, Deleted)}
            store = _without(store, deleted)
        else:
            store = reduce(_after, group, store)
    return store


def _after(store: Store, outcome: Outcome) -> Store:
    match outcome:
        case SnapshotWritten(attestation=attestation):
            return _attested(_grown(store, outcome), attestation)
        case Attested(attestation=attestation):
            return _attested(store, attestation)
        case Deleted() | Halted() | Skipped():  # `_after_all` removes deleted files
            return store
        case _:
            assert_never(outcome)


def _grown(store: Store, outcome: SnapshotWritten) -> Store:
    new = {file.entry.path for file in outcome.files}
    kept = (file for file in store.files if file.entry.path not in new)
    rocks = store.rocks and store.rocks.with_parts(outcome.entry.path, outcome.refers)
    return replace(store, files=(*kept, *outcome.files), rocks=rocks)


def _attested(store: Store, attestation: Attestation | None) -> Store:
    if attestation is None:
        return store
    others = (proof for proof in store.attestations if proof.path != attestation.path)
    attestations = sorted((*others, attestation), key=lambda proof: proof.version)
    outdated = tuple(proof for proof in store.outdated if proof.path != attestation.path)
    return replace(store, attestations=tuple(attestations), outdated=outdated)


def _without(store: Store, deleted: set[Entry]) -> Store:
    paths = {entry.path for entry in deleted}
    files = tuple(file for file in store.files if file.entry not in deleted)
    attestations = tuple(proof for proof in store.attestations if proof.path not in paths)
    outdated = tuple(proof for proof in store.outdated if proof.path not in paths)
    return replace(store, files=files, attestations=attestations, outdated=outdated)


def _state(outcomes: tuple[Outcome, ...]) -> StoreOutcome:
    kinds = set(map(type, outcomes))
    if Halted in kinds:
        return StoreOutcome.HALTED
    return StoreOutcome.SKIPPED if Skipped in kinds else StoreOutcome.DONE


def _not_reached(plan: StorePlan, outcomes: tuple[Outcome, ...]) -> Iterator[Withheld]:
    """Yields the planned snapshots that a run did not write, because the store was left."""
    end = next((outcome for outcome in outcomes if isinstance(outcome, Halted | Skipped)), None)
    if end is None:
        return
    written = {outcome.action.path for outcome in outcomes if isinstance(outcome, SnapshotWritten)}
    for action in plan.actions:
        if isinstance(action, WriteSnapshot) and action.path not in written:
            loaded = plan.store.versions.chain(action.version)
            chain = loaded if isinstance(loaded, Chain) else action.chain
            yield withheld(plan.store, chain, action.reason, Wait(_reason(end)))


def _reason(end: Halted | Skipped) -> WithheldReason:
    if isinstance(end, Halted):
        return WithheldReason.HALTED
    return WithheldReason.MOVED_ON if end.finding else WithheldReason.OUT_OF_TIME


def _reclaimable(plan: StorePlan, outcomes: tuple[Outcome, ...]) -> int:
    """Returns the bytes that wait to be deleted: for grace, the limit, or this plan's run."""
    deleted = {outcome.action.entry for outcome in outcomes if isinstance(outcome, Deleted)}
    waiting = {kept.entry for kept in plan.kept if kept.reason in _LATER}
    waiting |= {action.entry for action in plan.actions if isinstance(action, Delete)}
    return sum(entry.size for entry in waiting - deleted)
