"""The fate of each file of a store, and the deletions that follow, in their order. Pure.

A file that is kept here is never deleted. A file that is deleted here may still have to wait,
because a run has a limit. In each function the first rule that applies decides. A guard is `hold`
where nothing at all may be deleted, and otherwise the age of an orphan that is too young (S5).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, unique
from typing import assert_never

from statemaint.listing import Entry
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, TempFile, UnknownFile
from statemaint.model.rocks import Rocks
from statemaint.plan.actions import Delete, Kept, WriteSnapshot
from statemaint.plan.facts import Boundary, Facts
from statemaint.plan.reasons import DeleteReason, KeepReason
from statemaint.plan.snapshots import checksums_left_of

Fate = KeepReason | DeleteReason
Fates = dict[Entry, Fate]


def fates_of(facts: Facts, boundary: Boundary, writes: Collection[WriteSnapshot]) -> Fates:
    """Returns the fate of each file of a store.

    Shared files come after the snapshots that refer to them, and checksum files after all files
    that they may belong to.
    """
    fates: Fates = {}
    for file in facts.store.files:
        match file:
            case UnknownFile():  # S11
                fates[file.entry] = KeepReason.UNKNOWN
            case TempFile():
                fates[file.entry] = _of_temp(facts, file)
            case Delta() | Snapshot():
                fates[file.entry] = state_fate(traits_of(facts, boundary, file))
            case SstFile() | ChecksumFile():
                pass  # decided below
            case _:
                assert_never(file)
    fates |= _shared_fates(facts, fates, writes)
    owners = {entry.path: owner for entry, owner in fates.items()}
    sides = (file for file in facts.store.files if isinstance(file, ChecksumFile))
    return fates | {side.entry: _of_checksum(facts, side, owners.get(side.owner)) for side in sides}


def _of_temp(facts: Facts, file: TempFile) -> Fate:
    if file.version > facts.window.target:
        return KeepReason.ABOVE_TARGET
    return facts.window.guard(file.entry) or DeleteReason.ORPHAN_TEMP


def _of_checksum(facts: Facts, side: ChecksumFile, owner: Fate | None) -> Fate:
    if side.version > facts.window.target:
        return KeepReason.ABOVE_TARGET
    match owner:
        case None:
            return facts.window.guard(side.entry) or DeleteReason.ORPHAN_SIDE
        case KeepReason():
            return KeepReason.SIDE_FILE
        case DeleteReason.STALE_SNAPSHOT:
            return DeleteReason.STALE_SIDE
        case DeleteReason.BELOW_BASE | DeleteReason.UNUSED_SST:
            return DeleteReason.SIDE_FILE
        case _:
            return DeleteReason.ORPHAN_SIDE


# -- deltas and snapshots


@unique
class VersionPlace(Enum):
    """The position of a file's version (`Boundary` has a drawing)."""

    ABOVE_TARGET = "above target"
    ABOVE_BASE = "above base"  # retained, as is every version of a store without a base
    AT_BASE = "at base"
    FLOOR_TO_BASE = "floor to base"  # retained by the policy although it no longer loads
    WITHIN_GRACE = "within grace"  # below a snapshot that is too young to rely on
    BELOW_BASE = "below base"


@unique
class Standing(Enum):
    """The standing of a file: whether the query loads it when it loads its version."""

    COUNTS = "counts"
    STALE = "stale"  # a snapshot from before a rewind
    DEAD = "dead"  # from an attempt that no commit names


@unique
class Executors(Enum):
    """The reason that an executor may still need a zip of RocksDB."""

    NONE = "none"
    LOADED = "loaded"  # it may have loaded this zip, and its next one names SST files of it
    UPLOADING = "uploading"  # its next zip may name SST files of any zip


@dataclass(frozen=True, slots=True)
class StateTraits:
    """The traits of a delta or a snapshot that decide its fate."""

    snapshot: bool
    place: VersionPlace
    standing: Standing
    executors: Executors
    guard: KeepReason | None


def traits_of(facts: Facts, boundary: Boundary, file: Delta | Snapshot) -> StateTraits:
    rocks, snapshot = facts.store.rocks, isinstance(file, Snapshot)
    standing, executors = Standing.COUNTS, Executors.NONE
    if file.entry.path in facts.stale:
        standing = Standing.STALE
    elif rocks is not None and rocks.is_dead(file) and not facts.replaced:
        standing = Standing.DEAD
    # No executor needs a changelog: no zip names one.
    if snapshot and facts.uploading:
        executors = Executors.UPLOADING
    elif snapshot and facts.loaded_from is not None and file.version >= facts.loaded_from:
        executors = Executors.LOADED
    place, guard = place_of(facts, boundary, file.version), facts.window.guard(file.entry)
    return StateTraits(snapshot, place, standing, executors, guard)


def state_fate(file: StateTraits) -> Fate:
    hold = None if file.guard is KeepReason.YOUNG else file.guard
    if file.place is VersionPlace.ABOVE_TARGET:
        return KeepReason.ABOVE_TARGET
    if file.standing is Standing.STALE:
        return hold or DeleteReason.STALE_SNAPSHOT
    if file.place is VersionPlace.WITHIN_GRACE:
        return KeepReason.GRACE
    if file.place is VersionPlace.BELOW_BASE:
        needed = file.executors is not Executors.NONE
        return hold or (KeepReason.EXECUTOR if needed else DeleteReason.BELOW_BASE)
    if file.standing is Standing.DEAD:
        needed = file.executors is Executors.UPLOADING
        return file.guard or (KeepReason.EXECUTOR if needed else DeleteReason.DEAD_ATTEMPT)
    return _retained(file)


def _retained(file: StateTraits) -> KeepReason:
    if file.snapshot:
        return KeepReason.BASE if file.place is VersionPlace.AT_BASE else KeepReason.SNAPSHOT
    return KeepReason.NEEDED if file.place is VersionPlace.ABOVE_BASE else KeepReason.CHANGE_FEED


def place_of(facts: Facts, boundary: Boundary, version: int) -> VersionPlace:
    if version > facts.window.target:
        return VersionPlace.ABOVE_TARGET
    if version < boundary.cut:
        return VersionPlace.BELOW_BASE
    if version < boundary.eventual:
        return VersionPlace.WITHIN_GRACE
    base = boundary.base.version if boundary.base else 0
    if version == base:
        return VersionPlace.AT_BASE
    return VersionPlace.ABOVE_BASE if version > base else VersionPlace.FLOOR_TO_BASE


# -- SST files and archived logs of RocksDB


@dataclass(frozen=True, slots=True)
class References:
    """The shared files that the snapshots of a store refer to."""

    kept: frozenset[str]  # those of snapshots that are kept or about to be written
    below_base: frozenset[str]  # those of snapshots that are deleted below the base
    unreadable: bool  # whether a kept snapshot cannot be read; it may refer to any file


def _shared_fates(facts: Facts, fates: Fates, writes: Collection[WriteSnapshot]) -> Fates:
    files = [file for file in facts.store.files if isinstance(file, SstFile)]
    rocks = facts.store.rocks
    if rocks is None:  # no snapshot of such a store shares a file
        return dict.fromkeys((file.entry for file in files), KeepReason.UNKNOWN)
    snapshots = {file.entry.path: fates[file.entry] for file in facts.store.snapshots}
    refers = references(rocks, snapshots, writes)
    return {file.entry: _of_shared(facts, file, refers) for file in files}


def _of_shared(facts: Facts, file: SstFile, refers: References) -> Fate:
    path = file.entry.path
    if path in refers.kept:
        return KeepReason.USED
    if refers.unreadable:
        return KeepReason.UNREADABLE
    if facts.uploading:
        return KeepReason.EXECUTOR
    unused = DeleteReason.UNUSED_SST if path in refers.below_base else DeleteReason.ORPHAN_SST
    return facts.window.guard(file.entry) or unused


def references(
    rocks: Rocks, snapshots: Mapping[str, Fate], writes: Iterable[WriteSnapshot]
) -> References:
    """Returns the shared files that a store's snapshots refer to, given each fate by path.

    A zip that is about to be written may refer to any file that its base refers to. The next run
    finds the files that it does not use.
    """
    kept = [path for path, fate in snapshots.items() if isinstance(fate, KeepReason)]
    below = [path for path, fate in snapshots.items() if fate is DeleteReason.BELOW_BASE]
    bases = [write.chain.base.entry.path for write in writes if write.reuse and write.chain.base]
    return References(
        kept=rocks.parts_of((*kept, *bases)),
        below_base=rocks.parts_of(below),
        unreadable=bool(rocks.unreadable & set(kept)),
    )


# -- the deletions of a run


def deletions(facts: Facts, fates: Mapping[Entry, Fate]) -> tuple[Delete, ...]:
    """Returns the deletions of a store, in the order in which they happen.

        version 1: checksum, file | version 2: checksum, file | ... | SST files: checksum, file

    Lower versions come before higher ones and a checksum before its file, so that an interrupted
    run leaves neither a gap nor a lone checksum. Shared files come after all snapshots (S7).
    """
    deletes = []
    for file in facts.store.files:
        reason, suspect = fates[file.entry], facts.stale.get(file.entry.path)
        if isinstance(reason, DeleteReason) and not isinstance(file, UnknownFile):
            instead = suspect.instead if suspect else None
            deletes.append(Delete(facts.store.id, file.version, file.entry, reason, instead))
    return tuple(sorted(deletes, key=lambda delete: delete.order))


def clearances(
    facts: Facts, deletes: Iterable[Delete], writes: Collection[WriteSnapshot]
) -> tuple[Delete, ...]:
    """Returns the deletions that must happen before the snapshots are written.

    These are the checksum files that outlived their snapshots, and the stale snapshots, each with
    its checksums, up to the last that has the name of a new one. A stale snapshot hides those below
    it: if it alone were deleted, a restart would begin with one of them.
    """
    sides = (side for write in writes for side in checksums_left_of(facts, write.version))
    reason, id_ = DeleteReason.STALE_SIDE, facts.store.id
    left = tuple(Delete(id_, side.version, side.entry, reason) for side in sides)
    last = max((write.version for write in writes if write.path in facts.stale), default=0)
    checksums = (file for file in facts.store.files if isinstance(file, ChecksumFile) and last)
    owners = {side.entry.path: side.owner for side in checksums}
    stale = (delete for delete in deletes if owners.get(delete.path, delete.path) in facts.stale)
    return left + tuple(delete for delete in stale if delete.version <= last)


def kept_files(fates: Mapping[Entry, Fate]) -> tuple[Kept, ...]:
    kept = (Kept(entry, fate) for entry, fate in fates.items() if isinstance(fate, KeepReason))
    return tuple(sorted(kept, key=lambda kept_file: kept_file.entry.path))
