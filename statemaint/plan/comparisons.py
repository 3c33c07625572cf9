"""What has to be compared before anything else happens in a store, and what is in doubt. Pure."""

from collections.abc import Collection, Iterator

from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.plan.actions import Attest, AttestReason, WriteSnapshot
from statemaint.plan.staleness import Judgement, doubts_of


def in_doubt(store: Store, judgement: Judgement) -> Iterator[int]:
    """Yields the versions of which nothing tells whether the log gives what they were.

    Nothing is made of them, and nothing below them goes, before the log has moved past them.
    """
    for proof, replaced in doubts_of(store):
        if proof.files:
            yield from range(replaced[0].version, proof.version)
    for one in judgement.disputed:
        if one.doubts:
            yield from range(one.doubts[0], one.snapshot.version)


def comparisons(
    store: Store,
    judgement: Judgement,
    versions: Versions,
    writes: Collection[WriteSnapshot],
    proved: Collection[int],
    retained: tuple[int, int] | None,
) -> Iterator[Attest]:
    """Yields the comparisons that come first: the log is in doubt, or a snapshot of ours may be.

    Args:
        store: what is there.
        judgement: what became of its proofs.
        versions: its files without stale snapshots.
        writes: the snapshots that are to be written.
        proved: the versions of snapshots whose proofs count.
        retained: the first and the last version that a restart could ask for, where what it would
            begin with is to be compared once.
    """
    for one in judgement.disputed:
        doubts = tuple(versions.deltas[version].entry for version in one.doubts)
        reason = AttestReason.LOG_REPLACED
        yield Attest(store.id, one.snapshot, one.instead, reason, doubts, one.why)
    disputed = {one.path for one in judgement.disputed}
    for snapshot in _unproved(store, versions, proved):
        over = _passed_over(snapshot, writes)
        asked = retained is not None and _is_asked_for(store, versions, snapshot, *retained)
        if snapshot.entry.path not in disputed and (over or asked):
            against = versions.from_log(snapshot.version, proved=proved)
            if over or against:
                yield Attest(store.id, snapshot, against, AttestReason.NEVER_PROVED)


def _unproved(store: Store, versions: Versions, proved: Collection[int]) -> Iterator[Snapshot]:
    """Yields the snapshots of ours that a run has left without a proof.

    It was killed, or found that what it had written is wrong.
    """
    ours = store.rocks.ours if store.rocks else store.written
    for version, snapshot in sorted(versions.snapshots.items()):
        if version not in proved and snapshot.entry.path in ours:
            yield snapshot


def _is_asked_for(
    store: Store, versions: Versions, snapshot: Snapshot, required: int, target: int
) -> bool:
    """Returns whether a restart may begin with a snapshot; only those that are surely ours count.

    What lay there when we first wrote counts as ours as well, and may be a dozen of an executor's;
    of these it is the newest alone.
    """
    lowest, newest = versions.base(required), versions.base(target)
    first = lowest.version if lowest else 0
    sure = snapshot == newest or store.rocks is not None or snapshot.version >= (store.since or 0)
    return sure and first <= snapshot.version <= target


def _passed_over(snapshot: Snapshot, writes: Collection[WriteSnapshot]) -> bool:
    """Returns whether a fold leads past a snapshot: the last that tells if the log was changed."""
    return any(one.chain.start < snapshot.version < one.version for one in writes)
