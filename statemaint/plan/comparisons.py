"""What has to be compared before anything else happens in a store, and what is in doubt. Pure."""

from collections.abc import Collection, Iterable, Iterator

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
    writes: Iterable[WriteSnapshot],
    proved: Collection[int],
    newest: Snapshot | None = None,
) -> Iterator[Attest]:
    """Yields the comparisons that come first: the log is in doubt, or a snapshot of ours may be.

    Args:
        store: what is there.
        judgement: what became of its proofs.
        versions: its files without stale snapshots.
        writes: the snapshots that are to be written.
        proved: the versions of snapshots whose proofs count.
        newest: the snapshot that a restart begins with, where it is to be compared once.
    """
    for one in judgement.disputed:
        doubts = tuple(versions.deltas[version].entry for version in one.doubts)
        reason = AttestReason.LOG_REPLACED
        yield Attest(store.id, one.snapshot, one.instead, reason, doubts, one.why)
    disputed = {one.path for one in judgement.disputed}
    for snapshot in _unproved(store, versions, proved):
        if snapshot.entry.path not in disputed:
            against = versions.from_log(snapshot.version, proved=proved)
            if _passed_over(snapshot, writes) or (snapshot == newest and against):
                yield Attest(store.id, snapshot, against, AttestReason.NEVER_PROVED)


def _unproved(store: Store, versions: Versions, proved: Collection[int]) -> Iterator[Snapshot]:
    """Yields the snapshots of ours that a run has left without a proof.

    It was killed, or found that what it had written is wrong. The newest of them is what a restart
    would begin with.
    """
    ours = store.rocks.ours if store.rocks else store.written
    for version, snapshot in sorted(versions.snapshots.items()):
        if version not in proved and snapshot.entry.path in ours:
            yield snapshot


def _passed_over(snapshot: Snapshot, writes: Iterable[WriteSnapshot]) -> bool:
    """Returns whether a fold leads past a snapshot: the last that tells if the log was changed."""
    return any(one.chain.start < snapshot.version < one.version for one in writes)
