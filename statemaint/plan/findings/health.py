"""The findings of a store that its listing alone shows."""

import re
from collections.abc import Iterator
from itertools import count

from statemaint.model.chain import Chain, Gap, Unnamed, Versions
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot, UnknownFile, disables_spark
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import batch_of, version_of
from statemaint.model.proof import Outdated
from statemaint.plan.rewinds import ascending
from statemaint.plan.staleness import Suspect, doubts_of, judge

_LONGEST = 2**63 - 1  # a Java long


def diagnose(store: Store, checkpoint: Checkpoint) -> tuple[Finding, ...]:
    """Returns the findings of a store: those of the scan, then those of its file names.

    Only versions that a restart or a rollback may need can be damaged: Spark has cleaned up lower
    ones, and not committed higher ones yet.
    """
    if store.unread:
        return store.findings
    findings = [*store.findings, *_unknown(store), *name_findings(store, checkpoint)]
    if checkpoint.span is None and checkpoint.offsets:
        findings += _above(store, checkpoint, 0)
    if checkpoint.span:
        first, last = checkpoint.span
        unsound = tuple(_unsound(store, checkpoint, first, last))
        findings += unsound or _broken(store, checkpoint, store.oldest(first, last), last)
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
    # A commit offers these versions to a reader, or a restart may begin with them.
    needed = {version_of(batch) for batch in checkpoint.batches} | {checkpoint.resumes or last}
    needed = {version for version in needed if first <= version <= last}
    others = {version for version in needed if not checkpoint.asks(store.id, version)}
    fine = versions.loadable(first, last) | others
    broken = last - first + 1 - len(fine)
    if not broken:
        return
    lost = tuple(batch_of(version) for version in sorted(needed - fine))
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
    """Yields the pins whose version does not load here, and is not damage: Spark knows no pins."""
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


def _missing(store: Store, checkpoint: Checkpoint, first: int, batches: tuple[int, ...]) -> Finding:
    number = store.id.operator
    partitions = checkpoint.partitions.get(number, 0)
    has = f"operator {number} has {partitions} partition{'s' if partitions != 1 else ''}"
    detail = (
        f"{store.id.directory} is missing or empty, and the query reads it ({has}): no batch loads;"
        " put the folder back from a copy, nothing is deleted until then"
    )
    by_id = store.rocks and store.rocks.ids
    code = FindingCode.LINEAGE_BROKEN if by_id else FindingCode.BROKEN_CHAIN
    return Finding(code, detail, store.id, first, path=store.id.directory, batches=batches)


def _why(store: Store, gap: Gap) -> str:
    listed = (file for file in store.files if isinstance(file, Delta | Snapshot))
    if any(file.version == gap.first and file.id for file in listed):
        return (
            f"commits/{batch_of(gap.first)}, which names the attempt that counts at version "
            f"{gap.first}, is missing or unreadable"
        )
    return f"{store.change_path(gap.first)} is missing ({gap.count} in all)"


def _unsound(store: Store, checkpoint: Checkpoint, first: int, last: int) -> Iterator[Finding]:
    """Yields the findings of zips that retained versions load from, or will without stale ones."""
    rocks = store.rocks
    if rocks is None:
        return
    listed = rocks.versions(rocks.loaded(store.files))
    true = judge(store, checkpoint).without_stale(store)
    base = rocks.versions(rocks.loaded(true.files)).base(first) or listed.base(first)
    lowest = base.version if base else 1
    for version, snapshot in sorted(listed.snapshots.items()):
        path = snapshot.entry.path
        if lowest <= version <= last and path in rocks.unsound:
            unreadable = path in rocks.unreadable
            code = FindingCode.CORRUPT_FILE if unreadable else FindingCode.MISSING_SST
            detail = f"{rocks.unsound[path]}; nothing is deleted until it is whole again"
            batches = tuple(batches_through(listed, path, first, last))
            yield Finding(code, detail, store.id, version, path=path, batches=batches)


def _unreadable(store: Store, first: int, last: int) -> Iterator[Finding]:
    code = FindingCode.UNREADABLE_BY_QUERY
    for version, snapshot in sorted(store.versions.snapshots.items()):
        path = snapshot.entry.path
        why = store.unreadable.get(path)
        if why and (batches := tuple(batches_through(store.versions, path, first, last))):
            detail = f"{why}; nothing is deleted until it can be read"
            yield Finding(code, detail, store.id, version, path=path, batches=batches)


def batches_through(versions: Versions, path: str, first: int, last: int) -> Iterator[int]:
    """Yields the batches of a closed range of versions that are loaded from a file."""
    # No chain is put together: there may be a hundred, of thousands of deltas each.
    at = next((delta.version for delta in versions.deltas.values() if delta.entry.path == path), 0)
    for version in sorted(versions.loadable(first, last)):
        base = versions.base(version)
        if (base.version if base else 0) < at <= version or (base and base.entry.path == path):
            yield batch_of(version)


def _above(store: Store, checkpoint: Checkpoint, target: int) -> Iterator[Finding]:
    snapshots, target = store.versions.snapshots, max(target, checkpoint.reached)
    for version in sorted(number for number in snapshots if number > target):
        if version == target + 1 and _is_written_again(store, checkpoint, snapshots[version]):
            continue
        path = snapshots[version].entry.path
        detail = (
            f"{path} is above version {target}, the last committed one; Spark would load it "
            "although its batch runs again. Move it away if the query was rewound; it is kept, and "
            "this store is halted"
        )
        yield Finding(FindingCode.SNAPSHOT_ABOVE_TARGET, detail, store.id, version, path=path)


def _is_written_again(store: Store, checkpoint: Checkpoint, snapshot: Snapshot) -> bool:
    """Returns whether the next batch writes its zip before its commit, and again if it is retried.

    It does without changelogs, which may have been switched off just now; if its column families
    are new; and if it is an uncommitted repartition. Or an executor's maintenance has snapshotted
    the running batch: it was planned, its changes written, then the snapshot. After a rewind the
    plan or the changes are younger than the snapshot left by the batch's first run.
    """
    codes = [finding.code for finding in checkpoint.findings]
    if FindingCode.UNFINISHED_REPARTITION in codes:
        return True
    versions, committed, plan = store.versions, snapshot.version - 1, checkpoint.running
    if change := versions.deltas.get(snapshot.version):
        times = [change.entry.modified, snapshot.entry.modified]
        return plan is not None and ascending([plan.modified, *times])
    alone = committed in versions.snapshots and committed not in versions.deltas
    per_batch = store.rocks is not None and (alone or committed == 0)
    return per_batch or store.is_forced(snapshot)


def _unknown(store: Store) -> Iterator[Finding]:
    for file in store.files:
        if isinstance(file, UnknownFile) and not unloadable(store, file.entry.name):
            stops = store.rocks is None and disables_spark(file.entry)
            harm = "; it stops Spark's own maintenance" if stops else ""
            path = file.entry.path
            detail = f"{path}: not a file that Spark writes{harm}; it is kept"
            yield Finding(FindingCode.UNKNOWN_FILE, detail, store.id, path=path)


# -- names in the directory that stop Spark: unparsable names, and names of directories


def name_findings(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    files = (file.entry.name for file in store.files if isinstance(file, UnknownFile | Snapshot))
    inside = f"{store.id.directory}/"
    folders = [path for path in checkpoint.directories if path.rpartition("/")[0] == inside[:-1]]
    names = [*files, *(path.removeprefix(inside) for path in folders)]
    for name in sorted(name for name in names if unloadable(store, name)):
        detail = (
            f"{inside}{name}: Spark takes every name with this ending for a snapshot and fails to "
            "load the store (HDFS-backed stores from 4.2 on); move it out of the directory, it is "
            "kept"
        )
        path = f"{inside}{name}"
        yield Finding(FindingCode.UNLOADABLE_NAME, detail, store.id, path=path)
    for path in folders:
        if not unloadable(store, path.removeprefix(inside)) and _in_the_way(store, path):
            detail = (
                f"{path} is a directory: a batch or a maintenance run that must write the file of "
                "that name fails; move it out of the directory"
            )
            yield Finding(FindingCode.BLOCKED_NAME, detail, store.id, _version(path), path=path)


def unloadable(store: Store, name: str) -> bool:
    """Returns whether Spark fails to load a store because of a name in its directory.

    Mirrors `SnapshotLoaderHelper.getEligibleSnapshotsForVersion`, which parses the rest of every
    name with a snapshot's suffix as a number. If versions have unique ids it requests known
    names. A store in which nothing counts may be such a store with its commits missing.
    """
    if store.rocks and (store.rocks.ids or not store.versions.all):
        return False
    suffix = ".snapshot" if store.rocks is None else ".zip"
    number = re.fullmatch(r"[+-]?[0-9]{1,19}", name.removesuffix(suffix))
    is_long = number is not None and -_LONGEST - 1 <= int(number[0]) <= _LONGEST
    return name.endswith(suffix) and not is_long


def _in_the_way(store: Store, path: str) -> bool:
    """Returns whether a directory has a name that Spark or maintenance may read or write.

    With unique ids a new file has a new id in its name, so only names of committed versions are
    used again. Without ids every version's name is.
    """
    version, rocks = _version(path), store.rocks
    if rocks is None or not rocks.ids:
        return True
    if version is None or version > max(rocks.ids):
        return False
    stem, unique = path.rpartition("/")[2].partition(".")[0], rocks.id_at(version)
    if stem == str(version):
        return version <= rocks.plain
    return unique is None or stem == f"{version}_{unique}"


def _version(path: str) -> int | None:
    match = re.match(r"[0-9]{1,18}(?=[._])", path.rpartition("/")[2])
    return int(match[0]) if match else None


# -- stale snapshots and replaced logs


def stale_findings(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    judgement = judge(store, checkpoint)
    yield from doubted(store)
    yield from (edited_finding(store, edited) for edited in judgement.edited)
    yield from (stale_finding(store, suspect) for suspect in judgement.stale)
    code = FindingCode.SNAPSHOT_MISMATCH
    for lost in judgement.lost:
        names = ", ".join(entry.name for entry in lost.replaced)
        detail = (
            f"{lost.path} was written before {names}, which it was proved from, and the files "
            "below are missing: nothing shows whether it is right. Restore the missing files from "
            "a copy"
        )
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

    It is a notice until its batches are filled in: from the first doubted version to the one below.
    """
    names = ", ".join(store.versions.deltas[number].entry.name for number in doubts[:3])
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
    version, first, last = suspect.snapshot.version, suspect.replaced[0], suspect.replaced[-1]
    span = f"version {first} was" if first == last else f"versions {first} to {last} were"
    detail = (
        f"{suspect.path} is stale: {span} written again after it was proved, so "
        f"a restart from version {version} (batch {batch_of(version)}) on loads the state from "
        "before the rewind; `statemaint maintain` moves it to the trash, the log has the state"
    )
    return Finding(FindingCode.STALE_SNAPSHOT, detail, store.id, version, path=suspect.path)
