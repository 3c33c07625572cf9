"""The truth table of deletion: from a few traits of a file to the reason to keep or delete it.

`statemaint.plan.traits` finds the traits of each file. A file that the table keeps is never
deleted. A file that it deletes may still have to wait, because a run has a limit.
"""

from dataclasses import dataclass
from enum import Enum, unique
from typing import assert_never

from statemaint.plan.reasons import DeleteReason, KeepReason

Fate = KeepReason | DeleteReason


@unique
class Kind(Enum):
    """The kind of a version's file."""

    DELTA = "delta"
    SNAPSHOT = "snapshot"


@unique
class VersionPlace(Enum):
    """The position of a file's version (`statemaint.plan.boundary` has a drawing)."""

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


@unique
class Users(Enum):
    """The snapshots that refer to a shared file."""

    KEPT = "kept"  # one that is kept or about to be written
    UNREADABLE = "unreadable"  # possibly one that is kept but cannot be read
    BELOW_BASE = "below base"  # only deleted ones, at least one of them below the base
    NONE = "none"  # none, or only ones that never counted


@unique
class Owner(Enum):
    """The fate of the file that a checksum file belongs to."""

    MISSING = "missing"
    KEPT = "kept"
    STALE = "stale"
    BELOW_BASE = "below base"  # deleted because the base takes its place
    ORPHAN = "orphan"  # deleted because it never counted


@dataclass(frozen=True, slots=True)
class StateTraits:
    """A delta or a snapshot; `guard` is the reason to keep an orphan of its age."""

    kind: Kind
    place: VersionPlace
    standing: Standing
    executors: Executors
    guard: KeepReason | None


@dataclass(frozen=True, slots=True)
class SharedTraits:
    """A file that any number of snapshots refer to."""

    users: Users
    uploading: bool
    guard: KeepReason | None


@dataclass(frozen=True, slots=True)
class ChecksumTraits:
    """A checksum file of Hadoop or Spark."""

    above_target: bool
    owner: Owner
    guard: KeepReason | None


@dataclass(frozen=True, slots=True)
class TempTraits:
    """A file that an atomic write has not renamed yet, or never will."""

    above_target: bool
    guard: KeepReason | None


@dataclass(frozen=True, slots=True)
class UnknownTraits:
    """A file with a name that neither statemaint nor Spark writes."""


Traits = StateTraits | SharedTraits | ChecksumTraits | TempTraits | UnknownTraits


def fate(file: Traits) -> Fate:
    """Returns why a file is kept or deleted. In each table the first matching row decides.

    A dot matches anything. The guard is `hold` where nothing at all may be deleted (clocks
    disagree, or the policy does not verify), `young` where an orphan of this age is kept (S5),
    otherwise `none`.

    StateTraits: a file that a version is loaded from

        kind      place         standing  executors  guard  | fate
        .         above target  .         .          .      | keep above_target
        .         .             stale     .          hold   | keep the guard
        .         .             stale     .          .      | delete stale_snapshot
        .         within grace  .         .          .      | keep base_within_grace
        .         below base    .         .          hold   | keep the guard
        .         below base    .         loaded     .      | keep executor_may_build_on_it
        .         below base    .         uploading  .      | keep executor_may_build_on_it
        .         below base    .         .          .      | delete below_base
        .         .             dead      .          hold   | keep the guard
        .         .             dead      .          young  | keep the guard
        .         .             dead      uploading  .      | keep executor_may_build_on_it
        .         .             dead      .          .      | delete dead_attempt
        snapshot  at base       .         .          .      | keep base_of_retained_versions
        snapshot  .             .         .          .      | keep retained_snapshot
        delta     above base    .         .          .      | keep needed_by_retained_version
        delta     .             .         .          .      | keep change_feed

    SharedTraits: an SST file or an archived log of RocksDB

        users       uploading  guard  | fate
        kept        .          .      | keep used_by_snapshot
        unreadable  .          .      | keep unreadable_snapshot_may_use_it
        .           yes        .      | keep executor_may_build_on_it
        .           .          hold   | keep the guard
        .           .          young  | keep the guard
        below base  .          .      | delete unused_sst
        none        .          .      | delete orphan_sst

    ChecksumTraits: a checksum file, which follows the file it belongs to

        above_target  owner       guard  | fate
        yes           .           .      | keep above_target
        .             kept        .      | keep side_file_of_kept
        .             stale       .      | delete stale_side_file
        .             below base  .      | delete side_file_of_deleted
        .             orphan      .      | delete orphan_side_file
        .             missing     hold   | keep the guard
        .             missing     young  | keep the guard
        .             missing     .      | delete orphan_side_file

    TempTraits: a temporary file of a killed writer

        above_target  guard  | fate
        yes           .      | keep above_target
        .             hold   | keep the guard
        .             young  | keep the guard
        .             .      | delete orphan_temp_file

    UnknownTraits: a file with any other name (S11)

        | fate
        | keep unknown_file
    """
    match file:
        case StateTraits():
            return _of_state(file)
        case SharedTraits():
            return _of_shared(file)
        case ChecksumTraits():
            return _of_checksum(file)
        case TempTraits():
            return _of_temp(file)
        case UnknownTraits():
            return KeepReason.UNKNOWN
        case _:
            assert_never(file)


def _of_state(file: StateTraits) -> Fate:
    if file.place is VersionPlace.ABOVE_TARGET:
        return KeepReason.ABOVE_TARGET
    if file.standing is Standing.STALE:
        return _hold(file.guard) or DeleteReason.STALE_SNAPSHOT
    if file.place is VersionPlace.WITHIN_GRACE:
        return KeepReason.GRACE
    if file.place is VersionPlace.BELOW_BASE:
        return _below_base(file)
    return _dead(file) if file.standing is Standing.DEAD else _retained(file)


def _below_base(file: StateTraits) -> Fate:
    needed = file.executors is not Executors.NONE
    return _hold(file.guard) or (KeepReason.EXECUTOR if needed else DeleteReason.BELOW_BASE)


def _dead(file: StateTraits) -> Fate:
    needed = file.executors is Executors.UPLOADING
    return file.guard or (KeepReason.EXECUTOR if needed else DeleteReason.DEAD_ATTEMPT)


def _retained(file: StateTraits) -> KeepReason:
    if file.kind is Kind.SNAPSHOT:
        return KeepReason.BASE if file.place is VersionPlace.AT_BASE else KeepReason.SNAPSHOT
    return KeepReason.NEEDED if file.place is VersionPlace.ABOVE_BASE else KeepReason.CHANGE_FEED


def _of_shared(file: SharedTraits) -> Fate:
    if file.users is Users.KEPT:
        return KeepReason.USED
    if file.users is Users.UNREADABLE:
        return KeepReason.UNREADABLE
    if file.uploading:
        return KeepReason.EXECUTOR
    used = file.users is Users.BELOW_BASE
    return file.guard or (DeleteReason.UNUSED_SST if used else DeleteReason.ORPHAN_SST)


def _of_checksum(file: ChecksumTraits) -> Fate:
    if file.above_target:
        return KeepReason.ABOVE_TARGET
    match file.owner:
        case Owner.KEPT:
            return KeepReason.SIDE_FILE
        case Owner.STALE:
            return DeleteReason.STALE_SIDE
        case Owner.BELOW_BASE:
            return DeleteReason.SIDE_FILE
        case Owner.ORPHAN:
            return DeleteReason.ORPHAN_SIDE
        case Owner.MISSING:
            return file.guard or DeleteReason.ORPHAN_SIDE
        case _:
            assert_never(file.owner)


def _of_temp(file: TempTraits) -> Fate:
    if file.above_target:
        return KeepReason.ABOVE_TARGET
    return file.guard or DeleteReason.ORPHAN_TEMP


def _hold(guard: KeepReason | None) -> KeepReason | None:
    """Returns a guard unless it is the age of the file, which protects only orphans."""
    return None if guard is KeepReason.YOUNG else guard
