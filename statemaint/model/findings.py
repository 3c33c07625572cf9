"""The findings of a checkpoint, by stable code; `docs/runbook.md` has a heading for each."""

from dataclasses import dataclass, field
from enum import Enum, StrEnum, unique
from typing import Self

from statemaint.model.ids import StoreId


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
    """What is known of all findings of a code.

    Attributes:
        damage: the operator must act; the store (or checkpoint) is halted until then.
        misleads: it is damage only where batches are known to load wrong rows.
        subject: what it is about.
        blocks: what it stops.
        repairable: the log may be enough to repair it.
        by_hand: the operator moves files, and neither a repair nor a copy is needed.
        advised: although it is no damage, the operator should change something.
        passes: it ends by itself: the next run does what this one did not.
        next: the step to take; without one, the runbook has it.
        tidy: the step that a notice suggests for its `{paths}`.
    """

    damage: bool = True
    misleads: bool = False
    subject: Subject = Subject.FILES
    blocks: Blocks = Blocks.NOTHING
    repairable: bool = False
    by_hand: bool = False
    advised: bool = False
    passes: bool = False
    next: str = ""
    tidy: str = ""


_DAMAGE, _NOTICE = About(), About(damage=False)
_COPY = "put the missing files back from a copy or a bucket's old versions"
_ENTRIES = "put these log entries back from a copy"
_ASIDE = "move the named files and directories out of the stores' directories"


@unique
class FindingCode(StrEnum):
    """A closed set: users script against these names."""

    about: About

    def __new__(cls, value: str, about: About = _DAMAGE) -> Self:
        """Returns a code; its value alone finds it."""
        code = str.__new__(cls, value)
        code._value_, code.about = value, about
        return code

    BROKEN_CHAIN = "BROKEN_CHAIN", About(next=_COPY)
    CORRUPT_FILE = (
        "CORRUPT_FILE",
        About(repairable=True, next="put the damaged files back from a copy"),
    )
    SNAPSHOT_MISMATCH = (
        "SNAPSHOT_MISMATCH",
        About(
            repairable=True,
            next="find out which is right, the snapshot or the log below it",
        ),
    )
    # Spark loads the snapshot as the state, which is silently wrong.
    SNAPSHOT_ABOVE_TARGET = (
        "SNAPSHOT_ABOVE_TARGET",
        About(
            blocks=Blocks.RESTART,
            repairable=True,
            next="move away the snapshots above the last commit",
        ),
    )
    STALE_SNAPSHOT = (
        "STALE_SNAPSHOT",
        About(
            damage=False,
            misleads=True,
            next="run `statemaint maintain`: it moves stale snapshots to the trash, the log has "
            "the state",
        ),
    )
    LOG_REPLACED = (
        "LOG_REPLACED",
        About(
            damage=False,
            misleads=True,
            advised=True,
            next="put the replaced files of the log back from a copy",
        ),
    )
    UNREADABLE_COMMIT = (
        "UNREADABLE_COMMIT",
        About(subject=Subject.LOGS, blocks=Blocks.ITS_ENTRY, next=_ENTRIES),
    )
    UNREADABLE_OFFSET = (
        "UNREADABLE_OFFSET",
        About(subject=Subject.LOGS, blocks=Blocks.ITS_ENTRY, next=_ENTRIES),
    )
    UNREADABLE_METADATA = (
        "UNREADABLE_METADATA",
        About(
            blocks=Blocks.EVERY_BATCH,
            repairable=True,
            next="put the metadata files back from a copy",
        ),
    )
    STORAGE_FAILED = (
        "STORAGE_FAILED",
        About(
            subject=Subject.STORAGE,
            passes=True,
            next="find out why the storage fails, and run again",
        ),
    )
    TRASH_NOT_EMPTIED = (
        "TRASH_NOT_EMPTIED",
        About(
            damage=False,
            subject=Subject.STORAGE,
            advised=True,
            passes=True,
            next="find out why the storage deletes nothing, and run again",
        ),
    )
    FAULT = "FAULT"
    UNREADABLE_BY_QUERY = (
        "UNREADABLE_BY_QUERY",
        About(
            repairable=True,
            next="give the snapshots that the query cannot read the owner, group and mode of the "
            "changes beside them",
        ),
    )
    SUPERSEDED = "SUPERSEDED", About(damage=False, passes=True)
    NO_COMMITTED_BATCH = "NO_COMMITTED_BATCH", _NOTICE
    UNKNOWN_FILE = "UNKNOWN_FILE", _NOTICE
    ORPHAN_FILE = "ORPHAN_FILE", _NOTICE
    STALE_CHECKSUM = (
        "STALE_CHECKSUM",
        About(
            repairable=True,
            next="put the file that does not fit its checksum back from a copy",
        ),
    )
    FOREIGN_MAINTAINER = "FOREIGN_MAINTAINER", About(damage=False, advised=True)
    UNFINISHED_REPARTITION = "UNFINISHED_REPARTITION", About(blocks=Blocks.RESTART)
    UNFINISHED_ROLLBACK = (
        "UNFINISHED_ROLLBACK",
        About(next="run the rollback again, or `statemaint undo` of it, before the query starts"),
    )
    CLOCK_SKEW = "CLOCK_SKEW", _NOTICE
    LINEAGE_BROKEN = "LINEAGE_BROKEN", About(repairable=True, next=_COPY)
    MISSING_SST = (
        "MISSING_SST",
        About(
            repairable=True,
            next="put the missing tables back from a copy or a bucket's old versions",
        ),
    )
    UNSUPPORTED = "UNSUPPORTED"
    PURGED_BY_SPARK = "PURGED_BY_SPARK", _NOTICE
    WRONG_PARTITION = (
        "WRONG_PARTITION",
        About(subject=Subject.ROWS, next="restore the files of these partitions from a copy"),
    )
    JOIN_MISMATCH = (
        "JOIN_MISMATCH",
        About(subject=Subject.ROWS, next="restore all stores of the join from one time"),
    )
    # The batch runs again.
    MISSING_COMMIT = "MISSING_COMMIT", About(subject=Subject.LOGS, next=_ENTRIES)
    MISSING_OFFSET = (
        "MISSING_OFFSET",
        About(subject=Subject.LOGS, blocks=Blocks.ITS_ENTRY, next=_ENTRIES),
    )
    MISSING_SCHEMA = "MISSING_SCHEMA", About(next="put the schema files back from a copy")
    MISSING_METADATA = (
        "MISSING_METADATA",
        About(
            blocks=Blocks.EVERY_BATCH,
            next="put `metadata` back from a copy; without a copy, see the runbook: the query "
            "gets a new id",
        ),
    )
    MISSING_SOURCE_LOG = (
        "MISSING_SOURCE_LOG",
        About(blocks=Blocks.EVERY_BATCH, next="put the source's log back from a copy"),
    )
    NO_STATE = (
        "NO_STATE",
        About(damage=False, misleads=True, next="put the folder `state` back from a copy"),
    )
    UNUSED_STORE = (
        "UNUSED_STORE",
        About(
            damage=False,
            tidy="move {paths} away as `statemaint scan` says: no restart reads it",
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
        About(
            blocks=Blocks.EVERY_BATCH,
            by_hand=True,
            next="move the folders of foreign operators out of `state`",
        ),
    )
    UNLOADABLE_NAME = (
        "UNLOADABLE_NAME",
        About(blocks=Blocks.EVERY_BATCH, by_hand=True, next=_ASIDE),
    )
    BLOCKED_NAME = "BLOCKED_NAME", About(by_hand=True, next=_ASIDE)
    SNAPSHOT_WITHHELD = "SNAPSHOT_WITHHELD", About(damage=False, advised=True)
    UNREADABLE_PIN = (
        "UNREADABLE_PIN",
        About(damage=False, advised=True, next="delete the pins that nothing needs"),
    )
    BROKEN_PIN = (
        "BROKEN_PIN",
        About(damage=False, advised=True, next="end the pins of batches that no longer load"),
    )
    REFUSED_LINK = (
        "REFUSED_LINK",
        About(
            next="put what each link leads to in its place, or remove the link: maintenance "
            "follows none"
        ),
    )


OF_STORAGE = frozenset(one for one in FindingCode if one.about.subject is Subject.STORAGE)
"""The findings of a run in which the storage failed."""


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
        lasting: whether the storage would refuse another attempt in the same way.
    """

    code: FindingCode
    detail: str
    store: StoreId | None = None
    version: int | None = None
    path: str | None = None
    offset: int | None = None
    batches: tuple[int, ...] = field(default=(), compare=False)  # they change while the query runs
    lasting: bool = field(default=False, compare=False)

    @property
    def damage(self) -> bool:
        """Returns whether the operator must act; the store (or checkpoint) is halted until then.

        Maintenance removes a stale snapshot, so it is only a notice in a plan. If batches are known
        to load wrong rows from one, the checkpoint is not healthy. The same holds for a log that
        was replaced, as long as the snapshot above agrees with it.
        """
        about = self.code.about
        return about.damage or (about.misleads and bool(self.batches))


def damaged(findings: tuple[Finding, ...]) -> bool:
    return any(finding.damage for finding in findings)
