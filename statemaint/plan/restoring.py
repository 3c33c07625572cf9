"""The plan of an undo: the files to restore from a run's trash, and why others stay. Pure."""

from dataclasses import dataclass

from statemaint.listing import Entry


@dataclass(frozen=True, slots=True)
class PutBack:
    """The decision about one file of a run's trash.

    Attributes:
        path: its old path.
        entry: the file in the trash.
        reason: why it stays there; empty if it is restored.
    """

    path: str
    entry: Entry
    reason: str = ""

    @property
    def comes_back(self) -> bool:
        """Returns whether it is restored."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The plan of an undo.

    Attributes:
        root: the address of the checkpoint.
        run: the run that moved the files to its trash.
        of_rollback: whether that run was a rollback, whose files are restored all or none.
        files: the decisions, in the order in which the files are restored: the newest first.
    """

    root: str
    run: str
    of_rollback: bool
    files: tuple[PutBack, ...]

    @property
    def coming(self) -> tuple[PutBack, ...]:
        """Returns the files to restore."""
        return tuple(one for one in self.files if one.comes_back)

    @property
    def left(self) -> dict[str, str]:
        """Returns why each other file stays in the trash, by its old path."""
        return {one.path: one.reason for one in self.files if not one.comes_back}

    @property
    def bytes(self) -> int:
        """Returns the bytes of the files to restore."""
        return sum(one.entry.size for one in self.coming)
