"""The facts about one store before any decision, and the end of deletion in it. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from statemaint.listing import Entry
from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.plan.actions import Window, WriteSnapshot
from statemaint.plan.sst_files import executors_upload, settled
from statemaint.plan.staleness import Judgement, Suspect, doubts_of, was_replaced


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of every later step of a store's decision."""

    store: Store  # as it was listed, stale snapshots included
    window: Window
    judgement: Judgement
    versions: Versions  # without stale snapshots: these are deleted, and nothing relies on them
    floor: int  # the lowest version of the window that loads
    stale: Mapping[str, Suspect]
    proved: frozenset[int]  # the versions of the snapshots that an attestation covers
    doubted: frozenset[int]  # the versions at which the log may be wrong
    candidates: tuple[Snapshot, ...]  # reliable for deletion once old enough and proved
    replaced: bool  # a file of the log was: the lineage does not show which attempts count
    uploading: bool  # whether an executor may hold a snapshot that it has not uploaded yet
    loaded_from: int | None  # the oldest zip that an executor may have begun with, if that matters


def gather(
    store: Store, window: Window, *, judgement: Judgement, versions: Versions, floor: int
) -> Facts:
    doubted, snapshots, proofs = _doubted(store, judgement), versions.snapshots, store.attestations
    proved = (it for it in snapshots.values() if any(proof.covers(it.entry) for proof in proofs))
    low = (snapshots[it] for it in sorted(snapshots) if it <= floor and it not in doubted)
    # If every batch uploads a zip, an executor needs only the newest.
    per_batch = store.snapshot_per_batch(window.required, window.target)
    return Facts(
        store=store,
        window=window,
        judgement=judgement,
        versions=versions,
        floor=floor,
        stale={suspect.path: suspect for suspect in judgement.stale},
        proved=frozenset(snapshot.version for snapshot in proved),
        doubted=doubted,
        candidates=tuple(low),
        replaced=was_replaced(store),
        uploading=executors_upload(store, window),
        loaded_from=None if store.rocks is None or per_batch else settled(store, window),
    )


def _doubted(store: Store, judgement: Judgement) -> frozenset[int]:
    """Returns the versions for which nothing shows whether the log gives their true state.

    Until the log has moved past them, no snapshot is made of them, and nothing below is deleted.
    """
    doubts = ((same[0].version, proof.version) for proof, same in doubts_of(store) if proof.files)
    disputed = ((it.doubts[0], it.snapshot.version) for it in judgement.disputed if it.doubts)
    return frozenset(version for span in (*doubts, *disputed) for version in range(*span))


# -- the end of deletion


@dataclass(frozen=True, slots=True)
class Boundary:
    """The end of deletion in a store.

        version    1           cut           eventual           floor           target
                   |            |               |                 |                |
        files      | BELOW_BASE | WITHIN_GRACE  |     retained    |    retained    | ABOVE_TARGET
                   | deleted    | deleted later | kept            | kept           | untouched

    Once the newest snapshot at or below the floor is old enough, cut and eventual are one.
    """

    # The newest snapshot at or below the floor that is old enough to rely on (S4) and is attested,
    # or will be before it is relied on (S6). Everything that a version from the floor to the target
    # needs is at the base or above it.
    base: Snapshot | None
    cut: int  # files of lower versions are deletable now; 0 without a base
    eventual: int  # files of lower versions are deletable once every snapshot is old enough


def boundary_of(facts: Facts, writes: Collection[WriteSnapshot]) -> Boundary:
    """Returns the boundary of a store, given the snapshots that are written before it is used.

    A base above the policy's floor does not move it above that floor: the versions between the two
    do not load, and their remaining files are kept.
    """
    base, floor = _base(facts, writes), facts.window.floor
    cut = min(base.version, floor) if base else 0
    versions = {snapshot.version for snapshot in facts.candidates}
    versions |= {write.version for write in writes}
    newest = max((version for version in versions if version <= facts.floor), default=0)
    return Boundary(base, cut, min(newest, floor))


def _base(facts: Facts, writes: Collection[WriteSnapshot]) -> Snapshot | None:
    grace = facts.window.policy.grace
    trusted = [file for file in facts.candidates if facts.window.is_older(file.entry, grace)]
    if grace == 0:
        written = (write for write in writes if write.version <= facts.floor)
        trusted += [Snapshot(write.version, Entry(write.path, 0, None)) for write in written]
    return max(trusted, key=lambda snapshot: snapshot.version, default=None)
