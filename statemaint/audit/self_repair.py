"""The bad snapshots that Spark 4.2 and later pass over at a restart."""

from collections.abc import Callable, Iterable, Iterator

from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.files import ChecksumFile, Snapshot
from statemaint.model.findings import Finding, FindingCode
from statemaint.plan.findings.names import names_snapshot
from statemaint.plan.findings.restart import OF_SNAPSHOTS, is_replayable, resumes
from statemaint.storage import Storage, Without

Findings = tuple[Finding, ...]


def passed_over(
    storage: Storage,
    checkpoint: Checkpoint,
    findings: Findings,
    again: Callable[[Storage], tuple[Checkpoint, Findings]],
) -> tuple[str, ...] | None:
    """Returns the bad snapshots without which a restart succeeds; `None` if it does not.

    Mirrors `AutoSnapshotLoader.loadSnapshot` of Spark 4.2 and later: if the newest snapshot does
    not load, the one below is tried, and finally the empty state, each with the changes above it;
    with unique ids, the empty state only if the lineage of the version goes back to it.
    In HDFS-backed stores a directory that is named like a snapshot also makes this fail. `again`
    verifies the checkpoint once more without these snapshots.
    """
    folders = {one.path for one in findings if one.path and names_snapshot(one)}
    if folders and checkpoint.provider is Provider.HDFS_BACKED:
        return None
    bad = frozenset(folders | {*_bad_snapshots(checkpoint, findings)})
    headless = any(one.code is FindingCode.LINEAGE_BROKEN for one in findings)
    if not (bad or headless):
        return None
    sides = {
        file.entry.path
        for store in checkpoint.stores
        for file in store.files
        if isinstance(file, ChecksumFile) and file.owner in bad
    }
    without, rest = again(Without(storage, bad | sides | {*_below(storage, folders)}))
    loads = is_replayable(without, findings) and resumes(without, rest)
    return tuple(sorted(bad)) if loads else None


def _below(storage: Storage, folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        yield f"{folder}/"
        yield from (entry.path for entry in storage.list(folder))


def _bad_snapshots(checkpoint: Checkpoint, findings: Findings) -> Iterator[str]:
    stores = {store.id: store for store in checkpoint.stores}
    for finding in findings:
        if finding.code in OF_SNAPSHOTS and finding.store in stores:
            yield from _snapshots_of(stores[finding.store], finding.path)


def _snapshots_of(store: Store, path: str | None) -> Iterator[str]:
    """Yields the snapshots that are a bad file, own it, or refer to it."""
    sides = {file.entry.path: file.owner for file in store.files if isinstance(file, ChecksumFile)}
    bad = sides.get(path or "", path)
    parts = store.rocks.parts if store.rocks else {}
    for file in store.files:
        own = file.entry.path
        if isinstance(file, Snapshot) and (own == bad or bad in parts.get(own, ())):
            yield own
