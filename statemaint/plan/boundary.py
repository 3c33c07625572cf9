"""The version below which the files of a store are deleted. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from statemaint.listing import Entry
from statemaint.model.files import Snapshot
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.facts import Facts


@dataclass(frozen=True, slots=True)
class Boundary:
    """The end of deletion in a store.

        version    1           cut           eventual           floor           target
                   |            |               |                 |                |
        files      | BELOW_BASE | WITHIN_GRACE  |     retained    |    retained    | ABOVE_TARGET
                   | deleted    | deleted later | kept            | kept           | untouched

    Once the newest snapshot at or below the floor is old enough, cut and eventual are one.

    Attributes:
        base: the newest snapshot at or below the floor that is old enough to rely on (S4) and is
            attested, or will be before it is relied on (S6). Everything that a version from the
            floor to the target needs is at the base or above it. `None` if there is none.
        cut: files of lower versions are deletable now; 0 without a base.
        eventual: files of lower versions are deletable once every snapshot is old enough.
    """

    base: Snapshot | None
    cut: int
    eventual: int


def boundary_of(facts: Facts, writes: Collection[WriteSnapshot]) -> Boundary:
    """Returns the boundary of a store, given the snapshots that are written before it is used.

    A base above the policy's floor does not move the boundary above that floor: the versions
    between the two do not load, and their remaining files are kept.
    """
    base, floor = _base(facts, writes), facts.window.floor
    cut = min(base.version, floor) if base else 0
    return Boundary(base, cut, min(_newest(facts, writes), floor))


def _base(facts: Facts, writes: Collection[WriteSnapshot]) -> Snapshot | None:
    """Returns the newest snapshot that every deletion below it may rely on."""
    grace = facts.window.policy.grace
    trusted = [one for one in facts.candidates if facts.window.is_older(one.entry, grace)]
    if grace == 0:
        trusted += [_unwritten(one) for one in writes if one.version <= facts.floor]
    return max(trusted, key=lambda one: one.version, default=None)


def _unwritten(write: WriteSnapshot) -> Snapshot:
    return Snapshot(write.version, Entry(write.path, 0, None))


def _newest(facts: Facts, writes: Collection[WriteSnapshot]) -> int:
    """Returns the version of the newest snapshot at or below the floor, however young; or 0."""
    written = (one.version for one in writes if one.version <= facts.floor)
    return max((*(one.version for one in facts.candidates), *written), default=0)
