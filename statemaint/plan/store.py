"""The decision for one store.

What is deleted lies below the *base*: the newest snapshot, at or below the floor, that is old
enough to be relied on (S4) and is, or will first be, attested (S6). Everything that a version from
the floor to the target needs lies at the base or above it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from statemaint.listing import Entry
from statemaint.model.chain import Chain, Gap, Versions, lone_side_files
from statemaint.model.checkpoint import Store
from statemaint.model.files import (
    Delta,
    SharedFile,
    SideFile,
    Snapshot,
    StateFile,
    TempFile,
    UnknownFile,
    spark_checksums,
)
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.model.policy import Policy
from statemaint.plan.actions import (
    Action,
    Attest,
    Delete,
    DeleteReason,
    KeepReason,
    Kept,
    SnapshotReason,
    StorePlan,
    WriteSnapshot,
)
from statemaint.plan.comparisons import comparisons, in_doubt
from statemaint.plan.shared import (
    Fate,
    executors_upload,
    last_user,
    may_share,
    overtakes,
    settled,
    shared_fate,
    snapshots_of,
)
from statemaint.plan.staleness import Judgement, was_replaced

# What may only go because of a proved snapshot that takes its place.
RELY_ON_BASE = (DeleteReason.BELOW_BASE, DeleteReason.SIDE_FILE, DeleteReason.UNUSED_SST)


@dataclass(frozen=True, slots=True)
class Window:
    """What a decision is made for: versions `floor` to `target` stay loadable at time `now`.

    `required` is the oldest version that the commit log still asks for, `newest` its last one,
    which lies above the target where the query has gone on since the target was fixed.
    """

    floor: int
    required: int
    target: int
    now: float
    force_snapshot: bool
    policy: Policy
    newest: int
    skewed: bool = False  # ages mean nothing, so nothing is deleted
    forced: frozenset[int] = frozenset()  # the operators whose first batch has to write a zip


def halt(store: Store, findings: tuple[Finding, ...]) -> StorePlan:
    """Returns the plan that touches nothing of a store (S16)."""
    kept = tuple(Kept(file.entry, KeepReason.HALTED) for file in store.files)
    return StorePlan(store, None, (), kept, findings)


def decide(
    store: Store, window: Window, findings: tuple[Finding, ...], judgement: Judgement
) -> StorePlan:
    """Returns what happens in a store, with a reason for each of its files."""
    if damaged(findings):
        return halt(store, findings)
    versions = judgement.without_stale(store).versions
    loads = versions.loadable(window.floor, window.target)
    if window.target not in loads:
        return halt(store, (*findings, _moved_on(store, window)))
    return _Decision(store, window, min(loads), judgement, versions).plan(findings)


def _moved_on(store: Store, window: Window) -> Finding:
    detail = (
        f"{store.id.directory}: version {window.target} is no longer retained; the query moved on "
        "since this run was planned"
    )
    return Finding(FindingCode.SUPERSEDED, detail, store.id, window.target)


class _Decision:
    """One store's decision while it is being made; `floor` is the lowest version that loads.

    `versions` are those without stale snapshots: these are about to go, and nothing is loaded, or
    folded, or deleted on the strength of them.
    """

    def __init__(
        self, store: Store, window: Window, floor: int, judgement: Judgement, versions: Versions
    ) -> None:
        self.store, self.window, self.floor, self.judgement = store, window, floor, judgement
        self.versions = versions
        self.stale = {one.path: one for one in judgement.stale}
        self.uploading = executors_upload(store, window.required, window.target)
        self.settled = settled(store, window.target)
        self.checksums = spark_checksums(store.files)
        self.lone = {side.entry.path: side for side in lone_side_files(store.files)}
        self.proved = frozenset(self._proved())
        self.doubted = frozenset(in_doubt(store, judgement))
        self.writes = tuple(self._writes())
        self.compared = tuple(self._compared())
        self.base = self._base()
        self.eventual = self._eventual()

    def plan(self, findings: tuple[Finding, ...]) -> StorePlan:
        fates = self._fates()
        cleared = tuple(self._cleared(fates))
        deletes = self._deletes(fates, {delete.entry for delete in cleared})
        attest = self._attest() if any(one.reason in RELY_ON_BASE for one in deletes) else ()
        kept = tuple(
            Kept(entry, fate)
            for entry, fate in sorted(fates.items())
            if isinstance(fate, KeepReason)
        )
        actions: tuple[Action, ...] = (
            *self.compared, *cleared, *self.writes, *attest, *deletes,
        )  # fmt: skip
        base = self.base.entry.path if self.base else None
        return StorePlan(self.store, base, actions, kept, findings)

    # -- snapshots to write

    def _writes(self) -> Iterator[WriteSnapshot]:
        # The target comes first: were the floor's snapshot there already, its chain could look
        # short, and a run that was interrupted in between would not end as one that was not.
        if reason := self._target_reason():
            yield self._write(self.window.target, reason)
        long = self._long(self._length(self.floor))
        rebase = self.window.policy.rebase and self.floor != self.window.target
        if rebase and long and self._may_write(self.floor):
            yield self._write(self.floor, SnapshotReason.REBASE)

    def _target_reason(self) -> SnapshotReason | None:
        length = self._length(self.window.target)
        if not length or not self._may_write(self.window.target):
            return None
        if self._long(length):
            return SnapshotReason.CHAIN_TOO_LONG
        return SnapshotReason.FORCED if self.window.force_snapshot else None

    def _length(self, version: int) -> int:
        return len(_chain(self.versions, version).deltas)

    def _long(self, length: int) -> bool:
        # Spark's two providers differ by one.
        least = self.window.policy.min_deltas_for_snapshot + (self.store.rocks is None)
        return length >= least

    def _may_write(self, version: int) -> bool:
        # A zip that lacks a table is in the way of a whole one; a stale snapshot goes first.
        if version in self.doubted:
            return False
        path = self._snapshot_path(version)
        there = any(file.entry.path == path for file in self.store.files) and not self._goes(path)
        asked = (self.window.required, self.window.target, self.window.newest, self.window.forced)
        if there or overtakes(self.store, version, *asked):
            return False
        # A checksum that outlived its snapshot would condemn the new one. It goes first; while it
        # is too young to be nobody's, the snapshot waits.
        fates = (self._orphan(side.entry) for side in self._lone_of(version))
        return all(isinstance(fate, DeleteReason) for fate in fates)

    def _lone_of(self, version: int) -> tuple[SideFile, ...]:
        return tuple(one for one in self.lone.values() if one.owner == self._snapshot_path(version))

    def _goes(self, path: str) -> bool:
        """Returns whether a stale snapshot is about to go."""
        return path in self.stale and not self._keeps_all()

    def _cleared(self, fates: dict[Entry, Fate]) -> Iterator[Delete]:
        """Yields what is in the way of the snapshots to write, a checksum before its file."""
        for write in self.writes:
            for side in self._lone_of(write.version):
                yield Delete(self.store.id, side.version, side.entry, DeleteReason.STALE_SIDE)
        in_the_way = [write.version for write in self.writes if write.path in self.stale]
        if in_the_way:
            yield from self._stale_up_to(fates, max(in_the_way))

    def _stale_up_to(self, fates: dict[Entry, Fate], version: int) -> Iterator[Delete]:
        """Yields the deletions of stale snapshots and what lies beside them, the lowest first."""
        # One hides those below: a restart would begin with one of them once it alone is gone.
        sides = {one.entry.path: one.owner for one in self.store.files if isinstance(one, SideFile)}
        for delete in self._deletes(fates, set()):
            if sides.get(delete.path, delete.path) in self.stale and delete.version <= version:
                yield delete

    def _write(self, version: int, reason: SnapshotReason) -> WriteSnapshot:
        # Folded from the log as far as it goes: a snapshot that nobody has compared with the log
        # could be wrong, and what it hides below itself may be deleted on the strength of this one.
        found = self.versions.from_log(version, proved=self.proved)
        chain = found or _chain(self.versions, version)
        # The newest file that it is made from tells whether the query writes checksum files now.
        checksum = chain.deltas[-1].entry.path in self.checksums
        rocks = self.store.rocks
        return WriteSnapshot(
            self.store.id,
            self._snapshot_path(version),
            chain,
            reason,
            checksum=checksum,
            id=rocks.id_at(version) if rocks else None,
            families=self.versions.base(version) if rocks else None,
            reuse=version == self.window.target
            and not self.uploading
            and may_share(self.store, chain),
        )

    def _snapshot_path(self, version: int) -> str:
        return self.store.snapshot_path(version)

    # -- the base of all deletions

    def _base(self) -> Snapshot | None:
        policy = self.window.policy
        below = [one for one in self.versions.snapshots.values() if one.version <= self.floor]
        sure = [one for one in below if one.version not in self.doubted]
        trusted = [one for one in sure if self._older(one.entry, policy.grace)]
        if policy.grace == 0:
            written = (one.version for one in self.writes if one.version <= self.floor)
            trusted += [Snapshot(one, Entry(self._snapshot_path(one), 0, None)) for one in written]
        return max(trusted, key=lambda one: one.version, default=None)

    def _eventual(self) -> int:
        """Returns the version below which files go once every snapshot is old enough."""
        below = {one for one in self.versions.snapshots if one <= self.floor} - self.doubted
        below |= {write.version for write in self.writes if write.version <= self.floor}
        return min(max(below, default=0), self.window.floor)

    def _compared(self) -> Iterator[Attest]:
        window, found, versions = self.window, self.judgement, self.versions
        retained = (window.required, window.target) if window.policy.verify else None
        return comparisons(self.store, found, versions, self.writes, self.proved, retained)

    def _attest(self) -> tuple[Attest, ...]:
        base = self.base
        planned = {one.path for one in self.writes} | {one.path for one in self.compared}
        if base is None or base.entry.path in planned or base.version in self.proved:
            return ()
        against = self.versions.from_log(base.version, proved=self.proved)
        edited = {one.path: one.replaced for one in self.judgement.edited}
        doubts = edited.get(base.entry.path, ())
        return (Attest(self.store.id, base, against, doubts=doubts),)

    def _proved(self) -> Iterator[int]:
        """Yields the versions of snapshots that an attestation still fits."""
        for snapshot in self.versions.snapshots.values():
            if any(one.covers(snapshot.entry) for one in self.store.attestations):
                yield snapshot.version

    # -- the fate of each file

    def _fates(self) -> dict[Entry, Fate]:
        """Returns what becomes of each file; of a checksum file after its owner."""
        fates: dict[Entry, Fate] = {}
        sides = [file for file in self.store.files if isinstance(file, SideFile)]
        shared = [file for file in self.store.files if isinstance(file, SharedFile)]
        for file in self.store.files:
            if not isinstance(file, SideFile | SharedFile):
                fates[file.entry] = self._fate(file)
        snapshots = snapshots_of(fates, self.store.files)
        for one in shared:
            fates[one.entry] = self._shared(one, snapshots)
        owners = {entry.path: fate for entry, fate in fates.items()}
        for side in sides:
            fates[side.entry] = self._side(side, owners.get(side.owner))
        return fates

    def _fate(self, file: Delta | Snapshot | TempFile | UnknownFile) -> Fate:
        match file:
            case UnknownFile():
                return KeepReason.UNKNOWN
            case _ if file.version > self.window.target:
                return KeepReason.ABOVE_TARGET
            case Snapshot() if file.entry.path in self.stale:
                return self._keeps_all() or DeleteReason.STALE_SNAPSHOT
            case TempFile():
                return self._orphan(file.entry, DeleteReason.ORPHAN_TEMP)
            case Delta() | Snapshot():
                return self._state(file)
            case _:
                assert_never(file)

    def _orphan(self, entry: Entry, reason: DeleteReason = DeleteReason.ORPHAN_SIDE) -> Fate:
        if kept := self._keeps_all():
            return kept
        old = self._older(entry, self.window.policy.orphan_age)
        return reason if old else KeepReason.YOUNG

    def _side(self, side: SideFile, owner: Fate | None) -> Fate:
        if side.version > self.window.target:
            return KeepReason.ABOVE_TARGET
        if owner is None:
            return self._orphan(side.entry)
        if isinstance(owner, KeepReason):
            return KeepReason.SIDE_FILE
        if owner is DeleteReason.STALE_SNAPSHOT:
            return DeleteReason.STALE_SIDE
        relies = owner in (DeleteReason.BELOW_BASE, DeleteReason.UNUSED_SST)
        return DeleteReason.SIDE_FILE if relies else DeleteReason.ORPHAN_SIDE

    def _state(self, file: Delta | Snapshot) -> Fate:
        rocks = self.store.rocks
        fate = self._by_version(file.version)
        if fate is None and rocks and not rocks.counts(file) and not was_replaced(self.store):
            fate = self._orphan(file.entry, DeleteReason.DEAD_ATTEMPT)
        fate = fate or self._needed(file)
        goes = isinstance(fate, DeleteReason)
        waits = fate is DeleteReason.BELOW_BASE and self._executors_may_have_loaded(file)
        return KeepReason.EXECUTOR if waits or (goes and self._executors_may_need(file)) else fate

    def _executors_may_need(self, file: Delta | Snapshot | SharedFile) -> bool:
        return self.uploading and not isinstance(file, Delta)

    def _executors_may_have_loaded(self, file: Delta | Snapshot) -> bool:
        store, window = self.store, self.window
        if not isinstance(file, Snapshot) or store.rocks is None:
            return False
        per_batch = store.snapshot_per_batch(window.required, window.target)
        return not per_batch and file.version >= self.settled

    def _shared(self, file: SharedFile, snapshots: dict[str, Fate]) -> Fate:
        rocks = self.store.rocks
        if rocks is None:  # pragma: no cover -- only stores of RocksDB have any
            return KeepReason.UNKNOWN
        if needed := shared_fate(rocks, file.entry.path, snapshots, self.writes):
            return needed
        if self._executors_may_need(file):
            return KeepReason.EXECUTOR
        return self._orphan(file.entry, last_user(rocks, file.entry.path, snapshots))

    def _by_version(self, version: int) -> Fate | None:
        if version >= self.eventual:
            return None
        if not self.base or version >= min(self.base.version, self.window.floor):
            return KeepReason.GRACE
        return self._keeps_all() or DeleteReason.BELOW_BASE

    def _keeps_all(self) -> KeepReason | None:
        """Returns why nothing at all may be deleted, where that is so."""
        if self.window.skewed:
            return KeepReason.CLOCK_SKEW
        return None if self.window.policy.verify else KeepReason.VERIFY_OFF

    def _needed(self, file: Delta | Snapshot) -> KeepReason:
        base = self.base.version if self.base else 0
        if isinstance(file, Snapshot):
            return KeepReason.BASE if file.version == base else KeepReason.SNAPSHOT
        return KeepReason.NEEDED if file.version > base else KeepReason.CHANGE_FEED

    # -- deletions

    def _deletes(self, fates: dict[Entry, Fate], cleared: set[Entry]) -> tuple[Delete, ...]:
        """Returns the deletions, oldest version first, a side file before its file.

        In that order an interrupted run leaves no side file alone behind.
        """
        found = []
        for file in self.store.files:
            fate = fates[file.entry]
            if isinstance(fate, DeleteReason) and file.entry not in cleared:
                suspect = self.stale.get(file.entry.path)
                instead = suspect.instead if suspect else None
                found.append(Delete(self.store.id, _version(file), file.entry, fate, instead))
        return tuple(sorted(found, key=lambda one: one.order))

    # -- ages, by the storage's clock

    def _older(self, entry: Entry, age: float) -> bool:
        return entry.modified is not None and self.window.now - entry.modified >= age


def _chain(versions: Versions, version: int) -> Chain:
    found = versions.chain(version)
    if isinstance(found, Gap):  # pragma: no cover -- decide() asks for loadable versions only
        raise TypeError(found)
    return found


def _version(file: StateFile) -> int:
    return 0 if isinstance(file, UnknownFile) else file.version
