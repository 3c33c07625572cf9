"""What became of the files that a run moved to its trash, by the ledger and by their bytes.

A move that was cut short leaves a file under both names, and the next run may move the file again:
these are one file. How it came there does not matter: the process was killed, the storage refused a
request, or an answer was lost.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from statemaint.errors import NotFoundError
from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb, UnitId, run_folder
from statemaint.records.manifest import Contents, Seen, folder_of
from statemaint.records.segments import UNDO, Line, ledger_of, read_ledger
from statemaint.scan.proofs import crc32c_of, equal
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
class LedgerHistory:
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


def read_history(storage: Storage, run: str, units: Iterable[UnitId] = ()) -> LedgerHistory:
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
    return LedgerHistory(
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


# -- the same file


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Compares current files with those that a run saw."""

    storage: Storage
    found: Contents
    history: LedgerHistory

    def __call__(self, seen: Seen, entry: Entry) -> bool:
        """Returns whether a listed file is the one that was seen.

        Its bytes decide if they were noted: a copied checkpoint has other times, and a clock in
        whole seconds may give two files the same time.
        """
        if entry.size != seen.entry.size:
            return False
        if seen.crc32c is not None:
            return crc32c_of(self.storage, entry.path) == seen.crc32c
        if trashed := self.found.files.get(entry.path):
            return equal(self.storage, trashed.path, entry.path)
        unmoved = entry.modified is not None and entry.modified == seen.entry.modified
        return unmoved or self._as_restored(seen, entry)

    def _as_restored(self, seen: Seen, entry: Entry) -> bool:
        for note in self.history.restored.get(entry.path, ()):
            was_seen = (note.size, note.modified) == (seen.entry.size, seen.entry.modified)
            if was_seen and note.crc32c is not None:
                return crc32c_of(self.storage, entry.path) == note.crc32c
        return False

    def is_of_earlier(self, entry: Entry) -> bool:
        """Returns whether the undo of an earlier run has restored a file since.

        This run did not find it; the query did not write it.
        """
        notes = self.history.restored_since(entry.path)
        return self.history.removed_before(entry.path) and any(
            one.size == entry.size and self._is_restored(one, entry) for one in notes
        )

    def _is_restored(self, note: RestoreNote, entry: Entry) -> bool:
        if note.crc32c is not None:
            return crc32c_of(self.storage, entry.path) == note.crc32c
        return entry.modified is not None and entry.modified == note.modified

    def written_again(self, path: str) -> bool:
        """Returns whether a later run removed another file from the path of a file in the trash."""
        return any(not self._is_mine(path, one) for one in self.history.removed_again(path))

    def _is_mine(self, path: str, removal: Removal) -> bool:
        """Returns whether a later run removed the very file that is in the trash.

        Its bytes decide as long as they exist.
        """
        for place in self._places_of(path, removal):
            with suppress(NotFoundError):
                return equal(self.storage, self.found.files[path].path, place)
        return self.is_noted(path, removal)

    def _places_of(self, path: str, removal: Removal) -> Iterator[str]:
        """Yields the places where the file may be that a run was about to remove.

        The run may have failed before it came to that; the next one removes the file then.
        """
        alike = [one for one in self.history.removed.get(path, ()) if one.is_of_same_file(removal)]
        for one in (removal, *alike):
            yield f"{folder_of(one.run)}/{path}"
            if self.history.restored_again(path, one):
                yield path
        if self._is_there(path, removal):
            yield path

    def _is_there(self, path: str, removal: Removal) -> bool:
        try:
            entry = self.storage.stat(path)
        except NotFoundError:
            return False
        return removal.is_of_same_file(Removal(0, "", entry.size, entry.modified))

    def is_noted(self, path: str, removal: Removal) -> bool:
        """Returns whether a later run removed the file that this run had listed, unchanged."""
        note = self.found.notes.get(path)
        listed = (removal.size, removal.modified)
        return (
            note is not None
            and removal.modified is not None
            and listed == (note.seen.entry.size, note.seen.entry.modified)
        )
