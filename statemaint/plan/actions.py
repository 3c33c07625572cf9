"""The parts of a plan. Every kept or deleted file has a reason from a closed set."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import and_

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider, Store, asks, target_of
from statemaint.model.files import Snapshot
from statemaint.model.findings import Finding, damaged
from statemaint.model.ids import StoreId, UnitId
from statemaint.model.pins import Pin
from statemaint.model.policy import Policy
from statemaint.model.restart_time import NO_FORECAST, Forecast
from statemaint.model.verdict import Verdict
from statemaint.plan.reasons import (
    AttestReason,
    DeleteReason,
    KeepReason,
    SnapshotReason,
    WithheldReason,
)
from statemaint.plan.uploads import observed
from statemaint.wording import Displayed, counted, quoted


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Fold a chain and write the snapshot of its version."""

    store: StoreId
    path: str
    chain: Chain
    reason: SnapshotReason
    checksum: bool = False  # whether it gets a Spark checksum file, as the query's newest files do
    id: str | None = None  # the unique id of the version, if versions have one
    families: Snapshot | None = None  # the zip that names the column families of that version
    reuse: bool = False  # whether the new zip may refer to shared files of the chain's base

    @property
    def version(self) -> int:
        return self.chain.version

    @property
    def like(self) -> str:
        """Returns the path of its newest change, which has the same readers as the snapshot."""
        return self.chain.deltas[-1].entry.path


@dataclass(frozen=True, slots=True)
class Wait:
    """What a due snapshot waits for."""

    reason: WithheldReason  # why it is not written
    version: int | None = None  # the committed version that ends it at the latest, if one does
    time: float | None = None  # the time in seconds since the epoch that ends it, if one does


@dataclass(frozen=True, slots=True)
class Withheld:
    """A due snapshot that is not written: its chain is over the limit, or the run requests it."""

    store: StoreId
    version: int
    due: SnapshotReason
    deltas: int  # of its chain
    seconds: float  # that loading it takes
    wait: Wait


@dataclass(frozen=True, slots=True)
class Attest:
    """Read a snapshot back whole and compare it with the fold of the files below it (S6)."""

    store: StoreId
    snapshot: Snapshot
    against: Chain | None  # `None` if these are already deleted: it is then only decoded whole
    reason: AttestReason = AttestReason.BASE_OF_DELETION
    doubts: tuple[Entry, ...] = ()  # files of the log below that another than the query replaced
    why: str = ""  # ends the sentence that reports a mismatch

    @property
    def path(self) -> str:
        return self.snapshot.entry.path

    @property
    def version(self) -> int:
        return self.snapshot.version


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one file of a store."""

    store: StoreId
    version: int  # 0 if snapshots of any version may share it
    entry: Entry
    reason: DeleteReason
    instead: Chain | None = None  # gives a stale snapshot's version without it; it must fold first

    @property
    def path(self) -> str:
        return self.entry.path

    @property
    def rank(self) -> int:
        """Returns its rank in the order: shared files last, a checksum before its file (S7)."""
        return 2 * (self.version == 0) + (self.reason in _FILES)

    @property
    def order(self) -> tuple[bool, int, int, str]:
        return self.version == 0, self.version, self.rank, self.path


_FILES = (
    DeleteReason.BELOW_BASE,
    DeleteReason.DEAD_ATTEMPT,
    DeleteReason.UNUSED_SST,
    DeleteReason.ORPHAN_SST,
    DeleteReason.STALE_SNAPSHOT,
    DeleteReason.OLD_PARTITION,
)

Action = WriteSnapshot | Attest | Delete


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept file and the reason."""

    entry: Entry
    reason: KeepReason


@dataclass(frozen=True, slots=True)
class Request:
    """The scope of one run, in addition to the policy; an empty set is without limit."""

    # The version to snapshot, fixed by the first plan of a run so that all partitions end with one
    # common version; the newest committed one by default.
    target: int | None = None
    force_snapshot: bool = False  # snapshot the target however short its chain is
    operators: frozenset[int] = frozenset()
    partitions: frozenset[int] = frozenset()
    stores: frozenset[str] = frozenset()
    # What the first plan of a run made of `restart_within`, as for `Window`: it saw every store.
    snapshots_from: float | None = None

    @property
    def is_partial(self) -> bool:
        return bool(self.operators or self.partitions or self.stores)

    def covers(self, store: StoreId) -> bool:
        return (
            (not self.operators or store.operator in self.operators)
            and (not self.partitions or store.partition in self.partitions)
            and (not self.stores or store.store in self.stores)
        )


@dataclass(frozen=True, slots=True)
class Window:
    """The versions that a store's plan keeps loadable, `floor` to `target`, at time `now`."""

    floor: int
    required: int  # the oldest version that the commit log still requires
    target: int  # the newest version that the plan considers
    newest: int  # the newest committed version: above a target that was fixed earlier
    now: float
    policy: Policy
    force_snapshot: bool = False
    skewed: bool = False  # clocks disagree, so ages mean nothing and nothing is deleted
    forced: frozenset[int] = frozenset()  # the operators whose first batch has to write a zip
    # The seconds of replay from which a chain is due; by its length where they are negative.
    snapshots_from: float = -1.0

    @property
    def hold(self) -> KeepReason | None:
        """Returns why nothing at all may be deleted; `None` if deletion is allowed."""
        if self.skewed:
            return KeepReason.CLOCK_SKEW
        return None if self.policy.verify else KeepReason.VERIFY_OFF

    def guard(self, entry: Entry) -> KeepReason | None:
        """Returns why an orphan is kept: the hold or its age; `None` if it may be deleted."""
        old = self.is_older(entry, self.policy.orphan_age)
        return self.hold or (None if old else KeepReason.YOUNG)

    def is_older(self, entry: Entry, age: float) -> bool:
        """Returns whether a file is at least `age` seconds old; an unknown age never is (S5)."""
        return entry.modified is not None and self.now - entry.modified >= age


@dataclass(frozen=True, slots=True)
class StorePlan:
    """The plan for one store."""

    store: Store
    # The path of the snapshot that every deletion below it relies on, if there is one. Without an
    # attestation of it nothing is deleted.
    base: str | None
    actions: tuple[Action, ...]  # in the order in which they must happen
    kept: tuple[Kept, ...]
    findings: tuple[Finding, ...]
    withheld: tuple[Withheld, ...] = ()

    @property
    def halted(self) -> bool:
        return damaged(self.findings)

    @property
    def unnoted(self) -> bool:
        """Returns whether the ledger does not list all uploads of executors yet (S9).

        They are noted when first seen: the next scan may find them deleted.
        """
        return self.store.rocks is not None and observed(self.store) != self.store.uploads


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Displayed):
    """Everything that one run would do; a value."""

    root: str
    query_id: str
    committed: int | None
    target: int | None
    floor: int | None  # the oldest version that stays loadable; `None` when there is none
    policy: Policy
    stores: tuple[StorePlan, ...]
    findings: tuple[Finding, ...]
    codec: str = "lz4"
    row_checksums: bool = False
    provider: Provider = Provider.HDFS_BACKED
    now: float = 0.0
    request: Request = field(default_factory=Request)
    unclassified: tuple[Kept, ...] = ()
    commit: Entry | None = None
    silent_after: float = 0.0  # the age of `commit` from which the query may have stopped
    counts: Mapping[int, int] = field(default_factory=dict)  # of each batch, once repartitioned
    pins: tuple[Pin, ...] = ()
    verdict: Verdict = Verdict.HEALTHY
    forecast: Forecast = NO_FORECAST  # of restarts, before and after
    snapshots_from: float | None = None  # what the tasks of the run are told, if there is a limit

    def _facts(self) -> Iterator[str]:
        kinds = Counter(type(action) for action in self.actions)
        yield quoted(self.root)
        yield f"{counted(kinds[WriteSnapshot], 'snapshot')} to write"
        yield f"{counted(kinds[Delete], 'file')} to delete"
        yield counted(len(self.stores), "store")
        yield self.verdict

    def _rows(self) -> Iterator[dict[str, object]]:
        for plan in sorted(self.stores, key=lambda plan: (not plan.halted, -len(plan.actions))):
            kinds = Counter(type(action) for action in plan.actions)
            yield {
                **plan.store.id.columns,
                "write": "halted" if plan.halted else kinds[WriteSnapshot],
                "attest": kinds[Attest],
                "delete": kinds[Delete],
            }

    def target_of(self, store: StoreId) -> int | None:
        return target_of(self.counts, store, self.target)

    @property
    def loadable(self) -> int:
        """Returns the number of versions from floor to target that load in all of its stores."""
        if self.floor is None or self.target is None:
            return 0
        return len([*self._loadable(self.floor, self.target)])

    @property
    def newest_loadable(self) -> int | None:
        """Returns the newest version up to the target that loads in all of its stores."""
        if self.target is None:
            return None
        if any(self._loadable(self.target, self.target)):
            return self.target
        return max(self._loadable(1, self.target), default=None)

    def _loadable(self, first: int, last: int) -> Iterable[int]:
        if not self.counts:
            # Two stores at a time: of thousands, all versions together are gigabytes.
            sets = (plan.store.versions.loadable(first, last) for plan in self.stores)
            return reduce(and_, sets, next(sets, frozenset[int]()))
        loads = Counter[int]()
        for store in (plan.store for plan in self.stores):
            versions = store.versions.loadable(first, last)
            loads.update(version for version in versions if asks(self.counts, store.id, version))
        ids = [plan.store.id for plan in self.stores]
        needed = {version: sum(asks(self.counts, id_, version) for id_ in ids) for version in loads}
        return (version for version, count in loads.items() if count == needed[version])

    @property
    def halted(self) -> bool:
        return damaged(self.findings)

    @property
    def idle(self) -> bool:
        return self.halted or not any(store.actions or store.unnoted for store in self.stores)

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for store in self.stores for action in store.actions)

    @property
    def withheld(self) -> tuple[Withheld, ...]:
        return tuple(withheld for store in self.stores for withheld in store.withheld)

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        of_stores = (finding for store in self.stores for finding in store.findings)
        return (*self.findings, *of_stores)

    @property
    def units(self) -> tuple[UnitId, ...]:
        busy = (plan for plan in self.stores if plan.actions or plan.halted or plan.unnoted)
        return tuple(sorted({plan.store.id.unit for plan in busy}))
