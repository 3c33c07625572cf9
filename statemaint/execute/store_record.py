"""A run as its stores see it; its knowledge of one store, and the part that the ledger has."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from statemaint.errors import Superseded
from statemaint.execute.announced import Announcement
from statemaint.execute.commits import SharedLook
from statemaint.execute.fence import Fence, PinWatch
from statemaint.execute.ledger import Ledger
from statemaint.execute.trash import Trash
from statemaint.fold import Engine
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot, snapshot_version
from statemaint.model.proof import Attestation
from statemaint.model.rocks import Uploads
from statemaint.plan.actions import Delete, WriteSnapshot
from statemaint.plan.uploads import observed
from statemaint.records.attestations import StoreNotes
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run, as each of its stores sees it.

    Attributes:
        trash: receives deleted files; `None` if they are deleted immediately.
        aside: receives stale snapshots under every policy; `None` if there are none.
        commit: the newest entry of the commit log when the run was planned.
        ahead: the number of files of a store that are fetched at a time.
    """

    storage: Storage
    engine: Engine
    ledger: Ledger
    fence: Fence
    pins: PinWatch
    trash: Trash | None = None
    aside: Trash | None = None
    target: int | None = None
    commit: Entry | None = None
    look: SharedLook = field(default_factory=SharedLook)
    announcement: Announcement = field(default_factory=Announcement)
    ahead: int = 1


@dataclass(slots=True)
class StoreRecord:
    """One store's snapshots while its plan is carried out.

    Attributes:
        former: the attestations of replaced files, which still record the former log.
        written: the paths of our snapshots.
        since: the target version when a run wrote the first, or first noted executors' own.
        uploads: the observed snapshots of executors; those that the ledger's file has are `noted`.
        placed: the snapshots that this run has put in place.
        tables: the SST files that a zip refers to, by the zip's path.
        held: the lines that the ledger lacks.
        changed: whether the ledger's file of this store lacks any of this.
    """

    context: RunContext
    store: Store
    proofs: dict[str, Attestation]
    former: dict[str, Attestation]
    written: set[str]
    since: int | None
    uploads: Uploads
    noted: Uploads
    placed: list[Entry] = field(default_factory=list)
    tables: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    held: list[bytes] = field(default_factory=list)
    changed: bool = False

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
        """Adds snapshots about to be written to what is known; returns their paths."""
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
        """Returns the SST files that a zip refers to; none for a snapshot without any."""
        rocks = self.store.rocks
        return self.tables.get(path) or self.listed(rocks.parts.get(path, ()) if rocks else ())

    def listed(self, paths: Iterable[str], new: tuple[Entry, ...] = ()) -> tuple[Entry, ...]:
        """Returns the entries of some paths, each of which was listed or is new."""
        if not (wanted := tuple(paths)):
            return ()
        there = {entry.path: entry for entry in (*(file.entry for file in self.store.files), *new)}
        return tuple(there[path] for path in wanted)
