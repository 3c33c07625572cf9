"""The findings of a checkpoint, by stable code; `docs/runbook.md` has a heading for each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, unique
from typing import Self

from statemaint.model.ids import StoreId
from statemaint.wording import Displayed, shortened


@unique
class Subject(Enum):
    """What the findings of a code are about."""

    FILES = "files"
    ROWS = "rows"  # they load nevertheless
    LOGS = "logs"  # the query's, of which a restart reads only the newest entries
    STORAGE = "storage"  # it failed during a run; another run continues where that one ended


@unique
class Blocks(Enum):
    """What a finding stops, before any state is read, or makes silently wrong."""

    NOTHING = "nothing"
    ITS_ENTRY = "its entry"  # a restart that reads this entry of a log
    RESTART = "restart"
    EVERY_BATCH = "every batch"  # a restart from whatever batch: no rollback helps


@dataclass(frozen=True, slots=True)
class About:
    """What is known of all findings of a code."""

    damage: bool = True  # the operator must act; the store (or checkpoint) is halted until then
    misleads: bool = False  # it is damage only where batches are known to load wrong rows
    subject: Subject = Subject.FILES
    blocks: Blocks = Blocks.NOTHING
    repairable: bool = False  # the log may be enough to repair it
    by_hand: bool = False  # the operator moves files, and neither a repair nor a copy is needed
    advised: bool = False  # although it is no damage, the operator should change something
    passes: bool = False  # it ends by itself: the next run does what this one did not
    next: str = ""  # the step to take; without one, the runbook has it
    tidy: str = ""  # the step that a notice suggests for its `{paths}`


_DAMAGE, _REPAIRABLE = About(), About(repairable=True)
_NOTICE, _ADVISED = About(damage=False), About(damage=False, advised=True)
_MISLEADING = About(damage=False, misleads=True)
_ROWS, _ENTRY = About(subject=Subject.ROWS), About(subject=Subject.LOGS, blocks=Blocks.ITS_ENTRY)
_STOPS = About(blocks=Blocks.EVERY_BATCH)
_COPY = "put the missing files back from a copy or a bucket's old versions"
_ENTRIES = "put these log entries back from a copy"
_ASIDE = "move the named files and directories out of the stores' directories"


@unique
class FindingCode(StrEnum):
    """A closed set: users script against these names. Each has its traits and the next step."""

    about: About

    def __new__(cls, value: str, about: About = _DAMAGE, step: str = "") -> Self:
        code = str.__new__(cls, value)
        code._value_, code.about = value, replace(about, next=step)
        return code

    BROKEN_CHAIN = "BROKEN_CHAIN", _DAMAGE, _COPY
    CORRUPT_FILE = "CORRUPT_FILE", _REPAIRABLE, "put the damaged files back from a copy"
    SNAPSHOT_MISMATCH = (
        "SNAPSHOT_MISMATCH",
        _REPAIRABLE,
        "find out which is right, the snapshot or the log below it",
    )
    # Spark loads the snapshot as the state, which is silently wrong.
    SNAPSHOT_ABOVE_TARGET = (
        "SNAPSHOT_ABOVE_TARGET",
        About(blocks=Blocks.RESTART, repairable=True),
        "move away the snapshots above the last commit",
    )
    STALE_SNAPSHOT = (
        "STALE_SNAPSHOT",
        _MISLEADING,
        "run `statemaint maintain`: it moves stale snapshots to the trash, the log has the state",
    )
    LOG_REPLACED = (
        "LOG_REPLACED",
        About(damage=False, misleads=True, advised=True),
        "put the replaced files of the log back from a copy",
    )
    UNREADABLE_COMMIT = "UNREADABLE_COMMIT", _ENTRY, _ENTRIES
    UNREADABLE_OFFSET = "UNREADABLE_OFFSET", _ENTRY, _ENTRIES
    UNREADABLE_METADATA = (
        "UNREADABLE_METADATA",
        About(blocks=Blocks.EVERY_BATCH, repairable=True),
        "put the metadata files back from a copy",
    )
    STORAGE_FAILED = (
        "STORAGE_FAILED",
        About(subject=Subject.STORAGE, passes=True),
        "find out why the storage fails, and run again",
    )
    TRASH_NOT_EMPTIED = (
        "TRASH_NOT_EMPTIED",
        About(damage=False, subject=Subject.STORAGE, advised=True, passes=True),
        "find out why the storage deletes nothing, and run again",
    )
    FAULT = "FAULT"
    UNREADABLE_BY_QUERY = (
        "UNREADABLE_BY_QUERY",
        _REPAIRABLE,
        (
            "give the snapshots that the query cannot read the owner, group and mode of the "
            "changes beside them"
        ),
    )
    SUPERSEDED = "SUPERSEDED", About(damage=False, passes=True)
    NO_COMMITTED_BATCH = "NO_COMMITTED_BATCH", _NOTICE
    UNKNOWN_FILE = "UNKNOWN_FILE", _NOTICE
    ORPHAN_FILE = "ORPHAN_FILE", _NOTICE
    STALE_CHECKSUM = (
        "STALE_CHECKSUM",
        _REPAIRABLE,
        "put the file that does not fit its checksum back from a copy",
    )
    FOREIGN_MAINTAINER = "FOREIGN_MAINTAINER", _ADVISED
    UNFINISHED_REPARTITION = "UNFINISHED_REPARTITION", About(blocks=Blocks.RESTART)
    UNFINISHED_ROLLBACK = (
        "UNFINISHED_ROLLBACK",
        _DAMAGE,
        "run the rollback again, or `statemaint undo` of it, before the query starts",
    )
    CLOCK_SKEW = "CLOCK_SKEW", _NOTICE
    LINEAGE_BROKEN = "LINEAGE_BROKEN", _REPAIRABLE, _COPY
    MISSING_SST = (
        "MISSING_SST",
        _REPAIRABLE,
        "put the missing tables back from a copy or a bucket's old versions",
    )
    UNSUPPORTED = "UNSUPPORTED"
    PURGED_BY_SPARK = "PURGED_BY_SPARK", _NOTICE
    WRONG_PARTITION = "WRONG_PARTITION", _ROWS, "restore the files of these partitions from a copy"
    JOIN_MISMATCH = "JOIN_MISMATCH", _ROWS, "restore all stores of the join from one time"
    # The batch runs again.
    MISSING_COMMIT = "MISSING_COMMIT", About(subject=Subject.LOGS), _ENTRIES
    MISSING_OFFSET = "MISSING_OFFSET", _ENTRY, _ENTRIES
    MISSING_SCHEMA = "MISSING_SCHEMA", _DAMAGE, "put the schema files back from a copy"
    MISSING_METADATA = (
        "MISSING_METADATA",
        _STOPS,
        "put `metadata` back from a copy; without a copy, see the runbook: the query gets a new id",
    )
    MISSING_SOURCE_LOG = "MISSING_SOURCE_LOG", _STOPS, "put the source's log back from a copy"
    NO_STATE = "NO_STATE", _MISLEADING, "put the folder `state` back from a copy"
    UNUSED_STORE = (
        "UNUSED_STORE",
        About(
            damage=False, tidy="move {paths} away as `statemaint scan` says: no restart reads it"
        ),
    )
    UNDECLARED_OPERATOR = (
        "UNDECLARED_OPERATOR",
        About(
            damage=False,
            tidy="if its operator was removed from the query, move {paths} away as "
            "`statemaint scan` says",
        ),
    )
    FOREIGN_OPERATOR = (
        "FOREIGN_OPERATOR",
        About(blocks=Blocks.EVERY_BATCH, by_hand=True),
        "move the folders of foreign operators out of `state`",
    )
    UNLOADABLE_NAME = "UNLOADABLE_NAME", About(blocks=Blocks.EVERY_BATCH, by_hand=True), _ASIDE
    BLOCKED_NAME = "BLOCKED_NAME", About(by_hand=True), _ASIDE
    SNAPSHOT_WITHHELD = "SNAPSHOT_WITHHELD", _ADVISED
    UNREADABLE_PIN = "UNREADABLE_PIN", _ADVISED, "delete the pins that nothing needs"
    BROKEN_PIN = "BROKEN_PIN", _ADVISED, "end the pins of batches that no longer load"
    REFUSED_LINK = (
        "REFUSED_LINK",
        _DAMAGE,
        "put what each link leads to in its place, or remove the link: maintenance follows none",
    )


OF_STORAGE = frozenset(code for code in FindingCode if code.about.subject is Subject.STORAGE)
"""The findings of a run in which the storage failed."""


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Finding(Displayed):
    """One finding, in one line."""

    code: FindingCode
    detail: str  # what, where and what to do, for the operator
    store: StoreId | None = None  # `None` when it concerns the whole checkpoint
    version: int | None = None
    path: str | None = None
    offset: int | None = None
    # Those of the commit log that it keeps from loading, ascending: they change as the query runs.
    batches: tuple[int, ...] = field(default=(), compare=False)
    lasting: bool = field(default=False, compare=False)  # another attempt fails in the same way

    def _facts(self) -> Iterator[str]:
        yield self.code
        yield shortened(self.detail)

    def _rows(self) -> Iterator[dict[str, object]]:
        return finding_rows((self,))

    @property
    def damage(self) -> bool:
        """Returns whether the operator must act; the store (or checkpoint) is halted until then.

        A stale snapshot, which maintenance removes, and a replaced log that the snapshot above
        agrees with are damage only once batches are known to load wrong rows.
        """
        about = self.code.about
        return about.damage or (about.misleads and bool(self.batches))


def finding_rows(findings: Iterable[Finding]) -> Iterator[dict[str, object]]:
    """Yields the row of each finding in a notebook's table."""
    for finding in findings:
        columns = finding.store.columns if finding.store else dict.fromkeys(StoreId(0, 0).columns)
        yield {"code": finding.code, **columns, "path": finding.path, "detail": finding.detail}


def damaged(findings: tuple[Finding, ...]) -> bool:
    return any(finding.damage for finding in findings)


NOTICES = frozenset(code.value for code in FindingCode if not Finding(code, "").damage)
"""The codes of findings that are no damage; one of another build may be damage."""
