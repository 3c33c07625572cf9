"""The plans of a repair, a rollback, and an undo, which restores all that these remove. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import unique

from statemaint.listing import Entry
from statemaint.model.findings import Finding
from statemaint.model.ids import RecoveryVerb, StoreId
from statemaint.plan.actions import WriteSnapshot
from statemaint.wording import Displayed, Explained, command, counted, quoted


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
    """Move one file to the trash."""

    entry: Entry
    reason: RemoveReason
    store: StoreId | None = None  # `None` for an entry of a log
    version: int = 0  # 0 if it belongs to none

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
class Rewind:
    """What the logs record of the two batches between which a rollback goes back.

    For a repair, which undoes no batch, both are the newest one.
    """

    newest: int  # the newest committed batch
    # When that batch, and the one that stays, were committed; `None` where the storage has no times
    committed: tuple[float | None, float | None]
    # Of each source its id, and its offsets after the batch that stays and after the newest one.
    sources: tuple[tuple[str, str, str], ...] = ()  # none if they cannot be read
    repeated: bool = False  # whether the next batch keeps its offsets, and reads the same again


@dataclass(frozen=True, slots=True, repr=False)
class RecoveryPlan(Displayed):
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
    rewind: Rewind | None = None  # only shown; `None` if no batch is committed

    def _facts(self) -> Iterator[str]:
        yield quoted(self.root)
        yield self.verb if self.batch is None else f"{self.verb} to batch {self.batch}"
        removed = sum(isinstance(action, Remove) for action in self.actions)
        yield f"{counted(removed, 'file')} to move to the trash"
        yield f"{counted(len(self.unrepaired), 'damage')} left" if self.unrepaired else "all proved"

    def _rows(self) -> Iterator[dict[str, object]]:
        for action in self.actions:
            move = "move to the trash" if isinstance(action, Remove) else "write"
            yield {"action": move, "path": action.path, "reason": action.reason.words}

    @property
    def actions(self) -> tuple[Remove | WriteSnapshot, ...]:
        actions: list[Remove | WriteSnapshot] = list(self.removes)
        for step in self.repairs:
            actions += [*step.removes, *([step.rebuild] if step.rebuild else [])]
        return tuple(actions)


# -- the files that an undo restores from a run's trash, and why others stay


@dataclass(frozen=True, slots=True)
class PutBack:
    """The decision about one file of a run's trash."""

    path: str
    entry: Entry
    reason: str = ""  # why it stays there; empty if it is restored

    @property
    def comes_back(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The plan of an undo; the files of a rollback are restored all or none."""

    root: str
    run: str
    verb: RecoveryVerb | None  # repair or rollback; `None` for maintenance
    files: tuple[PutBack, ...]  # in the order in which they are restored: the newest first
    batch: int | None = None  # the newest committed batch that a rollback removed, if any

    @property
    def coming(self) -> tuple[PutBack, ...]:
        return tuple(file for file in self.files if file.comes_back)

    @property
    def left(self) -> dict[str, str]:
        return {file.path: file.reason for file in self.files if not file.comes_back}

    @property
    def bytes(self) -> int:
        return sum(file.entry.size for file in self.coming)

    @property
    def sequel(self) -> str:
        if not self.coming:
            return ""
        if self.verb is RecoveryVerb.ROLLBACK:
            where = "" if self.batch is None else f" after batch {self.batch}"
            return f"the query continues{where}, as before the rollback"
        if self.verb is RecoveryVerb.REPAIR:
            return f"the repair had moved them away as damage: see `{command('doctor', self.root)}`"
        return "the next maintain deletes them again unless its policy retains more"
