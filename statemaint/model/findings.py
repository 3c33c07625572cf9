"""The findings of a checkpoint, by stable code; `docs/runbook.md` has a heading for each."""

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
    TRASH_NOT_EMPTIED = "TRASH_NOT_EMPTIED"
    FAULT = "FAULT"
    UNREADABLE_BY_QUERY = "UNREADABLE_BY_QUERY"
    SUPERSEDED = "SUPERSEDED"
    NO_COMMITTED_BATCH = "NO_COMMITTED_BATCH"
    UNKNOWN_FILE = "UNKNOWN_FILE"
    ORPHAN_FILE = "ORPHAN_FILE"
    STALE_CHECKSUM = "STALE_CHECKSUM"
    FOREIGN_MAINTAINER = "FOREIGN_MAINTAINER"
    UNFINISHED_REPARTITION = "UNFINISHED_REPARTITION"
    UNFINISHED_ROLLBACK = "UNFINISHED_ROLLBACK"
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
    MISSING_METADATA = "MISSING_METADATA"
    MISSING_SOURCE_LOG = "MISSING_SOURCE_LOG"
    NO_STATE = "NO_STATE"
    UNUSED_STORE = "UNUSED_STORE"
    UNDECLARED_OPERATOR = "UNDECLARED_OPERATOR"
    FOREIGN_OPERATOR = "FOREIGN_OPERATOR"
    UNLOADABLE_NAME = "UNLOADABLE_NAME"
    BLOCKED_NAME = "BLOCKED_NAME"
    SNAPSHOT_WITHHELD = "SNAPSHOT_WITHHELD"
    REFUSED_LINK = "REFUSED_LINK"


_NOTICES = frozenset(
    {
        FindingCode.NO_COMMITTED_BATCH,
        FindingCode.UNKNOWN_FILE,
        FindingCode.ORPHAN_FILE,
        FindingCode.PURGED_BY_SPARK,
        FindingCode.STALE_SNAPSHOT,
        FindingCode.LOG_REPLACED,
        FindingCode.SUPERSEDED,
        FindingCode.TRASH_NOT_EMPTIED,
        FindingCode.FOREIGN_MAINTAINER,
        FindingCode.CLOCK_SKEW,
        FindingCode.NO_STATE,
        FindingCode.UNUSED_STORE,
        FindingCode.SNAPSHOT_WITHHELD,
        FindingCode.UNDECLARED_OPERATOR,
    }
)
OF_STORAGE = frozenset({FindingCode.STORAGE_FAILED, FindingCode.TRASH_NOT_EMPTIED})
"""The findings of a run in which the storage failed: another run continues where it ended."""
_IF_LOADED = (FindingCode.STALE_SNAPSHOT, FindingCode.LOG_REPLACED, FindingCode.NO_STATE)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One finding, in one line.

    Attributes:
        code: the kind of finding.
        detail: what, where and what to do, for the operator.
        store: the affected store; `None` when it concerns the whole checkpoint.
        version: the state version that it spoils, if any.
        path: the file that is wrong or missing, if any.
        offset: the byte of that file, from its start.
        batches: the batches of the commit log that cannot be loaded because of it, ascending.
    """

    code: FindingCode
    detail: str
    store: StoreId | None = None
    version: int | None = None
    path: str | None = None
    offset: int | None = None
    batches: tuple[int, ...] = field(default=(), compare=False)  # they change while the query runs

    @property
    def damage(self) -> bool:
        """Returns whether the operator must act; the store (or checkpoint) is halted until then.

        Maintenance removes a stale snapshot, so it is only a notice in a plan. If batches are known
        to load wrong rows from one, the checkpoint is not healthy. The same holds for a log that
        was replaced, as long as the snapshot above agrees with it.
        """
        misleads = self.code in _IF_LOADED and bool(self.batches)
        return misleads or self.code not in _NOTICES


def damaged(findings: tuple[Finding, ...]) -> bool:
    """Returns whether any of the findings is damage."""
    return any(finding.damage for finding in findings)
