"""The findings of stale snapshots and replaced logs. Pure."""

from collections.abc import Iterator

from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import batch_of
from statemaint.model.proof import Outdated
from statemaint.plan.staleness import Suspect, doubts_of, judge


def stale_findings(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields the findings of a store's outdated proofs: what they mean for a restart."""
    found = judge(store, checkpoint)
    yield from doubted(store)
    for edited in found.edited:
        yield edited_finding(store, edited)
    for one in found.stale:
        yield stale_finding(store, one)
    for lost in found.lost:
        names = ", ".join(entry.name for entry in lost.replaced)
        detail = (
            f"{lost.path} was written before {names}, which it was proved from, and what lies "
            "below is missing: nothing tells whether it is right. Put the missing files back from "
            "a copy"
        )
        code = FindingCode.SNAPSHOT_MISMATCH
        yield Finding(code, detail, store.id, lost.version, path=lost.path)


def doubted(store: Store) -> Iterator[Finding]:
    """Yields the findings of files that earlier comparisons left in doubt and that still exist."""
    for proof, same in doubts_of(store):
        if proof.files:
            versions = tuple(delta.version for delta in same)
            yield replaced_finding(store, proof.path, proof.version, versions)
        else:
            yield edited_finding(store, Outdated(proof, tuple(delta.entry for delta in same)))


def replaced_finding(store: Store, path: str, version: int, doubts: tuple[int, ...]) -> Finding:
    """Returns the finding of a log that was replaced below a snapshot that agrees with it.

    It is a notice until its batches are filled in: those from the first doubted version to the one
    below the snapshot's.
    """
    names = ", ".join(store.versions.deltas[one].entry.name for one in doubts[:3])
    more = f" and {len(doubts) - 3} more" if len(doubts) > 3 else ""  # noqa: PLR2004
    span = f"{doubts[0]} to {version - 1}" if version - 1 > doubts[0] else f"{doubts[0]}"
    detail = (
        f"{store.id.directory}: {names}{more} replaced after {path} was proved equal to the log, "
        f"and not by the query; the snapshot still agrees, but nothing tells whether version {span}"
        " is right. Put what was there before back from a copy"
    )
    first = store.versions.deltas[doubts[0]].entry.path
    return Finding(FindingCode.LOG_REPLACED, detail, store.id, doubts[0], path=first)


def edited_finding(store: Store, one: Outdated) -> Finding:
    """Returns the finding of a log that was replaced where nothing is left to compare it with.

    It is a notice until its batches are filled in: those above the snapshot's, up to the next
    snapshot that executors wrote and that agrees with the log.
    """
    first = one.replaced[0]
    names = ", ".join(entry.name for entry in one.replaced[:3])
    detail = (
        f"{store.id.directory}: {names} replaced after {one.path} was proved from it, and not by "
        "the query; the snapshot stands, but what lies below it is gone, and nothing tells whether "
        "other files of the log are still what they were. Put what was there before back from a "
        "copy"
    )
    return Finding(FindingCode.LOG_REPLACED, detail, store.id, one.version, path=first.path)


def stale_finding(store: Store, one: Suspect) -> Finding:
    """Returns the finding of a stale snapshot, which is a notice until it has been compared."""
    version = one.snapshot.version
    detail = (
        f"{one.path} is stale: {_span(one.replaced)} written again after it was proved, so a "
        f"restart from version {version} (batch {batch_of(version)}) on loads the state from "
        "before the rewind; `statemaint maintain` moves it to the trash, the log has the state"
    )
    return Finding(FindingCode.STALE_SNAPSHOT, detail, store.id, version, path=one.path)


def _span(versions: tuple[int, ...]) -> str:
    if len(versions) == 1:
        return f"version {versions[0]} was"
    return f"versions {versions[0]} to {versions[-1]} were"
