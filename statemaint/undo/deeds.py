"""The ledger's record of files since a run moved them to its trash."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from statemaint.model.ids import RecoveryVerb, UnitId, run_folder
from statemaint.records.segments import UNDO, Line, ledger_of, read_ledger
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class RestoreNote:
    """A file that an undo was about to restore.

    Attributes:
        size: in bytes; -1 if it was not noted.
        modified: the file's time before it was moved away.
        crc32c: of its bytes; `None` if they were not read, because the move keeps the time.
        time: when it was noted.
        fence: the fence that the undo held; 0 without one.
    """

    run: str
    size: int
    modified: float | None
    crc32c: int | None
    time: float
    fence: int = 0


@dataclass(frozen=True, slots=True)
class Removal:
    """A file that a run was about to delete, or to move to its trash.

    Attributes:
        size: in bytes; -1 if it was not noted.
        modified: the file's time as the run listed it; `None` if it was not noted.
    """

    fence: int
    run: str
    size: int = -1
    modified: float | None = None

    def is_of_same_file(self, other: "Removal") -> bool:
        """Returns whether two removals listed one file, by its size and time."""
        listed = (self.size, self.modified)
        return self.modified is not None and listed == (other.size, other.modified)


@dataclass(frozen=True, slots=True)
class Deeds:
    """The ledger's record of a run's files.

    Attributes:
        restored: the notes of undos that restored a file, by path.
        removed: the removals of a file, by path.
        written: the paths of the snapshots that runs wrote.
    """

    run: str
    restored: Mapping[str, tuple[RestoreNote, ...]] = field(default_factory=dict)
    removed: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)
    written: frozenset[str] = frozenset()

    def restoring(self, path: str) -> RestoreNote | None:
        """Returns the first note that an undo of this run was about to restore a file."""
        notes = [one for one in self.restored.get(path, ()) if one.run == self.run]
        return notes[0] if notes else None

    def restored_since(self, path: str) -> tuple[RestoreNote, ...]:
        """Returns the notes of a file that are younger than this run's last removal of any file.

        A file that an undo restored earlier is the one that this run found; its note does not
        describe the current file.
        """
        mine = self._fence
        notes = self.restored.get(path, ())
        return tuple(one for one in notes if mine is None or one.fence > mine)

    def removed_again(self, path: str) -> tuple[Removal, ...]:
        """Returns the removals by later runs of a file that this run had noted as well."""
        removals = self.removed.get(path, ())
        mine = max((one.fence for one in removals if one.run == self.run), default=None)
        if mine is None:
            return ()
        return tuple(one for one in removals if one.run != self.run and one.fence > mine)

    def restored_again(self, path: str, removal: Removal) -> bool:
        """Returns whether an undo of a run has restored a file that the run had removed."""
        notes = self.restored.get(path, ())
        return any(one.run == removal.run and one.fence > removal.fence for one in notes)

    def removed_before(self, path: str) -> bool:
        """Returns whether an earlier run removed a file, so that this run did not find it."""
        fences = [one.fence for one in self.removed.get(path, ()) if one.run != self.run]
        return self._fence is not None and any(fence < self._fence for fence in fences)

    def removed_since(self) -> frozenset[str]:
        """Returns the paths of all files that later runs removed."""
        mine = self._fence
        if mine is None:
            return frozenset()
        return frozenset(
            path
            for path, removals in self.removed.items()
            if any(one.fence > mine for one in removals)
        )

    @property
    def _fence(self) -> int | None:
        """Returns the last fence that this run held while it removed anything."""
        removals = (one for found in self.removed.values() for one in found)
        return max((one.fence for one in removals if one.run == self.run), default=None)


def read_deeds(storage: Storage, run: str, units: Iterable[UnitId] = ()) -> Deeds:
    restored: dict[str, list[RestoreNote]] = defaultdict(list)
    for line in read_ledger(storage, UNDO):
        restored[line.path].append(_restored(line))
    removed: dict[str, list[Removal]] = defaultdict(list)
    written = set()
    for ledger in (*RecoveryVerb, *map(ledger_of, sorted(units))):
        for line in read_ledger(storage, ledger):
            if line.removes:
                removed[line.path].append(Removal(line.fence, line.run, *_listed(line)))
            elif line.fields.get("action") == "write_snapshot":
                written.add(line.path)
    return Deeds(
        run_folder(run),
        {path: tuple(found) for path, found in restored.items()},
        {path: tuple(found) for path, found in removed.items()},
        frozenset(written),
    )


def _restored(line: Line) -> RestoreNote:
    crc32c = line.fields.get("crc32c")
    return RestoreNote(
        line.restored_of,
        *_listed(line),
        crc32c if isinstance(crc32c, int) else None,
        line.time or 0.0,
        line.fence,
    )


def _listed(line: Line) -> tuple[int, float | None]:
    """Returns the size and the time of a line's file; -1 and `None` if they were not noted."""
    size, modified = line.fields.get("bytes"), line.fields.get("modified")
    return (
        size if isinstance(size, int) else -1,
        modified if isinstance(modified, int | float) else None,
    )
