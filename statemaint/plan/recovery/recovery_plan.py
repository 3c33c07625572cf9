"""The plan of a repair or a rollback: files for the trash, and snapshots to rebuild. Pure.

Neither deletes anything: `undo` restores every removed file, byte for byte.
"""

from dataclasses import dataclass
from enum import unique

from statemaint.listing import Entry
from statemaint.model.findings import Finding
from statemaint.model.ids import RecoveryVerb, StoreId
from statemaint.plan.actions import WriteSnapshot
from statemaint.wording import Explained


@unique
class RemoveReason(Explained):
    """The reason to move a file to the trash."""

    BAD_SNAPSHOT = (
        "bad_snapshot",
        "damaged or not equal to its log, which gives the state that it should hold",
    )
    STALE_CHECKSUM = "stale_checksum", "of a file other than the sound one beside it"
    ABOVE_TARGET = (
        "above_target",
        "a snapshot above the commit log, which Spark would load for a batch that runs again",
    )
    UNREADABLE_SCHEMA = (
        "unreadable_schema",
        "a schema file that cannot be read: a restarted query writes it again",
    )
    ROLLED_BACK = "rolled_back", "of a batch above the one after which the query continues"


@dataclass(frozen=True, slots=True)
class Remove:
    """Move one file to the trash: of a store, or of a log, then without a store.

    Its version is 0 if it belongs to none.
    """

    entry: Entry
    reason: RemoveReason
    store: StoreId | None = None
    version: int = 0

    @property
    def path(self) -> str:
        return self.entry.path


@dataclass(frozen=True, slots=True)
class Proof:
    """The state of a version without the removed files."""

    digest: str  # 32 hexadecimal digits, order-free over all rows
    rows: int
    files: int
    start: int  # the version that they start from, 0 for the empty state


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One step of a repair, which ends one finding."""

    finding: Finding
    removes: tuple[Remove, ...]  # a checksum before its file; none if a snapshot is missing
    version: int  # the version whose state must be the same without them; 0 for files of no version
    rebuild: WriteSnapshot | None = None  # in place of a bad or a missing snapshot
    proof: Proof | None = None

    @property
    def reason(self) -> RemoveReason:
        return self.removes[-1].reason

    @property
    def store(self) -> StoreId | None:
        return self.removes[-1].store if self.removes else self.finding.store

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(remove.path for remove in self.removes)


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """Everything that a repair or a rollback would do; a value (S14)."""

    verb: RecoveryVerb
    root: str
    query_id: str
    batch: int | None  # the committed batch that the query restarts after
    removes: tuple[Remove, ...] = ()
    repairs: tuple[RepairStep, ...] = ()
    findings: tuple[Finding, ...] = ()  # those that remain afterwards
    unrepaired: tuple[str, ...] = ()  # why each remaining damage is not repaired
    versions_checked: int = 0  # the number of versions rebuilt without the files, as the proof

    @property
    def actions(self) -> tuple[Remove | WriteSnapshot, ...]:
        actions: list[Remove | WriteSnapshot] = list(self.removes)
        for step in self.repairs:
            actions += [*step.removes, *([step.rebuild] if step.rebuild else [])]
        return tuple(actions)
