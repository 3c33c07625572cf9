"""Whether a query restarts, by findings of whatever depth: as Spark decides it (S21). Pure."""

import re
from collections.abc import Iterable, Iterator

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.model.findings import Blocks, Finding, FindingCode, Subject, damaged
from statemaint.model.ids import batch_of
from statemaint.model.verdict import Verdict

OF_SNAPSHOTS = frozenset(
    {FindingCode.CORRUPT_FILE, FindingCode.MISSING_SST, FindingCode.STALE_CHECKSUM}
)
"""The findings of snapshots that Spark 4.2 and later pass over."""
_CHANGES, _SNAPSHOTS = (".delta", ".changelog"), (".snapshot", ".zip")
_MOST_CHANGES = 500
"""The most that a repaired load replays: `stateStore.autoSnapshotRepair.maxChangeFileReplay`."""


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
