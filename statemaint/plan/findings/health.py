"""The findings of a store that its listing alone shows."""

from collections.abc import Iterator
from itertools import count

from statemaint.model.chain import Chain, Gap, Unnamed, Versions
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot, UnknownFile, disables_spark
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import batch_of, version_of
from statemaint.plan.findings.names import name_findings, unloadable
from statemaint.plan.findings.stale import stale_findings
from statemaint.plan.rewinds import ascending
from statemaint.plan.staleness import judge


def diagnose(store: Store, checkpoint: Checkpoint) -> tuple[Finding, ...]:
    """Returns the findings of a store: those of the scan, then those of its file names.

    Only versions that a restart or a rollback may need can be damaged. Lower versions, which Spark
    has cleaned up, and higher versions, which it has not committed yet, are normal. Of a store that
    could not be read, nothing else is known.
    """
    if store.unread:
        return store.findings
    findings = [*store.findings, *_unknown(store), *name_findings(store, checkpoint)]
    if checkpoint.span is None and checkpoint.offsets:
        findings += _above(store, checkpoint, 0)
    if checkpoint.span:
        first, last = checkpoint.span
        oldest = store.oldest(first, last)
        unsound = tuple(_unsound(store, checkpoint, first, last))
        findings += unsound or _broken(store, checkpoint, oldest, last)
        findings += _unreadable(store, first, last)
        findings += _above(store, checkpoint, last)
        findings += stale_findings(store, checkpoint)
    findings += _broken_pins(store, checkpoint)
    findings += _outside(store)
    return tuple(findings)


def _outside(store: Store) -> Iterator[Finding]:
    """Yields the finding that links lead from a store out of the checkpoint (S24)."""
    if outside := store.outside:
        path, more = outside[0].path, len(outside) - 1
        files = f"{path} and {more} more of its files are" if more else f"{path} is"
        detail = (
            f"{store.id.directory}: {files} outside the checkpoint, where a link leads: they may "
            "be another checkpoint's, so nothing is written or deleted in this store. Put copies "
            "in place of the links, or mount a disk of its own there"
        )
        yield Finding(FindingCode.REFUSED_LINK, detail, store.id, path=path)


def _broken(store: Store, checkpoint: Checkpoint, first: int, last: int) -> Iterator[Finding]:
    versions = store.versions
    needed = _needed(checkpoint, first, last)
    others = {one for one in needed if not checkpoint.asks(store.id, one)}
    fine = versions.loadable(first, last) | others
    broken = last - first + 1 - len(fine)
    if not broken:
        return
    lost = tuple(batch_of(one) for one in needed if one not in fine)
    if not any(isinstance(file, Delta | Snapshot) for file in store.files):
        yield _missing(store, checkpoint, first, lost)
        return
    version = next(number for number in count(first) if number not in fine)
    more = f" and {broken - 1} later ones do" if broken > 1 else " does"
    so = f"so version {version} (batch {batch_of(version)}){more} not load"
    code = FindingCode.BROKEN_CHAIN
    match versions.chain(version):
        case Gap() as gap:
            if store.rocks and store.rocks.id_at(gap.first) is not None:
                code = FindingCode.LINEAGE_BROKEN
            detail, path = f"{_why(store, gap)}, {so}; restore it", store.change_path(gap.first)
        case Unnamed() as unnamed:
            detail, path = f"{unnamed.why}, {so}; restore the zip", store.id.directory
        case Chain() as chain:  # pragma: no cover -- loadable and chain are the same rule
            raise TypeError(chain)
    detail += ", nothing is deleted until then"
    yield Finding(code, detail, store.id, version, path=path, batches=lost)


def _broken_pins(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields the pins whose version does not load here; damage is reported as such.

    Spark's own clean-up knows no pin. What it has left stays as long as the pin.
    """
    first, last = checkpoint.span or (0, -1)
    for pin in checkpoint.pins:
        version, batch = pin.version, pin.batch
        if batch is None or first <= version <= last or not checkpoint.asks(store.id, version):
            continue
        if version not in store.versions.loadable(version, version):
            detail = (
                f"{store.id.directory}: version {version} of batch {batch}, which {pin.path} pins "
                f"({pin.by}), does not load: Spark's own clean-up heeds no pin. If no copy has its "
                f"files, end it: `statemaint pins` with --end {pin.id}"
            )
            yield Finding(FindingCode.BROKEN_PIN, detail, store.id, version, path=pin.path)


def _needed(checkpoint: Checkpoint, first: int, last: int) -> list[int]:
    """Returns the versions that a commit offers to a reader, or that a restart may begin with."""
    versions = {version_of(batch) for batch in checkpoint.batches} | {checkpoint.resumes or last}
    return sorted(version for version in versions if first <= version <= last)


def _missing(store: Store, checkpoint: Checkpoint, first: int, batches: tuple[int, ...]) -> Finding:
    number = store.id.operator
    partitions = checkpoint.partitions.get(number, 0)
    has = f"operator {number} has {partitions} partition{'s' if partitions != 1 else ''}"
    detail = (
        f"{store.id.directory} is missing or empty, and the query reads it ({has}): no batch loads;"
        " put the folder back from a copy, nothing is deleted until then"
    )
    by_id = store.rocks is not None and bool(store.rocks.ids)
    code = FindingCode.LINEAGE_BROKEN if by_id else FindingCode.BROKEN_CHAIN
    return Finding(code, detail, store.id, first, path=store.id.directory, batches=batches)


def _why(store: Store, gap: Gap) -> str:
    """Returns the missing part of a version: a file, or the commit that names the right one."""
    listed = (file for file in store.files if isinstance(file, Delta | Snapshot))
    if any(file.version == gap.first and file.id for file in listed):
        return (
            f"commits/{batch_of(gap.first)}, which names the attempt that counts at version "
            f"{gap.first}, is missing or unreadable"
        )
    return f"{store.change_path(gap.first)} is missing ({gap.count} in all)"


def _unsound(store: Store, checkpoint: Checkpoint, first: int, last: int) -> Iterator[Finding]:
    """Yields the findings of the zips that a retained version would be loaded from.

    These include the zip that it would be loaded from once stale zips are deleted.
    """
    if store.rocks is None:
        return
    rocks = store.rocks
    listed = rocks.versions(rocks.loaded(store.files))
    true = judge(store, checkpoint).without_stale(store)
    base = rocks.versions(rocks.loaded(true.files)).base(first) or listed.base(first)
    lowest = base.version if base else 1
    for version in sorted(number for number in listed.snapshots if lowest <= number <= last):
        path = listed.snapshots[version].entry.path
        if path in store.rocks.unsound:
            unreadable = path in store.rocks.unreadable
            code = FindingCode.CORRUPT_FILE if unreadable else FindingCode.MISSING_SST
            detail = f"{store.rocks.unsound[path]}; nothing is deleted until it is whole again"
            batches = tuple(batches_through(listed, path, first, last))
            yield Finding(code, detail, store.id, version, path=path, batches=batches)


def _unreadable(store: Store, first: int, last: int) -> Iterator[Finding]:
    """Yields the findings of our needed snapshots that the query cannot read."""
    for version, snapshot in sorted(store.versions.snapshots.items()):
        path = snapshot.entry.path
        if path not in store.unreadable:
            continue
        if batches := tuple(batches_through(store.versions, path, first, last)):
            detail = f"{store.unreadable[path]}; nothing is deleted until it can be read"
            code = FindingCode.UNREADABLE_BY_QUERY
            yield Finding(code, detail, store.id, version, path=path, batches=batches)


def batches_through(versions: Versions, path: str, first: int, last: int) -> Iterator[int]:
    """Yields the batches of a closed range of versions that are loaded from a file.

    No chain is put together for it: there may be a hundred, of thousands of deltas each.
    """
    at = next((one.version for one in versions.deltas.values() if one.entry.path == path), 0)
    for version in sorted(versions.loadable(first, last)):
        base = versions.base(version)
        start = base.version if base else 0
        if start < at <= version or (base and base.entry.path == path):
            yield batch_of(version)


def _above(store: Store, checkpoint: Checkpoint, target: int) -> Iterator[Finding]:
    snapshots = store.versions.snapshots
    for version in sorted(number for number in snapshots if number > target):
        if version == target + 1 and _is_written_again(store, checkpoint, snapshots[version]):
            continue
        detail = (
            f"{snapshots[version].entry.path} is above version {target}, the last committed"
            " one; Spark would load it although its batch runs again. Move it away if the query"
            " was rewound; it is kept, and this store is halted"
        )
        path = snapshots[version].entry.path
        yield Finding(FindingCode.SNAPSHOT_ABOVE_TARGET, detail, store.id, version, path=path)


def _is_written_again(store: Store, checkpoint: Checkpoint, snapshot: Snapshot) -> bool:
    """Returns whether the next batch writes its zip before its commit, and again if it is retried.

    It does without changelogs, which may have been switched off just now; if its column families
    are new; and if it is an uncommitted repartition.
    """
    committed, change = snapshot.version - 1, snapshot.version in store.versions.deltas
    alone = committed in store.versions.snapshots and committed not in store.versions.deltas
    per_batch = store.rocks is not None and (alone or committed == 0) and not change
    forced = store.is_forced(snapshot) and not change
    repartitioned = any(
        finding.code is FindingCode.UNFINISHED_REPARTITION for finding in checkpoint.findings
    )
    return per_batch or forced or repartitioned or _is_of_running(store, checkpoint, snapshot)


def _is_of_running(store: Store, checkpoint: Checkpoint, snapshot: Snapshot) -> bool:
    """Returns whether an executor's maintenance has snapshotted the running batch.

    The batch was planned, then its changes were written, then the snapshot. After a rewind either
    the plan or the changes are younger than the snapshot left by the batch's first run.
    """
    change, plan = store.versions.deltas.get(snapshot.version), checkpoint.running
    if change is None or plan is None:
        return False
    return ascending([plan.modified, change.entry.modified, snapshot.entry.modified])


def _unknown(store: Store) -> Iterator[Finding]:
    for file in store.files:
        if isinstance(file, UnknownFile) and not unloadable(store, file.entry.name):
            stops = store.rocks is None and disables_spark(file.entry)
            harm = "; it stops Spark's own maintenance" if stops else ""
            detail = f"{file.entry.path}: not a file that Spark writes{harm}; it is kept"
            path = file.entry.path
            yield Finding(FindingCode.UNKNOWN_FILE, detail, store.id, path=path)
