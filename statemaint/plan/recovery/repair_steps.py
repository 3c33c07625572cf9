"""The steps that might end findings, by the listing alone; `recover.repair` proves them. Pure."""

from collections.abc import Iterable, Iterator

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.plan.recovery.recovery_plan import Remove, RemoveReason, RepairStep
from statemaint.plan.snapshots import written


def repair_steps(checkpoint: Checkpoint, findings: Iterable[Finding]) -> tuple[RepairStep, ...]:
    """Returns the steps that might end each finding of damage, not yet proved.

    Each may rely on those before it: lower snapshots come first, checksums last. Snapshots and
    checksums are disposable (S1); no step removes a change.
    """
    stores = {store.id: store for store in checkpoint.stores}
    steps: dict[frozenset[str], RepairStep] = {}
    for finding in findings:
        if finding.damage and finding.store in stores and finding.path:
            for step in _steps_of(stores[finding.store], finding):
                steps.setdefault(step.paths, step)
        for store, entry in checkpoint.schemas.items():
            unreadable = finding.code is FindingCode.UNREADABLE_METADATA
            if unreadable and finding.path == entry.path and store in stores:
                remove = Remove(entry, RemoveReason.UNREADABLE_SCHEMA, store)
                steps[frozenset({entry.path})] = RepairStep(finding, (remove,), 0)
    return tuple(sorted(steps.values(), key=_order))


def _order(step: RepairStep) -> tuple[int, StoreId, int]:
    # A bad snapshot is removed with its checksum, which then needs no separate step. A shared
    # file is removed once none of its snapshots is left. A snapshot is removed because of its
    # checksum if removing the checksum alone does not help.
    store = step.removes[-1].store or StoreId(0, 0)
    last = of_checksum(step.finding)
    alone = step.reason is RemoveReason.STALE_CHECKSUM
    return 4 * last + 2 * (last and not alone) + (step.version == 0), store, step.version


def of_checksum(finding: Finding) -> bool:
    return finding.code is FindingCode.STALE_CHECKSUM or (finding.path or "").endswith(".crc")


_OF_SNAPSHOTS = (
    FindingCode.CORRUPT_FILE,
    FindingCode.SNAPSHOT_MISMATCH,
    FindingCode.STALE_SNAPSHOT,
    FindingCode.MISSING_SST,
    FindingCode.UNREADABLE_BY_QUERY,
)


def _steps_of(store: Store, finding: Finding) -> Iterator[RepairStep]:
    path, code = finding.path, finding.code
    for file in store.files:
        if file.entry.path != path:
            continue
        if isinstance(file, ChecksumFile):
            yield RepairStep(finding, _checksums(store, file), file.version)
            yield from _without_snapshots(store, finding, file.owner)
        elif isinstance(file, SstFile):
            yield _without(store, finding, file, RemoveReason.BAD_SNAPSHOT)
        elif isinstance(file, Snapshot) and code is FindingCode.SNAPSHOT_ABOVE_TARGET:
            yield _without(store, finding, file, RemoveReason.ABOVE_TARGET)
    if code in _OF_SNAPSHOTS:
        yield from _without_snapshots(store, finding, path)


def _without_snapshots(store: Store, finding: Finding, path: str | None) -> Iterator[RepairStep]:
    """Yields the steps for the snapshot that a file is, or for those that refer to it."""
    parts = store.rocks.parts if store.rocks else {}
    for file in store.snapshots:
        own = file.entry.path
        if path == own or path in parts.get(own, {}):
            yield _without(store, finding, file, RemoveReason.BAD_SNAPSHOT)


def _without(
    store: Store, finding: Finding, file: Snapshot | SstFile, reason: RemoveReason
) -> RepairStep:
    own = file.entry.path
    sides = [it.entry for it in store.files if isinstance(it, ChecksumFile) and it.owner == own]
    sides.sort(key=lambda entry: -len(entry.path))
    removes = tuple(Remove(entry, reason, store.id, file.version) for entry in (*sides, file.entry))
    return RepairStep(finding, removes, file.version)


def _checksums(store: Store, side: ChecksumFile) -> tuple[Remove, ...]:
    """Returns the removals of a checksum file and, before it, of Hadoop's side file for it."""
    beside = f"{side.entry.path.removesuffix(side.entry.name)}.{side.entry.name}.crc"
    entries = [file.entry for file in store.files if file.entry.path == beside]
    reason = RemoveReason.STALE_CHECKSUM
    return tuple(Remove(entry, reason, store.id, side.version) for entry in (*entries, side.entry))


def rebuilt(step: RepairStep, listed: Store, store: Store, window: range) -> WriteSnapshot | None:
    """Returns the snapshot to write in place of a bad one; `None` if the log alone suffices.

    It is written if a retained version would be loaded from it, and folded with as little reliance
    as possible on snapshots that were not compared with the log. `listed` is the store as it is,
    `store` without the removed files; `window` has the versions that the commit log requires.
    """
    path = step.removes[-1].path
    if step.reason is not RemoveReason.BAD_SNAPSHOT or path != listed.snapshot_path(step.version):
        return None  # no snapshot, or one of an attempt that does not count
    if not _reads_from(listed, step.version, window):
        return None
    return from_log(store, step.version, listed)


def from_log(store: Store, version: int, setup: Store | None = None) -> WriteSnapshot | None:
    """Returns the write of a version's snapshot from the log; `None` if that cannot be done.

    `setup` is the store with the zips that may name its column families; the same by default.
    """
    chain = store.versions.from_log(version, proved=())
    if chain is None or not chain.deltas or (setup or store).unsettled:
        return None
    return written(store, chain, SnapshotReason.REBUILT, (setup or store).families_at(version))


def missing_bases(checkpoint: Checkpoint, findings: Iterable[Finding]) -> Iterator[RepairStep]:
    """Yields the steps for broken lineages that lack only a zip, as a killed repair leaves them.

    The lowest one is written: the lineages of the versions above name that version, too.
    """
    lost = tuple(findings)
    for store in checkpoint.stores:
        versions = {it.version: it for it in lost if it.version and lacks_base(store, it)}
        if versions and (write := from_log(store, min(versions))):
            yield RepairStep(versions[write.version], (), write.version, rebuild=write)


def lacks_base(store: Store, finding: Finding) -> bool:
    """Returns whether a store has the changelog of a finding, whose lineage lacks only a zip."""
    broken = finding.code is FindingCode.LINEAGE_BROKEN and finding.store == store.id
    logged = (file.entry.path for file in store.files if isinstance(file, Delta))
    return broken and finding.version is not None and (finding.path or "") in logged


def _reads_from(store: Store, version: int, window: range) -> bool:
    """Returns whether a retained version would be loaded from a snapshot if it were sound."""
    rocks = store.rocks
    versions = [file.version for file in store.snapshots if rocks is None or rocks.counts(file)]
    first = max((number for number in versions if number <= window.start), default=0)
    return first <= version < window.stop


def refers(store: Store, path: str) -> bool:
    return store.rocks is not None and any(path in parts for parts in store.rocks.parts.values())


def self_checking(checkpoint: Checkpoint) -> bool:
    """Returns whether a file that decodes is certain to hold the bytes that were written.

    Blocks of LZ4 carry a hash of their content, and rows may carry their own; the other
    compressions miss some flipped bits. Whether the file belongs under its name is another matter.
    """
    return checkpoint.codec == "lz4" or checkpoint.row_checksums


def witness(store: Store, side: ChecksumFile) -> tuple[Snapshot, Chain] | None:
    """Returns what a file is compared with: the next snapshot, and a chain through the file.

    A snapshot is compared with the log below it, and a change with the next snapshot above, unless
    we folded that from this very change: it agrees in any case and proves nothing.
    """
    versions = store.versions
    above = [number for number in versions.snapshots if number >= side.version]
    if not above:
        return None
    snapshot = versions.snapshots[min(above)]
    chain, path = versions.from_log(snapshot.version, proved=()), snapshot.entry.path
    proofs = (*store.attestations, *(outdated.proof for outdated in store.outdated))
    ours = {proof.path for proof in proofs if proof.ours}
    ours |= store.rocks.ours if store.rocks else frozenset()
    compares = side.owner == path or (path not in ours and chain and side.owner in chain.paths)
    return (snapshot, chain) if chain and compares else None
