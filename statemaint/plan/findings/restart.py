"""Whether a query restarts, by findings of whatever depth: as Spark decides it (S21). Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.model.findings import Blocks, Finding, FindingCode, Subject, damaged
from statemaint.model.ids import batch_of
from statemaint.model.verdict import Verdict

OF_SNAPSHOTS = (FindingCode.CORRUPT_FILE, FindingCode.MISSING_SST, FindingCode.STALE_CHECKSUM)
"""The findings of snapshots that Spark 4.2 and later pass over."""
_CHANGES, _SNAPSHOTS = (".delta", ".changelog"), (".snapshot", ".zip")
_MOST_CHANGES = 500
"""The most that a repaired load replays: `stateStore.autoSnapshotRepair.maxChangeFileReplay`."""
_NAMED = 100  # of a wider gap only the ends are named: an entry above it may have any number


def verdict_by_names(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Verdict:
    """Returns the verdict of a look at logs and listings, of which bad zips are left out."""
    rest = [finding for finding in findings if finding.code not in OF_SNAPSHOTS]
    passes = resumes(checkpoint, rest) and is_replayable(checkpoint, findings)
    return verdict(checkpoint, findings, self_repairing=passes)


def verdict(
    checkpoint: Checkpoint, findings: tuple[Finding, ...], *, self_repairing: bool
) -> Verdict:
    """Returns the verdict; `self_repairing`: Spark 4.2 and later pass over what is bad."""
    loads = self_repairing or resumes(checkpoint, findings)
    return Verdict.of(
        unread=any(finding.code is FindingCode.STORAGE_FAILED for finding in findings),
        blocked=not loads or any(blockers(checkpoint, findings)),
        damaged=damaged(findings),
        committed=checkpoint.committed is not None,
    )


def resumes(checkpoint: Checkpoint, findings: Iterable[Finding]) -> bool:
    version = checkpoint.resumes
    if version is None:
        return True
    findings = [*findings]
    if any(blocks_load(finding, checkpoint) for finding in findings):
        return False
    # Findings in the logs that stop a restart are `blockers`.
    of_state = (finding for finding in findings if finding.code.about.subject is not Subject.LOGS)
    spoiled = spoiled_batches(finding for finding in of_state if not is_doubt(finding))
    stores = (store.versions for store in checkpoint.needed(version))
    loads = all(version in versions.loadable(version, version) for versions in stores)
    return loads and batch_of(version) not in spoiled


def is_replayable(checkpoint: Checkpoint, findings: Iterable[Finding]) -> bool:
    """Returns whether a load that has passed over bad snapshots is short enough for Spark."""
    version = checkpoint.resumes or 0
    headless = {finding.store for finding in findings if finding.code is FindingCode.LINEAGE_BROKEN}
    return all(
        isinstance(chain := store.versions.chain(version), Chain)
        and len(chain.deltas) <= _MOST_CHANGES
        and (chain.base or store.id not in headless)
        for store in checkpoint.needed(checkpoint.resumes)
    )


def spoiled_batches(findings: Iterable[Finding]) -> set[int]:
    # Misplaced rows still load; `Diagnosis.misplaced` reports them.
    damage = (finding for finding in findings if finding.damage)
    of_files = (finding for finding in damage if finding.code.about.subject is not Subject.ROWS)
    return {batch for finding in of_files for batch in finding.batches}


def blockers(checkpoint: Checkpoint, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yields the findings that stop a restart, or make it wrong, before any state is read."""
    newest = max((*checkpoint.offsets, *checkpoint.batches), default=0)
    # The log entries that a restart reads, and `None` for findings without a path.
    offsets = (f"offsets/{newest}", f"offsets/{newest - 1}", "offsets")
    read = frozenset({*offsets, f"commits/{checkpoint.committed}", None})
    return (finding for finding in findings if _blocks(finding, checkpoint, read))


def _blocks(finding: Finding, checkpoint: Checkpoint, read: frozenset[str | None]) -> bool:
    blocks = finding.code.about.blocks
    older = blocks is Blocks.ITS_ENTRY and finding.path not in read
    # A restart writes an operator's metadata of the first format again if it is unreadable, as if
    # it were missing; the newer format leads to the schemas, and a restart needs it.
    rewritten = re.fullmatch(r"state/[0-9]+/_metadata/metadata", finding.path or "")
    unread = finding.code is FindingCode.UNREADABLE_METADATA and rewritten
    if blocks is not Blocks.NOTHING and not (older or unread):
        return True
    # RocksDB passes over a directory, as over any bad zip.
    hdfs = checkpoint.provider is Provider.HDFS_BACKED
    taken = blocks_batch(finding, (checkpoint.resumes or 0) + 1)
    return taken or (hdfs and blocks_load(finding, checkpoint))


def blocks_batch(finding: Finding, version: int) -> bool:
    """Returns whether a batch cannot write a version because its file name is taken."""
    taken = finding.code is FindingCode.BLOCKED_NAME and finding.version == version
    return taken and (finding.path or "").endswith(_CHANGES)


def blocks_load(finding: Finding, checkpoint: Checkpoint) -> bool:
    """Returns whether a restart takes a directory for the newest snapshot and fails."""
    version = checkpoint.resumes
    if not names_snapshot(finding) or finding.version is None or version is None:
        return False
    store = next(candidate for candidate in checkpoint.stores if candidate.id == finding.store)
    return store.versions.start(version) < finding.version <= version


def names_snapshot(finding: Finding) -> bool:
    return finding.code is FindingCode.BLOCKED_NAME and (finding.path or "").endswith(_SNAPSHOTS)


def is_doubt(finding: Finding) -> bool:
    """Returns whether a finding is a wrong checksum that Spark does not read.

    The file may not be the one that the query wrote, and still loads: Spark reads changes, and
    snapshots of HDFS-backed stores, through `FileContext`, which ignores Hadoop's checksums. Zips
    and SST files of RocksDB are read through `FileSystem`, which checks them.
    """
    name = (finding.path or "").rpartition("/")[2]
    unread = re.fullmatch(r"\..+\.(?:delta|snapshot|changelog)\.crc", name) is not None
    return finding.code is FindingCode.STALE_CHECKSUM and unread


# -- what the names in the commit and offset logs alone show


def diagnose_logs(checkpoint: Checkpoint) -> tuple[Finding, ...]:
    """Returns the findings of the two logs compared with each other, and of missing schemas.

    Spark purges both logs from below, one after the other, so only entries between others, or at
    the end, can be missing. Mirrors `MicroBatchExecution.populateStartOffsets`, which reads the
    offsets of the newest batch and of the one before.
    """
    return (*_commits(checkpoint), *_offsets(checkpoint), *_schemas(checkpoint))


def with_log_damage(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a checkpoint with those of them that stop a restart, or that all commits are lost."""
    lost = () if checkpoint.batches else _no_commits(checkpoint.offsets)
    damage = (*blockers(checkpoint, diagnose_logs(checkpoint)), *lost)
    return replace(checkpoint, findings=(*checkpoint.findings, *damage))


def _commits(checkpoint: Checkpoint) -> Iterator[Finding]:
    commits, offsets = checkpoint.batches, checkpoint.offsets
    if not commits:
        yield from _no_commits(offsets)
        return
    # The newest batch may be running; the one before it was committed before it began.
    last = max(commits[-1], offsets[-1] - 1 if offsets else 0)
    for batches in _gaps(commits, commits[0], last):
        first, end = batches[0], batches[-1]
        were = f"batch {first} was" if first == end else f"batches {first} to {end} were"
        detail = (
            f"{_missing('commits', batches)}: nothing shows whether {were} committed, "
            "and the state is not offered to readers; put the file back from a copy"
        )
        lost = tuple(batches[:_NAMED])
        yield Finding(FindingCode.MISSING_COMMIT, detail, path=f"commits/{first}", batches=lost)


def _no_commits(offsets: tuple[int, ...]) -> Iterator[Finding]:
    """Yields the finding of a missing commit log; only the first batch may run without one."""
    if offsets and offsets[-1] > 0:
        detail = (
            f"commits/ is missing or empty although batch {offsets[-1]} was planned: a restart runs"
            " it again on the state before it, and fails where versions have unique ids; put the "
            "folder back from a copy"
        )
        yield Finding(FindingCode.MISSING_COMMIT, detail, path="commits")


def _offsets(checkpoint: Checkpoint) -> Iterator[Finding]:
    commits, offsets = checkpoint.batches, checkpoint.offsets
    if not commits or not offsets:
        return
    newest = max(offsets[-1], commits[-1])
    for batches in _gaps(offsets, min(offsets[0], max(0, newest - 1)), newest):
        first, end = batches[0], batches[-1]
        to = f"batch {first}" if first == end else f"any of batches {first} to {end}"
        what = "a restart fails" if end >= newest - 1 else f"the query cannot go back to {to}"
        detail = f"{_missing('offsets', batches)}: {what}; put the file back from a copy"
        yield Finding(FindingCode.MISSING_OFFSET, detail, path=f"offsets/{end}")


def _schemas(checkpoint: Checkpoint) -> Iterator[Finding]:
    for path in checkpoint.lacks:
        detail = (
            f"{path} is missing: Spark's state reader cannot read the store, and a restart takes "
            "whatever schema the query has then; put the file back from a copy"
        )
        yield Finding(FindingCode.MISSING_SCHEMA, detail, path=path)


def _missing(folder: str, batches: range) -> str:
    first, last = f"{folder}/{batches[0]}", f"{folder}/{batches[-1]}"
    if len(batches) == 1:
        return f"{first} is missing"
    return f"all of {first} to {last} are missing, {len(batches):,} files"


def _gaps(present: Iterable[int], first: int, last: int) -> Iterator[range]:
    """Yields the gaps of a closed range, ascending: one by one, or whole if they are wide."""
    there = (batch for batch in present if first <= batch <= last)
    for below, above in pairwise((first - 1, *there, last + 1)):
        gap = range(below + 1, above)
        if above - below > _NAMED:
            yield gap
        else:
            yield from (range(batch, batch + 1) for batch in gap)
