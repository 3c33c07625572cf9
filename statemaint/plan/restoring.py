"""The plan of an undo: the files to restore from a run's trash, and why others stay. Pure."""

from dataclasses import dataclass

from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb
from statemaint.wording import command


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
