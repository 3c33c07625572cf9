"""What became of the files that a run moved to its trash, by the ledger and by their bytes.

A move that was cut short leaves a file under both names, and the next run may move the file again:
these are one file. How it came there does not matter: the process was killed, the storage refused a
request, or an answer was lost.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from statemaint.errors import NotFoundError
from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb, UnitId, run_folder
from statemaint.model.proof import FileRecord
from statemaint.records.manifest import Contents, folder_of
from statemaint.records.segments import UNDO, Line, ledger_of, read_ledger
from statemaint.scan.proofs import crc32c_of, equal
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class FileNote:
    """The ledger's note of a file that a run was about to remove, or an undo to restore."""

    run: str  # that removed the file
    fence: int = 0  # that the run or the undo held; 0 without one
    size: int = -1  # in bytes; -1 if it was not noted
    modified: float | None = None  # before it was moved away; `None` if it was not noted
    crc32c: int | None = None  # of a restored file, if it was read: a move may keep the time
    time: float = 0.0  # when it was noted

    @classmethod
    def of(cls, line: Line, run: str) -> "FileNote":
        size, modified, crc32c = map(line.fields.get, ("bytes", "modified", "crc32c"))
        return cls(
            run,
            line.fence,
            size if isinstance(size, int) else -1,
            modified if isinstance(modified, int | float) else None,
            crc32c if isinstance(crc32c, int) else None,
            line.time or 0.0,
        )

    def lists(self, file: "FileRecord | Entry | FileNote") -> bool:
        same = (self.size, self.modified) == (file.size, file.modified)
        return same and self.modified is not None


@dataclass(frozen=True)
class LedgerHistory:
    """The ledger's notes of a run's files, by path."""

    run: str
    restored: Mapping[str, tuple[FileNote, ...]] = field(default_factory=dict)  # by undos
    removed: Mapping[str, tuple[FileNote, ...]] = field(default_factory=dict)  # by runs
    written: frozenset[str] = frozenset()  # the paths of the snapshots that runs wrote

    def restoring(self, path: str) -> FileNote | None:
        return next((note for note in self.restored.get(path, ()) if note.run == self.run), None)

    def restored_since(self, path: str) -> tuple[FileNote, ...]:
        # A file that was restored earlier is the one that this run found.
        mine = self._fence
        return tuple(note for note in self.restored.get(path, ()) if note.fence > mine)

    def removed_again(self, path: str) -> tuple[FileNote, ...]:
        """Returns the removals by later runs of a file that this run had noted as well."""
        removals = self.removed.get(path, ())
        mine = max((note.fence for note in removals if note.run == self.run), default=math.inf)
        return tuple(note for note in removals if note.run != self.run and note.fence > mine)

    def removed_before(self, path: str) -> bool:
        """Returns whether an earlier run removed a file, so that this run did not find it."""
        mine, removals = self._fence, self.removed.get(path, ())
        return any(note.run != self.run and note.fence < mine for note in removals)

    def removed_since(self) -> frozenset[str]:
        """Returns the paths of all files that later runs removed; none if this run removed none."""
        mine, removed = self._fence, self.removed.items()
        later = (path for path, notes in removed if any(note.fence > mine for note in notes))
        return frozenset(later if mine > -math.inf else ())

    @cached_property
    def _fence(self) -> float:
        """Returns the last fence under which this run removed anything; else minus infinity."""
        removals = (note for notes in self.removed.values() for note in notes)
        return max((note.fence for note in removals if note.run == self.run), default=-math.inf)


def read_history(storage: Storage, run: str, units: Iterable[UnitId] = ()) -> LedgerHistory:
    restored: dict[str, tuple[FileNote, ...]] = defaultdict(tuple)
    for line in read_ledger(storage, UNDO):
        restored[line.path] += (FileNote.of(line, line.restored_of),)
    removed: dict[str, tuple[FileNote, ...]] = defaultdict(tuple)
    written = set()
    for ledger in (*RecoveryVerb, *map(ledger_of, sorted(units))):
        for line in read_ledger(storage, ledger):
            if line.removes:
                removed[line.path] += (FileNote.of(line, line.run),)
            elif line.fields.get("action") == "write_snapshot":
                written.add(line.path)
    return LedgerHistory(run_folder(run), restored, removed, frozenset(written))


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Compares current files with those that a run saw."""

    storage: Storage
    trash: Contents
    history: LedgerHistory

    def __call__(self, seen: FileRecord, entry: Entry) -> bool:
        """Returns whether a listed file is the one that was seen.

        Its bytes decide if they were noted: a copied checkpoint has other times, and a clock in
        whole seconds may give two files the same time.
        """
        if entry.size != seen.size:
            return False
        if seen.sum is not None:
            return crc32c_of(self.storage, entry.path) == seen.sum
        if trashed := self.trash.files.get(entry.path):
            return equal(self.storage, trashed.path, entry.path)
        if entry.modified is not None and entry.modified == seen.modified:
            return True
        for note in self.history.restored.get(entry.path, ()):
            was_seen = (note.size, note.modified) == (seen.size, seen.modified)
            if was_seen and note.crc32c is not None:
                return crc32c_of(self.storage, entry.path) == note.crc32c
        return False

    def is_of_earlier(self, entry: Entry) -> bool:
        """Returns whether the undo of an earlier run, not the query, has restored a file since."""
        return self.history.removed_before(entry.path) and any(
            crc32c_of(self.storage, entry.path) == note.crc32c
            if note.crc32c is not None
            else entry.modified is not None and entry.modified == note.modified
            for note in self.history.restored_since(entry.path)
            if note.size == entry.size
        )

    def written_again(self, path: str) -> bool:
        """Returns whether a later run removed another file from the path of a file in the trash."""
        return any(not self._is_mine(path, note) for note in self.history.removed_again(path))

    def _is_mine(self, path: str, removal: FileNote) -> bool:
        # Whether a later run removed the file in the trash: its bytes decide as long as they exist.
        for place in self._places_of(path, removal):
            with suppress(NotFoundError):
                return equal(self.storage, self.trash.files[path].path, place)
        return self.is_noted(path, removal)

    def _places_of(self, path: str, removal: FileNote) -> Iterator[str]:
        """Yields the places where the file may be that a run was about to remove, if it did so."""
        alike = [note for note in self.history.removed.get(path, ()) if note.lists(removal)]
        undos = self.history.restored.get(path, ())
        for note in (removal, *alike):
            yield f"{folder_of(note.run)}/{path}"
            if any(undo.run == note.run and undo.fence > note.fence for undo in undos):
                yield path
        with suppress(NotFoundError):
            if removal.lists(self.storage.stat(path)):
                yield path

    def is_noted(self, path: str, removal: FileNote) -> bool:
        """Returns whether a later run removed the file that this run had listed, unchanged."""
        note = self.trash.notes.get(path)
        return note is not None and removal.lists(note.seen)
