"""What has to be compared before anything else happens in a store, and what is in doubt. Pure."""

from collections.abc import Collection, Iterable, Iterator

from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Store
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
) -> Iterator[Attest]:
    """Yields the comparisons that come first: the log is in doubt, or may have been changed.

    Args:
        store: what is there.
        judgement: what became of its proofs.
        versions: its files without stale snapshots.
        writes: the snapshots that are to be written.
        proved: the versions of snapshots whose proofs count.
    """
    for one in judgement.disputed:
        doubts = tuple(versions.deltas[version].entry for version in one.doubts)
        reason = AttestReason.LOG_REPLACED
        yield Attest(store.id, one.snapshot, one.instead, reason, doubts, one.why)
    disputed = {one.path for one in judgement.disputed}
    for version in _passed_over(store, versions, writes, proved):
        snapshot = versions.snapshots[version]
        if snapshot.entry.path not in disputed:
            against = versions.from_log(version, proved=proved)
            yield Attest(store.id, snapshot, against, AttestReason.NEVER_PROVED)


def _passed_over(
    store: Store, versions: Versions, writes: Iterable[WriteSnapshot], proved: Collection[int]
) -> Iterator[int]:
    """Yields the versions of our snapshots that a run left unproved, and that are folded past.

    They may be all that tells that the log below them has been changed since.
    """
    ours = store.rocks.ours if store.rocks else store.written
    chains = [(one.chain.start, one.version) for one in writes]
    for version, snapshot in sorted(versions.snapshots.items()):
        over = any(start < version < end for start, end in chains)
        if over and version not in proved and snapshot.entry.path in ours:
            yield version
