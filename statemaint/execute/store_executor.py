"""The three things that maintenance does to a store: write snapshots, attest one, delete."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from statemaint.codec.integrity.digest import StateDigest
from statemaint.errors import SnapshotMismatchError, Superseded
from statemaint.execute.bases import as_planned, must_be_readable, must_be_unchanged
from statemaint.execute.commits import must_stand
from statemaint.execute.lease import Fence
from statemaint.execute.ledger import Known, Ledger
from statemaint.execute.publish import Published, publish, read_back
from statemaint.execute.publish_zip import built, publish_zip
from statemaint.execute.trash import Trash
from statemaint.fold import Engine, Folding, Source, must_equal
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import Snapshot, snapshot_version
from statemaint.model.proof import Attestation, FileRecord
from statemaint.model.uploads import NOTHING_SEEN, Uploads
from statemaint.plan import (
    RELY_ON_BASE,
    Attest,
    Delete,
    DeleteReason,
    StorePlan,
    WriteSnapshot,
    observed,
)
from statemaint.report import Attested, Deleted, SnapshotWritten
from statemaint.scan import fingerprint
from statemaint.storage import Storage

# One check of the base and one append to the ledger cover this many deletions.
_PAGE = 200
_LOOKS = 5  # at base and lease by turns, before a deletion: a slow listing makes any look old
# What goes to the trash whatever the policy says: it was taken for the truth once.
_ASIDE = (DeleteReason.STALE_SNAPSHOT, DeleteReason.STALE_SIDE)


@dataclass(slots=True)
class StoreExecutor:
    """One store while its plan is carried out, and what is proved of it so far.

    Attributes:
        plan: what is to be done.
        source: how to read its files.
        engine: what folds them.
        ledger: where everything is noted.
        fence: says whether this run still holds the checkpoint's lease.
        trash: where deleted files go; `None` where they are deleted at once.
        aside: where stale snapshots go in any case; `None` where there can be none.
        target: the run's target version.
        commit: the newest entry of the commit log when the run was planned.
        known: what the ledger knows of its snapshots.
        placed: the snapshots that this run has put in place.
        refers: the shared files that they refer to.
        folded: the files of each chain that this run has folded.
        parts: the shared files that each zip of this run refers to, by the zip's path.
        noted: what the ledger's file says of executors' snapshots.
    """

    plan: StorePlan
    source: Source
    engine: Engine
    ledger: Ledger
    fence: Fence = field(default_factory=Fence)
    trash: Trash | None = None
    target: int | None = None
    commit: Entry | None = None
    aside: Trash | None = None
    known: Known = field(default_factory=Known)
    placed: list[Entry] = field(default_factory=list)
    refers: set[str] = field(default_factory=set)
    folded: list[frozenset[str]] = field(default_factory=list)
    parts: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    noted: Uploads = NOTHING_SEEN

    def __post_init__(self) -> None:
        store = self.plan.store
        self.source = replace(self.source, sums={})
        self.known.written, self.known.since = {*store.written}, store.since
        self.known.uploads, self.noted = observed(store), store.uploads
        listed = {file.entry.path for file in store.files}
        # What no longer counts is kept: until it was compared the log is in doubt.
        for proof in (*(one.proof for one in store.outdated), *store.attestations):
            if proof.path in listed:
                self.known.proofs[proof.path] = proof
        self.known.former.update({one.path: one.proof for one in store.former})

    @property
    def storage(self) -> Storage:
        """Returns where the store lives."""
        return self.source.storage

    def note_habits(self) -> None:
        """Notes executors' snapshots that the ledger does not know of, before any can be deleted.

        Raises:
            LeaseLostError: when the lease is lost.
            StorageError: when the storage fails.
        """
        kinds = {type(one) for one in self.plan.actions}
        if WriteSnapshot in kinds:  # which are announced together with them
            return
        if (self.plan.unnoted or Delete in kinds) and self.noted != self.known.uploads:
            self._note_known()

    def write(
        self, actions: tuple[WriteSnapshot, ...], *, verify: bool
    ) -> Iterator[SnapshotWritten]:
        """Folds a chain once, writes the snapshots, and proves each by reading it back.

        Args:
            actions: one, or two of which the second's chain is the beginning of the first's.
            verify: read them back.

        Raises:
            CodecError: when a file of the chain is damaged.
            StaleChecksumError: when a checksum file is not of the file beside it.
            SnapshotMismatchError: when what storage holds is not what was folded.
            Superseded: when a file of the chain is gone, or its base was replaced.
            LeaseLostError: when the lease is lost; what has not appeared by then never does.
            StorageError: when the storage fails.
        """
        self._announce(actions)
        for action, published in zip(actions, self._published(actions), strict=True):
            yield self._written(action, published, verify=verify)

    def _published(self, actions: tuple[WriteSnapshot, ...]) -> Iterator[Published]:
        if self.plan.store.rocks:
            return (self._zip(action) for action in actions)
        versions = tuple(action.version for action in actions)
        chunks = self._fold(self.source, actions[0].chain, versions, write=True)
        return publish(self.storage, actions, chunks, before=self.fence.check)

    def _zip(self, action: WriteSnapshot) -> Published:
        with built(self.source, action) as made:
            if base := action.chain.base:
                must_be_unchanged(self.storage, base.entry)
            if action.reuse:  # a clean-up spares the tables of the newest zip alone
                self._no_newcomer()
                self._must_be_readable(base.entry.path if base else None)
            return publish_zip(self.storage, action, made, before=self.fence.check)

    def _announce(self, actions: tuple[WriteSnapshot, ...]) -> None:
        """Notes what is about to be written: a crash must not make it look like an executor's."""
        if not self.known.written:
            # Whoever wrote what is there before we first write may have ended by now.
            there = (file for file in self.plan.store.files if isinstance(file, Snapshot))
            self.known.written.update(one.entry.path for one in there)
            self.known.since = self.target
        self.known.written.update(action.path for action in actions)
        self._note_known()

    def _written(
        self, action: WriteSnapshot, published: Published, *, verify: bool
    ) -> SnapshotWritten:
        entry, proof = published.entry, None
        self.parts[entry.path] = self._listed(published.refers, published.parts)
        if not published.written:
            self.known.written.discard(action.path)
        if verify:
            # Spark's, if it was first with the snapshot, is compared as well as one of ours.
            source = self.source.beside(action.path) if action.checksum else self.source
            found = read_back(self.engine, source, action.path, published.digest, self.fence)
            ours = published.written > 0
            proof = self._proof(action, entry, found, action.chain, ours=ours)
        self.fence.must_hold()
        beside, parts = published.checksum, published.parts
        self.ledger.proved(action, entry, proof, self.known, checksum=beside, parts=parts)
        self.placed.append(entry)
        self.refers.update(published.refers)
        return SnapshotWritten(
            action, entry, proof, published.written, beside, parts, published.refers
        )

    def attest(self, action: Attest) -> Attested:
        """Reads a snapshot back whole and compares it with the fold of what lies below it.

        Raises:
            CodecError: when the snapshot, or a file below it, is damaged.
            StaleChecksumError: when a checksum file is not of the file beside it.
            SnapshotMismatchError: when the two states differ.
            Superseded: when the snapshot was replaced or is gone.
            StorageError: when the storage fails.
        """
        must_be_unchanged(self.storage, action.snapshot.entry)
        found = self.engine.digest(self.source, action.path)
        if action.against:
            self._compare(action, found, self._state(action.against, action.snapshot))
        rocks, path, entry = self.plan.store.rocks, action.path, action.snapshot.entry
        proved = self.known.proofs.get(path)
        ours = path in rocks.ours if rocks else proved is not None and proved.ours
        self.parts[path] = self._listed(rocks.parts.get(path, ()) if rocks else ())
        before = proved or self.known.former.get(path)
        proof = self._proof(action, entry, found, action.against, ours=ours)
        if before and (action.doubts or before.doubted):
            proof = proof.doubting(before, self._doubted(action.doubts))
            self.known.proofs[path] = proof
        self.fence.must_hold()
        self.ledger.proved(action, entry, proof, self.known)
        return Attested(action, proof)

    def _compare(self, action: Attest, found: StateDigest, expected: StateDigest) -> None:
        try:
            must_equal(action.path, found, expected)
        except SnapshotMismatchError as error:
            raise error.because(action.why) from error

    def delete(self, deletes: tuple[Delete, ...]) -> Iterator[Deleted]:
        """Deletes files page by page, each page only while the proved base is still in place.

        Raises:
            LeaseLostError: when the lease is not held any more; nothing more is deleted.
            Superseded: when the base was replaced or is gone, or the query was rewound.
            UnreadableError: when the base is ours, and the query might not read it.
            StorageError: when the storage fails.
        """
        stale = tuple(one for one in deletes if one.reason in _ASIDE)
        for one in stale:
            if one.instead:
                must_be_unchanged(self.storage, one.entry)
                self._must_fold(one.instead)
        yield from self._pages(stale, self.trash or self.aside)
        if any(one.reason in RELY_ON_BASE for one in deletes):
            self._must_be_readable(self.plan.base)
        yield from self._pages(tuple(one for one in deletes if one not in stale), self.trash)

    def _must_be_readable(self, path: str | None) -> None:
        if path in self.known.proofs and must_be_readable(
            self.storage, self.plan.store, self.known, path
        ):
            self._note_known()

    def _must_fold(self, chain: Chain) -> None:
        """Makes sure that the log gives a version before a stale snapshot of it goes.

        Raises:
            CodecError: when a file of the chain is damaged.
            Superseded: when one is gone, or was replaced.
        """
        if any(set(chain.paths) <= done for done in self.folded):
            return  # on the way to a snapshot that this run has written
        self._state(chain, self.plan.store.versions.base(chain.version))

    def _pages(self, deletes: tuple[Delete, ...], trash: Trash | None) -> Iterator[Deleted]:
        for start in range(0, len(deletes), _PAGE):
            page = deletes[start : start + _PAGE]
            self._base_must_stand(page)
            self._tables_must_stand(page)
            self.ledger.deleting(page, trash=trash is not None)
            if trash:
                store = None if start else self.plan.store
                gone = max(one.version for one in deletes)
                trash.note(page, store, target=self.target, gone=gone)
            self.fence.must_hold()
            must_stand(self.storage, self.commit, self.plan.store)  # as late as once a page can
            self._remove(page, trash)
            yield from (Deleted(one) for one in page)

    def _note_known(self) -> None:
        if self.known.since is None:  # from here on we know what executors do
            self.known.since = self.target
        self.fence.must_hold()
        self.ledger.knows(self.plan.store.id, self.known)
        self.noted = self.known.uploads

    def _remove(self, page: tuple[Delete, ...], trash: Trash | None) -> None:
        def before() -> None:
            for _ in range(_LOOKS):  # asking takes its time, in which the base may be replaced
                self._base_must_stand(page)
                self._no_other_snapshot(page)
                if not self.fence.check():
                    return

        if trash:
            trash.take(page, before=before)
            return
        # One call may delete in any order: no checksum may outlive its file, and no shared file
        # may go before the snapshot that needs it.
        for rank in sorted({one.rank for one in page}):
            self.storage.delete_all([one.path for one in page if one.rank == rank], before=before)

    def _no_other_snapshot(self, page: tuple[Delete, ...]) -> None:
        """Looks once more whether any snapshot that was not planned with needs a shared file.

        Raises:
            Superseded: when there is one.
        """
        if all(one.version for one in page):
            return
        if used := sorted(self.refers & {one.path for one in page}):
            raise Superseded(used[0], "a snapshot of this run refers to it")
        self._no_newcomer()

    def _no_newcomer(self) -> None:
        directory = self.plan.store.id.directory
        known = {file.entry for file in self.plan.store.files} | {*self.placed}
        for entry in self.storage.list(directory):
            if snapshot_version(entry.path) is not None and entry not in known:
                raise Superseded(entry.path, "the snapshot came after the run was planned")

    def _state(self, chain: Chain, like: Snapshot | None) -> StateDigest:
        # The chain may begin below the first zip, which says how RocksDB merges.
        source = replace(self.source, families=like) if self.plan.store.rocks else self.source
        folding = self._fold(source, chain, (chain.version,), write=False)
        return folding.digests[chain.version]

    def _fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool
    ) -> Folding:
        folding = self.engine.fold(source, chain, versions, write=write)
        return Folding(as_planned(folding, self.storage, chain, self.folded.append))

    def _proof(
        self,
        action: WriteSnapshot | Attest,
        entry: Entry,
        found: StateDigest,
        chain: Chain | None,
        *,
        ours: bool,
    ) -> Attestation:
        proof = Attestation(
            path=entry.path,
            version=action.version,
            size=entry.size,
            modified=entry.modified,
            digest=found.digest,
            rows=found.rows,
            bytes=found.bytes,
            files=len(chain.paths) if chain else 0,
            start=chain.start if chain else 0,
            target=self.target,
            tag=entry.tag,
            sum=(self.source.sums or {}).get(entry.path),
            at=self.plan.store.listed,
            ours=ours,
            readable=ours and isinstance(action, WriteSnapshot),
            inputs=self._records(self._inputs(chain)) if chain else (),
            parts=self._records(self.parts.get(entry.path, ())),
        )
        self.known.proofs[entry.path] = proof
        return proof

    def _inputs(self, chain: Chain) -> Iterator[Entry]:
        if base := chain.base:
            yield base.entry
            rocks = self.plan.store.rocks
            yield from self._listed(rocks.parts.get(base.entry.path, ()) if rocks else ())
        for delta in chain.deltas:
            yield delta.entry

    def _doubted(self, entries: tuple[Entry, ...]) -> tuple[FileRecord, ...]:
        sums = self.source.sums if self.source.sums is not None else {}
        for entry in entries:  # which the fold need not have read
            if entry.path not in sums and (found := fingerprint(self.storage, entry.path)):
                sums[entry.path] = found[1]
        return self._records(entries)

    def _records(self, entries: Iterable[Entry]) -> tuple[FileRecord, ...]:
        sums = self.source.sums or {}
        return tuple([FileRecord.of(entry, sums) for entry in entries])

    def _base_must_stand(self, page: tuple[Delete, ...]) -> None:
        if not any(one.reason in RELY_ON_BASE for one in page):
            return
        path = self.plan.base
        if path is None or path not in self.known.proofs:
            raise Superseded(path or self.plan.store.id.directory, "the base has no attestation")
        proof = self.known.proofs[path]
        must_be_unchanged(self.storage, proof.entry)

    def _tables_must_stand(self, page: tuple[Delete, ...]) -> None:
        """Looks once a page whether every shared file that the base's zip names is still there.

        Raises:
            Superseded: when one is gone, or is another file than the one that was listed.
        """
        path, rocks = self.plan.base, self.plan.store.rocks
        if not path or not rocks or not any(one.reason in RELY_ON_BASE for one in page):
            return
        named = self.parts.get(path) or self._listed(rocks.parts.get(path, ()))
        folders = {one.path.rpartition("/")[0] for one in named}
        there = {entry for folder in sorted(folders) for entry in self.storage.list(folder)}
        if lacking := sorted(one.path for one in named if one not in there):
            raise Superseded(lacking[0], f"{path} needs it; it was replaced or is gone")

    def _listed(self, paths: Iterable[str], new: tuple[Entry, ...] = ()) -> tuple[Entry, ...]:
        if not (wanted := tuple(paths)):
            return ()
        there = {one.path: one for one in (*(file.entry for file in self.plan.store.files), *new)}
        return tuple(there[path] for path in wanted)
