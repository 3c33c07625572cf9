"""A run's knowledge of one store, and the part of it that is in the ledger."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from statemaint.errors import Superseded
from statemaint.execute.ledger import Known
from statemaint.execute.run_context import RunContext
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot, snapshot_version
from statemaint.model.uploads import Uploads
from statemaint.plan import Delete, WriteSnapshot, observed
from statemaint.records.attestations import StoreNotes


@dataclass(slots=True)
class StoreRecord:
    """One store's snapshots while its plan is carried out.

    Attributes:
        known: its proofs, and which snapshots are ours; the ledger's file holds a copy.
        noted: the executors' snapshots that the ledger's file has.
        placed: the snapshots that this run has put in place.
        tables: the SST files that a zip refers to, by the zip's path.
        held: the lines that the ledger lacks.
        changed: whether the ledger's file of this store lacks a part of `known`.
    """

    context: RunContext
    store: Store
    known: Known
    noted: Uploads
    placed: list[Entry] = field(default_factory=list)
    tables: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    held: list[bytes] = field(default_factory=list)
    changed: bool = False

    @classmethod
    def of(cls, context: RunContext, store: Store) -> "StoreRecord":
        listed = {file.entry.path for file in store.files}
        # Outdated proofs are kept: the log is in doubt until their snapshots are compared with it.
        proofs = (*(one.proof for one in store.outdated), *store.attestations)
        known = Known(
            proofs={one.path: one for one in proofs if one.path in listed},
            former={one.path: one.proof for one in store.former},
            written={*store.written},
            since=store.since,
            uploads=observed(store),
        )
        return cls(context, store, known, store.uploads)

    @property
    def is_noted(self) -> bool:
        """Returns whether the ledger has all observed snapshots of executors."""
        return self.noted == self.known.uploads

    def note(self) -> None:
        if self.known.since is None:  # from now on the uploads of executors are known
            self.known.since = self.context.target
        self.context.ledger.knows(self.store.id, self.known)
        self.context.announcement.recorded(self.store.id)
        self.noted, self.changed = self.known.uploads, False

    def settle(self, deletes: Sequence[Delete] = (), *, trash: bool = False) -> None:
        """Notes what the ledger lacks, and files that are about to be deleted, on one page.

        The proofs follow last: deletions rely on them, and all that they rely on is in the ledger.
        """
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
        if not self.known.written:
            # The writers of the snapshots from before our first write may have ended by now.
            there = (file for file in self.store.files if isinstance(file, Snapshot))
            self.known.written.update(one.entry.path for one in there)
            self.known.since = self.context.target
        self.known.written.update(paths)
        return paths

    @property
    def notes(self) -> StoreNotes:
        """Returns who wrote which snapshots, as an announcement has it."""
        return StoreNotes(written=tuple(self.known.written), since=self.known.since)

    def must_have_no_newcomer(self, *, but: str = "") -> None:
        """Makes sure that no snapshot has appeared except those of this run.

        `but` is the path of one that may have.
        """
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
        there = {one.path: one for one in (*(file.entry for file in self.store.files), *new)}
        return tuple(there[path] for path in wanted)
