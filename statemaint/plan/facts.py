"""The facts about one store before any decision, and the end of deletion in it. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from statemaint.listing import Entry
from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.model.policy import Policy
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import KeepReason
from statemaint.plan.sst_files import executors_upload, settled
from statemaint.plan.staleness import Judgement, Suspect, doubts_of, was_replaced


@dataclass(frozen=True, slots=True)
class Window:
    """The versions that a store's plan keeps loadable, `floor` to `target`, at time `now`.

    Attributes:
        required: the oldest version that the commit log still requires.
        target: the newest version that the plan considers.
        newest: the newest committed version; above the target if the query has continued since
            the target was fixed.
        skewed: clocks disagree, so ages mean nothing and nothing is deleted.
        forced: the operators whose first batch has to write a zip.
    """

    floor: int
    required: int
    target: int
    newest: int
    now: float
    policy: Policy
    force_snapshot: bool = False
    skewed: bool = False
    forced: frozenset[int] = frozenset()

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
class Facts:
    """The input of every later step of a store's decision.

    Attributes:
        store: as it was listed, stale snapshots included.
        versions: its deltas and snapshots without the stale snapshots: these are about to be
            deleted, and no load, fold or deletion relies on them.
        floor: the lowest version of the window that loads.
        proved: the versions of the snapshots that an attestation covers.
        doubted: the versions at which the log may be wrong.
        candidates: the snapshots that deletion may rely on once they are old enough and proved.
        replaced: whether a file of the log was replaced, so that its lineage does not show which
            attempts count.
        uploading: whether an executor may hold a snapshot that it has not uploaded yet.
        loaded_from: the oldest version whose zip an executor may have begun with; `None` if no
            executor holds SST files back: the store has no zips, or every batch uploads its own.
    """

    store: Store
    window: Window
    judgement: Judgement
    versions: Versions
    floor: int
    stale: Mapping[str, Suspect]
    proved: frozenset[int]
    doubted: frozenset[int]
    candidates: tuple[Snapshot, ...]
    replaced: bool
    uploading: bool
    loaded_from: int | None


def lowest_loadable(versions: Versions, window: Window) -> int | None:
    """Returns the lowest version of a window that loads; `None` if its target does not."""
    loads = versions.loadable(window.floor, window.target)
    return min(loads) if window.target in loads else None


def gather(
    store: Store, window: Window, *, judgement: Judgement, versions: Versions, floor: int
) -> Facts:
    """Returns the facts about a store whose target version loads; the arguments are theirs."""
    doubted = frozenset(_doubted(store, judgement))
    return Facts(
        store=store,
        window=window,
        judgement=judgement,
        versions=versions,
        floor=floor,
        stale={one.path: one for one in judgement.stale},
        proved=frozenset(_proved(store, versions)),
        doubted=doubted,
        candidates=_candidates(versions, floor, doubted),
        replaced=was_replaced(store),
        uploading=executors_upload(store, window.required, window.target),
        loaded_from=_loaded_from(store, window),
    )


def _proved(store: Store, versions: Versions) -> Iterator[int]:
    """Yields the versions of the snapshots whose attestation still covers the file."""
    for snapshot in versions.snapshots.values():
        if any(one.covers(snapshot.entry) for one in store.attestations):
            yield snapshot.version


def _doubted(store: Store, judgement: Judgement) -> Iterator[int]:
    """Yields the versions for which nothing shows whether the log gives their true state.

    No snapshot is made of them, and nothing below them is deleted, until the log has moved past
    them.
    """
    for proof, replaced in doubts_of(store):
        if proof.files:
            yield from range(replaced[0].version, proof.version)
    for suspect in judgement.disputed:
        if suspect.doubts:
            yield from range(suspect.doubts[0], suspect.snapshot.version)


def _candidates(versions: Versions, floor: int, doubted: frozenset[int]) -> tuple[Snapshot, ...]:
    """Returns the snapshots below which no retained version needs a file."""
    below = (one for version, one in sorted(versions.snapshots.items()) if version <= floor)
    return tuple(one for one in below if one.version not in doubted)


def _loaded_from(store: Store, window: Window) -> int | None:
    """Returns the oldest version whose zip an executor may have begun with.

    If every batch uploads a zip, an executor needs only the newest.
    """
    if store.rocks is None or store.snapshot_per_batch(window.required, window.target):
        return None
    return settled(store, window.target)


# -- the end of deletion


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
