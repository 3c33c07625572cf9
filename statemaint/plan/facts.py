"""The facts about one store before any decision. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.plan.sst_files import executors_upload, settled
from statemaint.plan.staleness import Judgement, Suspect, doubts_of, was_replaced
from statemaint.plan.window import Window


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of every later step of a store's decision.

    Attributes:
        store: as it was listed, stale snapshots included.
        window: the versions that stay loadable.
        judgement: the consequences of its outdated proofs.
        versions: its deltas and snapshots without the stale snapshots: these are about to be
            deleted, and no load, fold or deletion relies on them.
        floor: the lowest version of the window that loads.
        stale: the stale snapshots, by path.
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
