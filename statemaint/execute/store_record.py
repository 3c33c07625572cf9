"""A run as its stores see it; its knowledge of one store, and the part that the ledger has.

    _statemaint/attestations/announced/<run>.json      see `records.attestations`

A store that writes a snapshot announces it before, so that it does not look like an executor's
after a crash. Its own record says so once the snapshot is proved. Until then one file of the run
says it for all stores: every scan of the checkpoint reads it together with their records, and the
next run that takes the lease adds it to these. Only a run with a lease of its own announces so:
the tasks of a run list their own partitions only.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock

from statemaint.errors import CodecError, LeaseLostError, NotFoundError, StorageError, Superseded
from statemaint.execute.fence import Fence, PinWatch, SharedLook, and_then
from statemaint.execute.ledger import Ledger
from statemaint.execute.trash import Trash
from statemaint.fold import Engine
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot, snapshot_version
from statemaint.model.ids import StoreId, run_folder
from statemaint.model.proof import Attestation
from statemaint.model.rocks import Uploads
from statemaint.plan.actions import Delete, StorePlan, WriteSnapshot
from statemaint.plan.uploads import observed
from statemaint.records import attestations
from statemaint.records.attestations import StoreNotes
from statemaint.storage import Storage

# Announcing takes a request and another to forget it, however many stores there are.
_WORTH = 2

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Announcement:
    """The snapshots that a run has announced; threads may share it."""

    path: str = ""  # of its file; without one each store announces its own
    snapshots: frozenset[str] = frozenset()
    waiting: set[StoreId] = field(default_factory=set)  # their own records lack their snapshots
    _lock: Lock = field(default_factory=Lock)

    def covers(self, store: StoreId, snapshots: Iterable[str]) -> bool:
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


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run, as each of its stores sees it."""

    storage: Storage
    engine: Engine
    ledger: Ledger
    fence: Fence
    pins: PinWatch
    trash: Trash | None = None  # receives deleted files; else they are deleted immediately
    aside: Trash | None = None  # receives stale snapshots under every policy
    target: int | None = None
    commit: Entry | None = None  # the newest entry of the commit log when the run was planned
    look: SharedLook = field(default_factory=SharedLook)
    announcement: Announcement = field(default_factory=Announcement)
    ahead: int = 1  # the number of files of a store that are fetched at a time


@dataclass(slots=True)
class StoreRecord:
    """One store's snapshots while its plan is carried out."""

    context: RunContext
    store: Store
    proofs: dict[str, Attestation]
    former: dict[str, Attestation]  # of replaced files, which still record the former log
    written: set[str]  # the paths of our snapshots
    since: int | None  # the target when a run wrote the first, or first noted executors' own
    uploads: Uploads  # the observed snapshots of executors
    noted: Uploads  # those that the ledger's file has
    placed: list[Entry] = field(default_factory=list)  # the snapshots that this run put in place
    # The SST files that a zip refers to, by the zip's path.
    tables: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    held: list[bytes] = field(default_factory=list)  # the lines that the ledger lacks
    changed: bool = False  # the ledger's file of this store lacks any of this

    @classmethod
    def of(cls, context: RunContext, store: Store) -> "StoreRecord":
        listed = {file.entry.path for file in store.files}
        # Outdated proofs are kept: the log is in doubt until their snapshots are compared with it.
        proofs = (*(outdated.proof for outdated in store.outdated), *store.attestations)
        return cls(
            context,
            store,
            proofs={proof.path: proof for proof in proofs if proof.path in listed},
            former={former.path: former.proof for former in store.former},
            written={*store.written},
            since=store.since,
            uploads=observed(store),
            noted=store.uploads,
        )

    @property
    def notes(self) -> StoreNotes:
        proofs = {**self.former, **self.proofs}.values()
        return StoreNotes(tuple(proofs), tuple(self.written), self.since, self.uploads)

    def note(self) -> None:
        if self.since is None:  # from now on the uploads of executors are known
            self.since = self.context.target
        self.context.ledger.knows(self.store.id, self.notes)
        self.context.announcement.recorded(self.store.id)
        self.noted, self.changed = self.uploads, False

    def settle(self, deletes: Sequence[Delete] = (), *, trash: bool = False) -> None:
        """Notes what the ledger lacks and what is about to be deleted, then the proofs."""
        if self.held:
            self.context.fence.check()
        if deletes:
            self.context.ledger.deleting(deletes, trash=trash, after=self.held)
        elif self.held:
            self.context.ledger.note(self.store.id, self.held)
        self.held.clear()  # only now: no proof is noted while its line is not
        if self.changed:
            self.note()

    def announce(self, actions: Iterable[WriteSnapshot]) -> None:
        """Notes snapshots about to be written: a crash must not make them look like executors'."""
        paths = self.expect(actions)
        self.changed = True
        if self.held or not self.context.announcement.covers(self.store.id, paths):
            self.settle()

    def expect(self, actions: Iterable[WriteSnapshot]) -> list[str]:
        paths = [action.path for action in actions]
        if not self.written:
            # The writers of the snapshots from before our first write may have ended by now.
            there = (file for file in self.store.files if isinstance(file, Snapshot))
            self.written.update(snapshot.entry.path for snapshot in there)
            self.since = self.context.target
        self.written.update(paths)
        return paths

    def must_have_no_newcomer(self, *, but: str = "") -> None:
        """Makes sure that no snapshot has appeared except those of this run and one at a path."""
        expected = {file.entry for file in self.store.files} | {*self.placed}
        for entry in self.context.storage.list(self.store.id.directory):
            snapshot = snapshot_version(entry.path) is not None and entry.path != but
            if snapshot and entry not in expected:
                raise Superseded(entry.path, "the snapshot appeared after the run was planned")

    def inputs_of(self, chain: Chain) -> Iterator[Entry]:
        if base := chain.base:
            yield base.entry
            yield from self.tables_of(base.entry.path)
        for delta in chain.deltas:
            yield delta.entry

    def tables_of(self, path: str) -> tuple[Entry, ...]:
        rocks = self.store.rocks
        return self.tables.get(path) or self.listed(rocks.parts.get(path, ()) if rocks else ())

    def listed(self, paths: Iterable[str], new: tuple[Entry, ...] = ()) -> tuple[Entry, ...]:
        if not (wanted := tuple(paths)):
            return ()
        there = {entry.path: entry for entry in (*(file.entry for file in self.store.files), *new)}
        return tuple(there[path] for path in wanted)


def announce(context: RunContext, plans: Iterable[StorePlan]) -> RunContext:
    """Returns the run with the snapshots that it has announced, if that is worth it and works."""
    stores: dict[StoreId, StoreNotes] = {}
    paths: list[str] = []
    for plan in plans:
        if writes := [action for action in plan.actions if isinstance(action, WriteSnapshot)]:
            record = StoreRecord.of(context, plan.store)
            paths += record.expect(writes)
            stores[plan.store.id] = record.notes
    if len(stores) < _WORTH:
        return context
    path = f"{attestations.ANNOUNCED}/{run_folder(context.ledger.run)}.json"
    content = attestations.render_announcement(stores)
    try:
        context.storage.replace(path, and_then([content], context.fence.check))
    except StorageError as error:
        _log.warning("each store announces its own snapshots: %s", error)
        return context
    return replace(context, announcement=Announcement(path, frozenset(paths)))


def adopt_announcements(storage: Storage, fence: Fence) -> None:
    """Adds what a killed run has announced to the records of its stores; never raises.

    Until that has succeeded, the scans of whole checkpoints read the announcement.
    """
    try:
        for entry in storage.list(attestations.ANNOUNCED):
            announced = attestations.parse_announcement(storage.read(entry.path))
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
    path, notes = attestations.attestation_path(store), StoreNotes()
    with suppress(NotFoundError):
        notes = attestations.parse_attestations(storage.read(path))
    both = notes.announcing(announced)
    if both != notes:
        content = attestations.render_attestations(both)
        storage.replace(path, and_then([content], fence.check))
