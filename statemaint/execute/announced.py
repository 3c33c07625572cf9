"""The snapshots that a run is about to write, announced for all of its stores at once (S18).

    _statemaint/attestations/announced/<run>.json      see `records.attestations`

A store that writes a snapshot announces it before, so that it does not look like an executor's
after a crash. Its own record says so once the snapshot is proved. Until then one file of the run
says it for all stores: every scan of the checkpoint reads it together with their records, and the
next run that takes the lease adds it to these. Only a run with a lease of its own announces so:
the tasks of a run list their own partitions only.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from statemaint.errors import CodecError, LeaseLostError, NotFoundError, StorageError
from statemaint.execute.fence import Fence, and_then
from statemaint.model.ids import StoreId, run_folder
from statemaint.records.attestations import (
    ANNOUNCED,
    StoreNotes,
    attestation_path,
    parse_announcement,
    parse_attestations,
    render_announcement,
    render_attestations,
)
from statemaint.storage import Storage

# Announcing takes a request and another to forget it, however many stores there are.
_WORTH = 2

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Announcement:
    """The snapshots that a run has announced; threads may share it.

    Attributes:
        path: of its file; empty if there is none, and each store announces its own.
        snapshots: the paths of the snapshots.
        waiting: the stores whose own records lack their snapshots.
    """

    path: str = ""
    snapshots: frozenset[str] = frozenset()
    waiting: set[StoreId] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def covers(self, store: StoreId, snapshots: Iterable[str]) -> bool:
        """Returns whether a store's snapshots are announced; it relies on that from now on."""
        covered = self.snapshots.issuperset(snapshots)
        if covered:
            with self._lock:
                self.waiting.add(store)
        return covered

    def recorded(self, store: StoreId) -> None:
        with self._lock:
            self.waiting.discard(store)

    def forget(self, storage: Storage) -> None:
        """Deletes the file at the end of the work, unless a store relies on it; never an error."""
        if self.path and not self.waiting:
            with suppress(StorageError):  # the next run does it
                storage.delete(self.path)


def announce(
    storage: Storage,
    run: str,
    fence: Fence,
    stores: dict[StoreId, StoreNotes],
    snapshots: Iterable[str],
) -> Announcement:
    """Announces the snapshots of stores, whose records will say the same, if it is worth it."""
    path = f"{ANNOUNCED}/{run_folder(run)}.json"
    if len(stores) < _WORTH:
        return Announcement()
    try:
        storage.replace(path, and_then([render_announcement(stores)], fence.check))
    except StorageError as error:
        _log.warning("each store announces its own snapshots: %s", error)
        return Announcement()
    return Announcement(path, frozenset(snapshots))


def adopt_announcements(storage: Storage, fence: Fence) -> None:
    """Adds what a killed run has announced to the records of its stores; never raises.

    Until that has succeeded, the scans of whole checkpoints read the announcement.
    """
    try:
        for entry in storage.list(ANNOUNCED):
            announced = parse_announcement(storage.read(entry.path))
            if announced is None:
                continue  # of another build, or not ours: it says nothing, and stays
            for store, notes in announced.items():
                _adopt(storage, fence, store, notes)
            fence.check()
            storage.delete(entry.path)
    except (CodecError, LeaseLostError, StorageError) as error:
        _log.warning("an announcement stays, the next run tries again: %s", error)


def _adopt(storage: Storage, fence: Fence, store: StoreId, announced: StoreNotes) -> None:
    if not any(True for _ in storage.list(store.directory)):
        return  # its folder was moved away, and its record too: the operator has left the query
    path = attestation_path(store)
    try:
        notes = parse_attestations(storage.read(path))
    except NotFoundError:
        notes = StoreNotes()
    both = notes.announcing(announced)
    if both != notes:
        storage.replace(path, and_then([render_attestations(both)], fence.check))
