"""The three things that maintenance does to a store: write snapshots, attest one, delete."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from statemaint.codec.digest import StateDigest
from statemaint.errors import NotFoundError, Superseded
from statemaint.execute.lease import Fence
from statemaint.execute.ledger import Known, Ledger
from statemaint.execute.publish import Published, publish
from statemaint.execute.publish_zip import built, publish_zip
from statemaint.execute.trash import Trash
from statemaint.fold import Chunks, Engine, Source, digest_of, must_equal
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Attestation
from statemaint.model.files import Snapshot, snapshot_version
from statemaint.plan import RELY_ON_BASE, Attest, Delete, StorePlan, WriteSnapshot
from statemaint.report import Attested, Deleted, SnapshotWritten
from statemaint.storage import Storage

# One check of the base and one append to the ledger cover this many deletions.
_PAGE = 200


@dataclass(slots=True)
class StoreRun:
    """One store while its plan is carried out, and what is proved of it so far.

    Attributes:
        plan: what is to be done.
        source: how to read its files.
        engine: what folds them.
        ledger: where everything is noted.
        fence: says whether this run still holds the checkpoint's lease.
        trash: where deleted files go; `None` where they are deleted at once.
        target: the run's target version.
        known: what the ledger knows of its snapshots.
        placed: the snapshots that this run has put in place.
        refers: the shared files that they refer to.
    """

    plan: StorePlan
    source: Source
    engine: Engine
    ledger: Ledger
    fence: Fence = field(default_factory=Fence)
    trash: Trash | None = None
    target: int | None = None
    known: Known = field(default_factory=Known)
    placed: list[Entry] = field(default_factory=list)
    refers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.known.written.update(self.plan.store.written)
        self.known.since = self.plan.store.since
        listed = {file.entry.path: file.entry for file in self.plan.store.files}
        for proof in self.plan.attestations:
            if proof.path in listed and proof.covers(listed[proof.path]):
                self.known.proofs[proof.path] = proof

    @property
    def storage(self) -> Storage:
        """Returns where the store lives."""
        return self.source.storage

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
        return publish(self.storage, actions, chunks)

    def _zip(self, action: WriteSnapshot) -> Published:
        with built(self.source, action) as made:
            if base := action.chain.base:
                self._unchanged(base.entry)
            return publish_zip(self.storage, action, made, self.plan.store.id.directory)

    def _announce(self, actions: tuple[WriteSnapshot, ...]) -> None:
        """Notes what is about to be written: a crash must not make it look like an executor's."""
        if not self.known.written:
            # Whoever wrote what is there before we first write may have ended by now.
            there = (file for file in self.plan.store.files if isinstance(file, Snapshot))
            self.known.written.update(one.entry.path for one in there)
            self.known.since = self.target
        self.known.written.update(action.path for action in actions)
        self.fence.must_hold()
        self.ledger.knows(self.plan.store.id, self.known)

    def _written(
        self, action: WriteSnapshot, published: Published, *, verify: bool
    ) -> SnapshotWritten:
        entry, proof = published.entry, None
        if not published.written:
            self.known.written.discard(action.path)
        if verify:
            # Spark's, if it was first with the snapshot, is compared as well as one of ours.
            source = self.source.beside(action.path) if action.checksum else self.source
            found = self.engine.digest(source, action.path)
            must_equal(action.path, found, published.digest)
            proof = self._proof(action, entry, found, action.chain)
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
        self._unchanged(action.snapshot.entry)
        found = self.engine.digest(self.source, action.path)
        if action.against:
            must_equal(action.path, found, self._state(action.against, action.snapshot))
        proof = self._proof(action, action.snapshot.entry, found, action.against)
        self.fence.must_hold()
        self.ledger.proved(action, action.snapshot.entry, proof, self.known)
        return Attested(action, proof)

    def delete(self, deletes: tuple[Delete, ...]) -> Iterator[Deleted]:
        """Deletes files page by page, each page only while the proved base is still in place.

        Raises:
            LeaseLostError: when another run has taken the lease; nothing more is deleted.
            Superseded: when the base was replaced or is gone.
            StorageError: when the storage fails.
        """
        for start in range(0, len(deletes), _PAGE):
            page = deletes[start : start + _PAGE]
            self._base_must_stand(page)
            self.ledger.deleting(page, trash=self.trash is not None)
            if self.trash:
                store = None if start else self.plan.store
                gone = max(one.version for one in deletes)
                self.trash.note(page, store, target=self.target, gone=gone)
            self.fence.must_hold()
            self._remove(page)
            yield from (Deleted(one) for one in page)

    def _remove(self, page: tuple[Delete, ...]) -> None:
        def before() -> None:
            asked = True
            while asked:  # asking takes its time, in which the base may be replaced
                self._base_must_stand(page)
                self._no_other_snapshot(page)
                asked = self.fence.check()

        if self.trash:
            self.trash.take(page, before=before)
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
        directory = self.plan.store.id.directory
        known = {file.entry for file in self.plan.store.files} | {*self.placed}
        for entry in self.storage.list(directory):
            if snapshot_version(entry.path) is not None and entry not in known:
                raise Superseded(entry.path, "the snapshot came after the run was planned")

    def _state(self, chain: Chain, like: Snapshot) -> StateDigest:
        # The chain may begin below the first zip, which says how RocksDB merges.
        source = replace(self.source, families=like) if self.plan.store.rocks else self.source
        chunks = self._fold(source, chain, (chain.version,), write=False)
        return digest_of(chunks, chain.version)

    def _fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool
    ) -> Chunks:
        try:
            digests = yield from self.engine.fold(source, chain, versions, write=write)
        except NotFoundError as error:
            raise Superseded(
                error.path, "was there when the run was planned and is gone"
            ) from error
        if chain.base:  # what is proved of it is proved of the file that was listed
            self._unchanged(chain.base.entry)
        return digests

    def _proof(
        self, action: WriteSnapshot | Attest, entry: Entry, found: StateDigest, chain: Chain | None
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
        )
        self.known.proofs[entry.path] = proof
        return proof

    def _base_must_stand(self, page: tuple[Delete, ...]) -> None:
        if not any(one.reason in RELY_ON_BASE for one in page):
            return
        path = self.plan.base
        if path is None or path not in self.known.proofs:
            raise Superseded(path or self.plan.store.id.directory, "the base has no attestation")
        proof = self.known.proofs[path]
        self._unchanged(Entry(path, proof.size, proof.modified))

    def _unchanged(self, entry: Entry) -> None:
        try:
            found = self.storage.stat(entry.path)
        except NotFoundError as error:
            raise Superseded(entry.path, "the snapshot is gone") from error
        if found != entry:
            raise Superseded(entry.path, "the snapshot was replaced after the run was planned")
