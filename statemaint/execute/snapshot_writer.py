"""Writes snapshots, and proves each by reading it back or by comparing it with the log."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from statemaint.codec.integrity.digest import StateDigest
from statemaint.errors import MissingSstError, SnapshotMismatchError
from statemaint.execute.bases import StoreFolds, must_be_readable, must_be_unchanged
from statemaint.execute.publish import (
    Published,
    as_shown,
    built,
    dated,
    publish,
    publish_zip,
    read_back,
)
from statemaint.execute.run_context import RunContext
from statemaint.execute.store_record import StoreRecord
from statemaint.fold import Source, must_equal
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.proof import Attestation, FileRecord
from statemaint.plan import Attest, SnapshotReason, WriteSnapshot
from statemaint.report import Attested, SnapshotWritten
from statemaint.scan import fingerprint


@dataclass(frozen=True, slots=True)
class SnapshotWriter:
    """Writes and proves the snapshots of one store."""

    context: RunContext
    folds: StoreFolds
    record: StoreRecord

    def write(
        self, actions: tuple[WriteSnapshot, ...], *, verify: bool
    ) -> Iterator[SnapshotWritten]:
        """Folds a chain once, writes the snapshots, and proves each by reading it back.

        The caller has the record `settle` what was written, also after a failure.

        Of two actions, the second's chain is the beginning of the first's.
        """
        self.record.announce(actions)
        for action, published in zip(actions, self._published(actions), strict=True):
            written = self._written(action, published, verify=verify)
            self.record.held.append(self.context.ledger.wrote(written))
            yield written

    def _published(self, actions: tuple[WriteSnapshot, ...]) -> Iterator[Published]:
        if self._store.rocks:
            return self._zips(actions)
        chunks = self.folds.fold(actions[0].chain, tuple(action.version for action in actions))
        return publish(self.context.storage, actions, chunks, before=self.context.fence.check)

    def _zips(self, actions: tuple[WriteSnapshot, ...]) -> Iterator[Published]:
        storage, check = self.context.storage, self.context.fence.check
        with built(self._source, actions) as made:
            for action, database in zip(actions, made, strict=True):
                self._base_must_hold(action)
                last = partial(self._must_come_next, action)
                yield publish_zip(storage, action, database, before=check, last=last)

    def _base_must_hold(self, action: WriteSnapshot) -> None:
        if not (base := action.chain.base):
            return
        must_be_unchanged(self.context.storage, base.entry)
        if action.reuse:  # a clean-up spares only the SST files of the newest zip
            self.record.must_have_no_newcomer()
            self.must_be_readable(base.entry.path)

    def _must_come_next(self, action: WriteSnapshot) -> None:
        """Makes sure that no other zip appeared since planning: Spark's clean-up would drop it.

        The clean-up takes every zip for its executors', and deletes the tables of an older one, on
        which an executor may build. A recovery has no executors beside it. A zip of the same
        version is compared instead.
        """
        if action.reason is not SnapshotReason.REBUILT:
            self.record.must_have_no_newcomer(but=action.path)

    def must_be_readable(self, path: str | None) -> None:
        """Makes sure once that the query can read a proved snapshot (S22)."""
        known, storage = self.record.known, self.context.storage
        if path in known.proofs and must_be_readable(storage, self._store, known, path):
            self.record.changed = True
            self.record.settle()

    def _written(
        self, action: WriteSnapshot, published: Published, *, verify: bool
    ) -> SnapshotWritten:
        record, proof = self.record, None
        if not published.written:
            record.known.written.discard(action.path)
        if verify:
            # Spark's checksum file, if Spark wrote the snapshot first, is compared like ours.
            source = self._source.beside(action.path) if action.checksum else self._source
            digest = self._read_back(action, source, published.digest)
        entry = self._dated(published.entry)
        record.tables[entry.path] = record.listed(published.refers, published.parts)
        if verify:
            ours = published.written > 0
            proof = self._proof(action, entry, digest, action.chain, ours=ours)
        record.placed.append(entry)
        beside, parts = published.checksum, published.parts
        return SnapshotWritten(
            action, entry, proof, published.written, beside, parts, published.refers
        )

    def _dated(self, entry: Entry) -> Entry:
        """Returns the entry of a new snapshot with its time, which reading it back has shown."""
        shown = self._source.entries.get(entry.path)
        if shown is None or entry.modified is not None:
            return dated(self.context.storage, entry)
        return as_shown(entry, shown)

    def _read_back(
        self, action: WriteSnapshot, source: Source, expected: StateDigest
    ) -> StateDigest:
        """Reads a snapshot that is in place, and returns its digest.

        A table may be missing since executors uploaded a zip meanwhile and cleaned up for it.
        """
        engine, fence = self.context.engine, self.context.fence
        try:
            return read_back(engine, source, action.path, expected, fence)
        except MissingSstError:
            self._must_come_next(action)
            raise

    def attest(self, action: Attest) -> Attested:
        """Reads a snapshot back whole and compares it with the fold of the files below it."""
        entry, record, rocks = action.snapshot.entry, self.record, self._store.rocks
        must_be_unchanged(self.context.storage, entry)
        digest = self.context.engine.digest(self._source, entry.path)
        if action.against:
            self._compare(action, digest, self.folds.state(action.against, action.snapshot))
        proved = record.known.proofs.get(entry.path)
        ours = entry.path in rocks.ours if rocks else proved is not None and proved.ours
        record.tables[entry.path] = record.tables_of(entry.path)
        before = proved or record.known.former.get(entry.path)
        proof = self._proof(action, entry, digest, action.against, ours=ours)
        if before and (action.doubts or before.doubted):
            proof = proof.doubting(before, self._doubted(action.doubts))
            record.known.proofs[entry.path] = proof
        record.held.append(self.context.ledger.attested(action, entry, proof))
        return Attested(action, proof)

    def _compare(self, action: Attest, digest: StateDigest, expected: StateDigest) -> None:
        try:
            must_equal(action.path, digest, expected)
        except SnapshotMismatchError as error:
            raise error.because(action.why) from error

    def _proof(
        self,
        action: WriteSnapshot | Attest,
        entry: Entry,
        digest: StateDigest,
        chain: Chain | None,
        *,
        ours: bool,
    ) -> Attestation:
        proof = Attestation(
            path=entry.path,
            version=action.version,
            size=entry.size,
            modified=entry.modified,
            digest=digest.digest,
            rows=digest.rows,
            bytes=digest.bytes,
            files=len(chain.paths) if chain else 0,
            start=chain.start if chain else 0,
            target=self.context.target,
            tag=entry.tag,
            sum=(self._source.sums or {}).get(entry.path),
            at=self._store.listed,
            ours=ours,
            readable=ours and isinstance(action, WriteSnapshot),
            inputs=self._records(self.record.inputs_of(chain)) if chain else (),
            parts=self._records(self.record.tables.get(entry.path, ())),
        )
        self.record.known.proofs[entry.path] = proof
        self.record.changed = True
        return proof

    def _doubted(self, entries: tuple[Entry, ...]) -> tuple[FileRecord, ...]:
        sums = self._source.sums if self._source.sums is not None else {}
        for entry in entries:  # the fold need not have read them
            if entry.path not in sums and (read := fingerprint(self.context.storage, entry.path)):
                sums[entry.path] = read[1]
        return self._records(entries)

    def _records(self, entries: Iterable[Entry]) -> tuple[FileRecord, ...]:
        sums = self._source.sums or {}
        return tuple([FileRecord.of(entry, sums) for entry in entries])

    @property
    def _store(self) -> Store:
        return self.record.store

    @property
    def _source(self) -> Source:
        return self.folds.source
