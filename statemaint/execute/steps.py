"""The three things that maintenance does to a store: write a snapshot, attest one, delete."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from statemaint.codec.digest import StateDigest
from statemaint.errors import AlreadyExistsError, NotFoundError, Superseded
from statemaint.execute.ledger import Ledger
from statemaint.fold import (
    State,
    encode_snapshot,
    fold,
    must_equal,
    snapshot_digest,
    state_digest,
)
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Attestation
from statemaint.plan import Attest, Delete, DeleteReason, StorePlan, WriteSnapshot
from statemaint.report import Attested, Deleted, SnapshotWritten
from statemaint.storage import Storage

# One check of the base and one append to the ledger cover this many deletions.
_PAGE = 200
_RELY_ON_BASE = (DeleteReason.BELOW_BASE, DeleteReason.SIDE_FILE)


@dataclass(slots=True)
class StoreRun:
    """One store while its plan is carried out, and what is proved of it so far."""

    plan: StorePlan
    storage: Storage
    ledger: Ledger
    proofs: dict[str, Attestation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        listed = {file.entry.path: file.entry for file in self.plan.store.files}
        for proof in self.plan.attestations:
            if proof.path in listed and proof.covers(listed[proof.path]):
                self.proofs[proof.path] = proof

    def write(self, action: WriteSnapshot, *, verify: bool) -> SnapshotWritten:
        """Folds a chain, writes its snapshot, and proves it by reading it back.

        Raises:
            CodecError: when a file of the chain is damaged.
            SnapshotMismatchError: when what storage holds is not what was folded.
            Superseded: when a file of the chain is gone.
            StorageError: when the storage fails.
        """
        state = self._fold(action.chain)
        entry, written = self._publish(action, state)
        if not verify:
            self.ledger.proved(action, entry, None, tuple(self.proofs.values()))
            return SnapshotWritten(action, entry, None, written)
        expected = state_digest(state)
        must_equal(action.path, snapshot_digest(self.storage, action.path), expected)
        proof = self._prove(action, entry, expected, action.chain)
        return SnapshotWritten(action, entry, proof, written)

    def attest(self, action: Attest) -> Attested:
        """Reads a snapshot back whole and compares it with the fold of what lies below it.

        Raises:
            CodecError: when the snapshot, or a file below it, is damaged.
            SnapshotMismatchError: when the two states differ.
            Superseded: when the snapshot was replaced or is gone.
            StorageError: when the storage fails.
        """
        self._unchanged(action.snapshot.entry)
        found = snapshot_digest(self.storage, action.path)
        if action.against:
            must_equal(action.path, found, state_digest(self._fold(action.against)))
        proof = self._prove(action, action.snapshot.entry, found, action.against)
        return Attested(action, proof)

    def delete(self, deletes: tuple[Delete, ...]) -> Iterator[Deleted]:
        """Deletes files page by page, each page only while the proved base is still in place.

        Raises:
            Superseded: when the base was replaced or is gone.
            StorageError: when the storage fails.
        """
        for start in range(0, len(deletes), _PAGE):
            page = deletes[start : start + _PAGE]
            if any(one.reason in _RELY_ON_BASE for one in page):
                self._base_must_stand()
            self.ledger.deleting(page)
            for one in page:
                self.storage.delete(one.path)
                yield Deleted(one)

    def _fold(self, chain: Chain) -> State:
        try:
            return fold(self.storage, chain)
        except NotFoundError as error:
            raise Superseded(
                error.path, "was there when the run was planned and is gone"
            ) from error

    def _publish(self, action: WriteSnapshot, state: State) -> tuple[Entry, int]:
        try:
            entry = self.storage.write(action.path, encode_snapshot(state))
        except AlreadyExistsError:  # Spark was first; the comparison tells whether it is equal
            return self.storage.stat(action.path), 0
        return entry, entry.size

    def _prove(
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
        )
        self.proofs[entry.path] = proof
        self.ledger.proved(action, entry, proof, tuple(self.proofs.values()))
        return proof

    def _base_must_stand(self) -> None:
        path = self.plan.base
        if path is None or path not in self.proofs:
            raise Superseded(path or self.plan.store.id.directory, "the base has no attestation")
        proof = self.proofs[path]
        self._unchanged(Entry(path, proof.size, proof.modified))

    def _unchanged(self, entry: Entry) -> None:
        try:
            found = self.storage.stat(entry.path)
        except NotFoundError as error:
            raise Superseded(entry.path, "the snapshot is gone") from error
        if found != entry:
            raise Superseded(entry.path, "the snapshot was replaced after the run was planned")
