"""The outcome of one step, and the report of one run."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import unique

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import ChecksumFile, Snapshot, SstFile, StateFile
from statemaint.model.findings import OF_STORAGE, Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation
from statemaint.model.verdict import Verdict, worst
from statemaint.plan.actions import Attest, Delete, Plan, Withheld, WriteSnapshot
from statemaint.plan.reasons import WithheldReason
from statemaint.plan.withheld import long_waits
from statemaint.wording import Explained


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    """A snapshot is in place; `attestation` is `None` when it was not read back.

    `bytes` is 0 when another writer's file of that name already existed and proved to be equal;
    `checksum` is Spark's checksum file, if the snapshot has one. `parts` are the shared files that
    were written for it, `refers` the paths of all files that it refers to, with their sizes.
    """

    action: WriteSnapshot
    entry: Entry
    attestation: Attestation | None
    bytes: int
    checksum: Entry | None = None
    parts: tuple[Entry, ...] = ()
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
    """One store after a run.

    Attributes:
        before: the store as the run found it; `after` as the run left it.
        outcomes: its outcomes, in order.
        target: the run's target version.
        reclaimable: bytes that a later run will delete, once a snapshot is old enough.
        withheld: the due snapshots that were not written.
        earlier: what lost attempts at the run did.
    """

    before: Store
    after: Store
    state: StoreOutcome
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]
    target: int | None
    reclaimable: int = 0
    withheld: tuple[Withheld, ...] = ()
    earlier: EarlierDeeds = field(default_factory=EarlierDeeds)

    @property
    def stores(self) -> tuple[Store, Store]:
        return self.before, self.after

    @property
    def snapshots_written(self) -> int:
        own = sum(1 for one in self.outcomes if isinstance(one, SnapshotWritten) and one.bytes)
        return own + self.earlier.snapshots

    @property
    def bytes_written(self) -> int:
        own = sum(one.bytes for one in self.outcomes if isinstance(one, SnapshotWritten))
        return own + self.earlier.written

    @property
    def files_deleted(self) -> Counter[str]:
        own = (one.action.reason.value for one in self.outcomes if isinstance(one, Deleted))
        return Counter(own) + self.earlier.deleted

    @property
    def bytes_deleted(self) -> int:
        own = sum(one.action.entry.size for one in self.outcomes if isinstance(one, Deleted))
        return own + self.earlier.freed

    @property
    def attestation(self) -> Attestation | None:
        """Returns the attestation of the highest version that still covers its snapshot."""
        entries = {file.entry.path: file.entry for file in self.after.files}
        proofs = (one for one in self.after.attestations if one.path in entries)
        fitting = (one for one in proofs if one.covers(entries[one.path]))
        return max(fitting, key=lambda one: one.version, default=None)


@dataclass(frozen=True, slots=True)
class Emptied:
    """What a run deleted from the trash, because it had expired there; manifests do not count.

    `finding` is why expired files are left; `None` if none are.
    """

    files: int = 0
    bytes: int = 0
    finding: Finding | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (self.finding,) if self.finding else ()


WORST_FIRST = (1, 5, 3, 2, 4, 6, 0)
"""The exit codes: of several, the first one counts."""


def worst_code(codes: Iterable[int]) -> int:
    return min(codes, key=WORST_FIRST.index, default=0)


def exit_code_of(findings: Iterable[Finding]) -> int:
    return worst_code(map(_exit_code, findings))


def _exit_code(finding: Finding) -> int:
    if finding.code is FindingCode.FAULT:
        return 1
    if finding.code in OF_STORAGE:
        return 5
    if finding.damage:
        return 3
    return 6 if finding.code is FindingCode.SUPERSEDED else 0


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one run.

    Attributes:
        run: the run's id.
        plan: the run's plan.
        stores: one report for each requested store.
        started: seconds since the epoch, by the storage's clock.
        seconds: the duration of the run.
        dry_run: whether nothing was carried out.
        peak_memory: the process's peak memory up to the end of the run, in bytes.
        requests: the number of requests that the run made to its storage, by the storage's own
            verbs.
        emptied: what it deleted from the trash, which is in no other figure.
    """

    run: str
    plan: Plan
    stores: tuple[StoreReport, ...]
    started: float
    seconds: float
    dry_run: bool = False
    peak_memory: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    emptied: Emptied = Emptied()

    @property
    def findings(self) -> tuple[Finding, ...]:
        left = (one for one in self.withheld if one.wait.reason is WithheldReason.OUT_OF_TIME)
        of_stores = (one for store in self.stores for one in store.findings)
        return (*self.plan.findings, *of_stores, *long_waits(left), *self.emptied.findings)

    @property
    def withheld(self) -> tuple[Withheld, ...]:
        return tuple(one for store in self.stores for one in store.withheld)

    @property
    def before(self) -> tuple[Store, ...]:
        return tuple(one.before for one in self.stores)

    @property
    def after(self) -> tuple[Store, ...]:
        return tuple(one.after for one in self.stores)

    @property
    def snapshots_written(self) -> int:
        return sum(one.snapshots_written for one in self.stores)

    @property
    def bytes_written(self) -> int:
        return sum(one.bytes_written for one in self.stores)

    @property
    def files_deleted(self) -> Counter[str]:
        return sum((one.files_deleted for one in self.stores), Counter())

    @property
    def bytes_deleted(self) -> int:
        return sum(one.bytes_deleted for one in self.stores)

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.findings)

    @property
    def verdict(self) -> Verdict:
        """Returns the plan's verdict, or a worse one by what the run has read."""
        read = (_verdict(store, one) for store in self.stores for one in store.findings)
        return worst((self.plan.verdict, *read))


def _verdict(store: StoreReport, finding: Finding) -> Verdict:
    if finding.code is FindingCode.STORAGE_FAILED:
        return Verdict.UNKNOWN
    if not finding.damage or store.target is None:
        return Verdict.HEALTHY
    versions, path = store.before.versions, finding.path or ""
    chain = versions.chain(store.target)
    if not isinstance(chain, Chain) or path not in chain.paths:
        return Verdict.DEGRADED
    rest = versions.without({path}).chain(store.target)  # Spark 4.2 passes over a bad snapshot
    return Verdict.DEGRADED if isinstance(rest, Chain) and rest != chain else Verdict.BROKEN
