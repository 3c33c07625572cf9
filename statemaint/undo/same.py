"""Compares a file with the one that a run saw.

A move that was cut short leaves a file under both names, and the next run may move the file again:
these are one file. How it came there does not matter: the process was killed, the storage refused a
request, or an answer was lost.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from statemaint.errors import NotFoundError
from statemaint.listing import Entry
from statemaint.records.manifest import Contents, Seen, folder_of
from statemaint.scan import crc32c_of, equal
from statemaint.storage import Storage
from statemaint.undo.deeds import Deeds, Removal, RestoreNote


@dataclass(frozen=True, slots=True)
class Same:
    """Compares current files with those that a run saw."""

    storage: Storage
    found: Contents
    deeds: Deeds

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
        for note in self.deeds.restored.get(entry.path, ()):
            was_seen = (note.size, note.modified) == (seen.entry.size, seen.entry.modified)
            if was_seen and note.crc32c is not None:
                return crc32c_of(self.storage, entry.path) == note.crc32c
        return False

    def is_of_earlier(self, entry: Entry) -> bool:
        """Returns whether the undo of an earlier run has restored a file since.

        This run did not find it; the query did not write it.
        """
        notes = self.deeds.restored_since(entry.path)
        return self.deeds.removed_before(entry.path) and any(
            one.size == entry.size and self._is_restored(one, entry) for one in notes
        )

    def _is_restored(self, note: RestoreNote, entry: Entry) -> bool:
        if note.crc32c is not None:
            return crc32c_of(self.storage, entry.path) == note.crc32c
        return entry.modified is not None and entry.modified == note.modified

    def written_again(self, path: str) -> bool:
        """Returns whether a later run removed another file from the path of a file in the trash."""
        return any(not self._is_mine(path, one) for one in self.deeds.removed_again(path))

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
        alike = [one for one in self.deeds.removed.get(path, ()) if one.is_of_same_file(removal)]
        for one in (removal, *alike):
            yield f"{folder_of(one.run)}/{path}"
            if self.deeds.restored_again(path, one):
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
