"""What may be wrong with a checkpoint, by stable code; `docs/runbook.md` has a heading for each."""

from dataclasses import dataclass, field
from enum import StrEnum, unique

from statemaint.model.ids import StoreId


@unique
class FindingCode(StrEnum):
    """A closed set: users script against these names."""

    BROKEN_CHAIN = "BROKEN_CHAIN"
    CORRUPT_FILE = "CORRUPT_FILE"
    SNAPSHOT_MISMATCH = "SNAPSHOT_MISMATCH"
    SNAPSHOT_ABOVE_TARGET = "SNAPSHOT_ABOVE_TARGET"
    STALE_SNAPSHOT = "STALE_SNAPSHOT"
    LOG_REPLACED = "LOG_REPLACED"
    UNREADABLE_COMMIT = "UNREADABLE_COMMIT"
    UNREADABLE_OFFSET = "UNREADABLE_OFFSET"
    UNREADABLE_METADATA = "UNREADABLE_METADATA"
    STORAGE_FAILED = "STORAGE_FAILED"
    FAULT = "FAULT"
    UNREADABLE_BY_QUERY = "UNREADABLE_BY_QUERY"
    SUPERSEDED = "SUPERSEDED"
    NO_COMMITTED_BATCH = "NO_COMMITTED_BATCH"
    UNKNOWN_FILE = "UNKNOWN_FILE"
    ORPHAN_FILE = "ORPHAN_FILE"
    STALE_CHECKSUM = "STALE_CHECKSUM"
    FOREIGN_MAINTAINER = "FOREIGN_MAINTAINER"
    UNFINISHED_REPARTITION = "UNFINISHED_REPARTITION"
    CLOCK_SKEW = "CLOCK_SKEW"
    LINEAGE_BROKEN = "LINEAGE_BROKEN"
    MISSING_SST = "MISSING_SST"
    UNSUPPORTED = "UNSUPPORTED"
    PURGED_BY_SPARK = "PURGED_BY_SPARK"
    WRONG_PARTITION = "WRONG_PARTITION"
    JOIN_MISMATCH = "JOIN_MISMATCH"
    MISSING_COMMIT = "MISSING_COMMIT"
    MISSING_OFFSET = "MISSING_OFFSET"
    MISSING_SCHEMA = "MISSING_SCHEMA"


_NOTICES = frozenset(
    {
        FindingCode.NO_COMMITTED_BATCH,
        FindingCode.UNKNOWN_FILE,
        FindingCode.ORPHAN_FILE,
        FindingCode.PURGED_BY_SPARK,
        FindingCode.STALE_SNAPSHOT,
        FindingCode.LOG_REPLACED,
        FindingCode.SUPERSEDED,
        FindingCode.FOREIGN_MAINTAINER,
        FindingCode.CLOCK_SKEW,
    }
)
_IF_LOADED = (FindingCode.STALE_SNAPSHOT, FindingCode.LOG_REPLACED)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that was found, said in one line.

    Attributes:
        code: which kind.
        detail: what, where and what to do, for a person.
        store: the store it stands in; `None` when it concerns the whole checkpoint.
        version: the state version that it spoils, where there is one.
        path: the file that is wrong or missing, where it is one.
        offset: the byte of that file, from its start.
        batches: those of the commit log that cannot be loaded because of it, ascending.
    """

    code: FindingCode
    detail: str
    store: StoreId | None = None
    version: int | None = None
    path: str | None = None
    offset: int | None = None
    batches: tuple[int, ...] = field(default=(), compare=False)  # a live query moves them on

    @property
    def damage(self) -> bool:
        """Returns whether a person must look: the store (or checkpoint) is halted until then.

        Maintenance ends a stale snapshot by itself, so it is a notice to a plan; where batches are
        known to load wrong rows from one, the checkpoint is not healthy. The same holds for a log
        that was replaced, as long as the snapshot above agrees with it.
        """
        misleads = self.code in _IF_LOADED and bool(self.batches)
        return misleads or self.code not in _NOTICES


def damaged(findings: tuple[Finding, ...]) -> bool:
    """Tells whether any of the findings is damage."""
    return any(finding.damage for finding in findings)
