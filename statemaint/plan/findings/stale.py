"""The findings of stale snapshots and replaced logs. Pure."""

from collections.abc import Iterator

from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import batch_of
from statemaint.model.proof import Outdated
from statemaint.plan.staleness import Suspect, doubts_of, judge


def stale_findings(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields the findings of a store's outdated proofs, with the effect on a restart."""
    judgement = judge(store, checkpoint)
    yield from doubted(store)
    for edited in judgement.edited:
        yield edited_finding(store, edited)
    for suspect in judgement.stale:
        yield stale_finding(store, suspect)
    for lost in judgement.lost:
        names = ", ".join(entry.name for entry in lost.replaced)
        detail = (
            f"{lost.path} was written before {names}, which it was proved from, and the files "
            "below are missing: nothing shows whether it is right. Restore the missing files from "
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
        f"and not by the query; the snapshot still agrees, but nothing shows whether version {span}"
        " is right. Restore the previous files from a copy"
    )
    first = store.versions.deltas[doubts[0]].entry.path
    return Finding(FindingCode.LOG_REPLACED, detail, store.id, doubts[0], path=first)


def edited_finding(store: Store, outdated: Outdated) -> Finding:
    """Returns the finding of a replaced log that can no longer be compared with anything.

    It is a notice until its batches are filled in: those above the snapshot's, up to the next
    snapshot that executors wrote and that agrees with the log.
    """
    first = outdated.replaced[0]
    names = ", ".join(entry.name for entry in outdated.replaced[:3])
    detail = (
        f"{store.id.directory}: {names} replaced after {outdated.path} was proved from it, and not "
        "by the query; the snapshot counts, but the files below it are missing, and nothing shows "
        "whether other files of the log are unchanged. Restore the previous files from a copy"
    )
    return Finding(FindingCode.LOG_REPLACED, detail, store.id, outdated.version, path=first.path)


def stale_finding(store: Store, suspect: Suspect) -> Finding:
    """Returns the finding of a stale snapshot, which is a notice until it has been compared."""
    version = suspect.snapshot.version
    detail = (
        f"{suspect.path} is stale: {_span(suspect.replaced)} written again after it was proved, so "
        f"a restart from version {version} (batch {batch_of(version)}) on loads the state from "
        "before the rewind; `statemaint maintain` moves it to the trash, the log has the state"
    )
    return Finding(FindingCode.STALE_SNAPSHOT, detail, store.id, version, path=suspect.path)


def _span(versions: tuple[int, ...]) -> str:
    if len(versions) == 1:
        return f"version {versions[0]} was"
    return f"versions {versions[0]} to {versions[-1]} were"
