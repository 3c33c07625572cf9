"""Compares a file with the one that a run saw."""

from dataclasses import dataclass

from statemaint.execute.deeds import Deeds
from statemaint.execute.manifest import Contents, Seen
from statemaint.execute.world import fingerprint
from statemaint.listing import Entry
from statemaint.storage import Storage

_PIECE = 1024 * 1024


def equal(storage: Storage, one: str, other: str) -> bool:
    """Returns whether two files hold the same bytes; equal sizes prove nothing.

    Raises:
        StorageError: when either cannot be read.
    """
    if storage.stat(one).size != storage.stat(other).size:
        return False
    with storage.open(one) as first, storage.open(other) as second:
        while piece := first.read(_PIECE):
            if piece != second.read(_PIECE):
                return False
    return True


@dataclass(frozen=True, slots=True)
class Same:
    """Compares current files with those that a run saw.

    Attributes:
        storage: the storage of the checkpoint.
        found: the trash of the run.
        deeds: the ledger's record since.
    """

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
            return fingerprint(self.storage, entry.path) == seen.crc32c
        if trashed := self.found.files.get(entry.path):
            return equal(self.storage, trashed.path, entry.path)
        unmoved = entry.modified is not None and entry.modified == seen.entry.modified
        return unmoved or self._as_restored(seen, entry)

    def _as_restored(self, seen: Seen, entry: Entry) -> bool:
        """Returns whether an undo restored the file, with another time from its move."""
        for note in self.deeds.restored.get(entry.path, ()):
            was_seen = (note.size, note.modified) == (seen.entry.size, seen.entry.modified)
            if was_seen and note.crc32c is not None:
                return fingerprint(self.storage, entry.path) == note.crc32c
        return False
