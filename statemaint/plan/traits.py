"""The traits of each file of a store, and the fate that they decide. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from statemaint.listing import Entry
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, TempFile, UnknownFile
from statemaint.model.rocks import Rocks
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.boundary import Boundary
from statemaint.plan.facts import Facts
from statemaint.plan.fates import (
    ChecksumTraits,
    Executors,
    Fate,
    Kind,
    Owner,
    SharedTraits,
    Standing,
    StateTraits,
    TempTraits,
    Traits,
    UnknownTraits,
    Users,
    VersionPlace,
    fate,
)
from statemaint.plan.reasons import DeleteReason, KeepReason

Fates = dict[Entry, Fate]
OwnFile = Delta | Snapshot | TempFile | UnknownFile


def fates_of(facts: Facts, boundary: Boundary, writes: Collection[WriteSnapshot]) -> Fates:
    """Returns the fate of each file of a store.

    Shared files come after the snapshots that refer to them, and checksum files after all files
    that they may belong to.
    """
    files = facts.store.files
    own = (one for one in files if not isinstance(one, SstFile | ChecksumFile))
    fates = {one.entry: fate(traits_of(facts, boundary, one)) for one in own}
    fates |= _shared_fates(facts, fates, writes)
    return fates | _checksum_fates(facts, fates)


def traits_of(facts: Facts, boundary: Boundary, file: OwnFile) -> Traits:
    """Returns the traits of a file whose fate does not depend on other files."""
    match file:
        case UnknownFile():
            return UnknownTraits()
        case TempFile():
            above = file.version > facts.window.target
            return TempTraits(above, facts.window.guard(file.entry))
        case Delta() | Snapshot():
            return _state_traits(facts, boundary, file)
        case _:
            assert_never(file)


# -- deltas and snapshots


def _state_traits(facts: Facts, boundary: Boundary, file: Delta | Snapshot) -> StateTraits:
    return StateTraits(
        Kind.SNAPSHOT if isinstance(file, Snapshot) else Kind.DELTA,
        place_of(facts, boundary, file.version),
        _standing_of(facts, file),
        _executors_of(facts, file),
        facts.window.guard(file.entry),
    )


def place_of(facts: Facts, boundary: Boundary, version: int) -> VersionPlace:
    """Returns the place of a version relative to the boundary and the target."""
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


def _standing_of(facts: Facts, file: Delta | Snapshot) -> Standing:
    rocks = facts.store.rocks
    if file.entry.path in facts.stale:
        return Standing.STALE
    dead = rocks is not None and rocks.is_dead(file) and not facts.replaced
    return Standing.DEAD if dead else Standing.COUNTS


def _executors_of(facts: Facts, file: Delta | Snapshot) -> Executors:
    """Returns why an executor may need a file; it never needs a changelog: no zip names one."""
    if isinstance(file, Delta):
        return Executors.NONE
    if facts.uploading:
        return Executors.UPLOADING
    loaded = facts.loaded_from is not None and file.version >= facts.loaded_from
    return Executors.LOADED if loaded else Executors.NONE


# -- shared files


@dataclass(frozen=True, slots=True)
class References:
    """The shared files that the snapshots of a store refer to.

    Attributes:
        kept: those of snapshots that are kept or about to be written.
        below_base: those of snapshots that are deleted because they are below the base.
        unreadable: whether a kept snapshot cannot be read; it may refer to any file.
    """

    kept: frozenset[str]
    below_base: frozenset[str]
    unreadable: bool

    def users(self, path: str) -> Users:
        """Returns which snapshots refer to a shared file."""
        if path in self.kept:
            return Users.KEPT
        if self.unreadable:
            return Users.UNREADABLE
        return Users.BELOW_BASE if path in self.below_base else Users.NONE


def _shared_fates(facts: Facts, fates: Fates, writes: Collection[WriteSnapshot]) -> Fates:
    files = [one for one in facts.store.files if isinstance(one, SstFile)]
    rocks = facts.store.rocks
    if rocks is None:  # no snapshot of such a store shares a file
        return dict.fromkeys((one.entry for one in files), KeepReason.UNKNOWN)
    snapshots = (one for one in facts.store.files if isinstance(one, Snapshot))
    refers = references(rocks, {one.entry.path: fates[one.entry] for one in snapshots}, writes)
    return {one.entry: fate(_shared_traits(facts, one, refers)) for one in files}


def _shared_traits(facts: Facts, file: SstFile, refers: References) -> SharedTraits:
    guard = facts.window.guard(file.entry)
    return SharedTraits(refers.users(file.entry.path), facts.uploading, guard)


def references(
    rocks: Rocks, snapshots: Mapping[str, Fate], writes: Iterable[WriteSnapshot]
) -> References:
    """Returns the shared files that a store's snapshots refer to, given each fate by path.

    A zip that is about to be written may refer to any file that its base refers to. The next run
    finds the files that it does not use.
    """
    kept = [path for path, one in snapshots.items() if isinstance(one, KeepReason)]
    below = [path for path, one in snapshots.items() if one is DeleteReason.BELOW_BASE]
    bases = [one.chain.base.entry.path for one in writes if one.reuse and one.chain.base]
    return References(
        kept=_parts(rocks, (*kept, *bases)),
        below_base=_parts(rocks, below),
        unreadable=bool(rocks.unreadable & set(kept)),
    )


def _parts(rocks: Rocks, zips: Iterable[str]) -> frozenset[str]:
    return frozenset(part for path in zips for part in rocks.parts.get(path, ()))


# -- checksum files


def _checksum_fates(facts: Facts, fates: Fates) -> Fates:
    owners = {entry.path: one for entry, one in fates.items()}
    sides = (one for one in facts.store.files if isinstance(one, ChecksumFile))
    return {one.entry: fate(_checksum_traits(facts, one, owners)) for one in sides}


def _checksum_traits(
    facts: Facts, side: ChecksumFile, owners: Mapping[str, Fate]
) -> ChecksumTraits:
    above = side.version > facts.window.target
    return ChecksumTraits(above, owner_of(owners.get(side.owner)), facts.window.guard(side.entry))


def owner_of(owner_fate: Fate | None) -> Owner:
    """Returns the owner trait of a checksum file from its file's fate; `None`: file missing."""
    if owner_fate is None:
        return Owner.MISSING
    if isinstance(owner_fate, KeepReason):
        return Owner.KEPT
    if owner_fate is DeleteReason.STALE_SNAPSHOT:
        return Owner.STALE
    relies = owner_fate in {DeleteReason.BELOW_BASE, DeleteReason.UNUSED_SST}
    return Owner.BELOW_BASE if relies else Owner.ORPHAN
