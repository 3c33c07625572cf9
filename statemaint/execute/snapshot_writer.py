"""Writes snapshots, and proves each by reading it back or by comparing it with the log.

Deletions rely on proved snapshots that stand and are readable, and on chains that fold.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from statemaint.codec.integrity.digest import StateDigest
from statemaint.errors import MissingSstError, NotFoundError, SnapshotMismatchError, Superseded
from statemaint.execute.fence import superseded_if_missing
from statemaint.execute.publish import Published, built, dated, publish, publish_zip, read_back
from statemaint.execute.store_record import RunContext, StoreRecord
from statemaint.fold import Engine, Folding, Pieces, Source, must_equal
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.model.proof import Attestation, FileRecord
from statemaint.plan.actions import Attest, WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.report.outcome import Attested, SnapshotWritten
from statemaint.scan.proofs import fingerprint
from statemaint.storage import Storage

Snapshots = tuple[WriteSnapshot, ...]


def must_be_unchanged(storage: Storage, entry: Entry) -> None:
    try:
        current = storage.stat(entry.path)
    except NotFoundError as error:
        raise Superseded(entry.path, "the snapshot is missing") from error
    if current != entry:
        raise Superseded(entry.path, "the snapshot was replaced after the run was planned")


@dataclass(frozen=True, slots=True)
class StoreFolds:
    """Folds the chains of one store."""

    store: Store
    source: Source  # how to read its files; it collects the fingerprints of those that are read
    engine: Engine
    done: list[frozenset[str]] = field(default_factory=list)  # of each whole fold, its paths

    def fold(self, chain: Chain, versions: tuple[int, ...]) -> Folding:
        return self._fold(self.source, chain, versions, write=True)

    def state(self, chain: Chain, like: Snapshot | None) -> StateDigest:
        """Returns the digest of a chain's last version; RocksDB merges as in the zip `like`."""
        folding = self._fold(self.source.like(like), chain, (chain.version,), write=False)
        return folding.digests[chain.version]

    def must_give(self, chain: Chain) -> None:
        """Makes sure that a chain folds; a part of a longer folded chain is not folded again."""
        if not any(set(chain.paths) <= folded for folded in self.done):
            self.state(chain, self.store.versions.base(chain.version))

    def _fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool
    ) -> Folding:
        folding = self.engine.fold(source, chain, versions, write=write)

        def as_planned() -> Pieces:
            with superseded_if_missing():
                yield from folding
            if chain.base:  # its proof is of the listed file
                must_be_unchanged(source.storage, chain.base.entry)
            self.done.append(frozenset(chain.paths))
            return folding.digests

        return Folding(as_planned())


@dataclass(frozen=True, slots=True)
class SnapshotWriter:
    """Writes and proves the snapshots of one store."""

    context: RunContext
    folds: StoreFolds
    record: StoreRecord

    def write(self, actions: Snapshots, *, verify: bool) -> Iterator[SnapshotWritten]:
        """Folds a chain once, writes the snapshots, and proves each by reading it back.

        The caller has the record `settle` what was written, also after a failure. Of two actions,
        the second's chain is the beginning of the first's.
        """
        self.record.announce(actions)
        for action, published in zip(actions, self._published(actions), strict=True):
            written = self._written(action, published, verify=verify)
            self.record.held.append(self.context.ledger.wrote(written))
            yield written

    def _published(self, actions: Snapshots) -> Iterator[Published]:
        if self._store.rocks:
            return self._zips(actions)
        first = actions[0]  # its newest change has the readers of both: one read of its settings
        chunks = self.folds.fold(first.chain, tuple(action.version for action in actions))
        storage, check = self.context.storage, self.context.fence.check
        return publish(storage, actions, chunks, like=first.like, before=check)

    def _zips(self, actions: Snapshots) -> Iterator[Published]:
        storage, check = self.context.storage, self.context.fence.check
        with built(self._source, actions) as made:
            for action, database in zip(actions, made, strict=True):
                if base := action.chain.base:
                    must_be_unchanged(storage, base.entry)
                    if action.reuse:  # a clean-up spares only the SST files of the newest zip
                        self.record.must_have_no_newcomer()
                        self.must_be_readable(base.entry.path)
                last, like = partial(self._must_come_next, action), action.like
                yield publish_zip(storage, action, database, like=like, before=check, last=last)

    def _must_come_next(self, action: WriteSnapshot) -> None:
        """Makes sure that no other zip appeared since planning.

        Spark's clean-up takes every zip for its executors', and deletes the tables of an older one,
        on which an executor may build. A recovery has no executors beside it. A zip of the same
        version is compared instead.
        """
        if action.reason is not SnapshotReason.REBUILT:
            self.record.must_have_no_newcomer(but=action.path)

    def must_be_readable(self, path: str | None) -> None:
        """Makes sure once that readers of the log can also read a proved snapshot of ours (S22).

        Earlier builds wrote snapshots with the permissions of the maintainer's umask or of the
        bucket. Snapshots of executors are the query's own.
        """
        record, rocks = self.record, self._store.rocks
        proof = record.proofs.get(path) if path else None
        if proof is None or proof.readable:
            return
        ours = proof.ours or proof.path in (rocks.ours if rocks else record.written)
        beside = self._store.beside(proof.version)
        if ours and beside:
            with superseded_if_missing():
                self.context.storage.check_readable(proof.path, like=beside.path)
            record.proofs[proof.path] = replace(proof, readable=True)
            record.changed = True
            record.settle()

    def _written(
        self, action: WriteSnapshot, published: Published, *, verify: bool
    ) -> SnapshotWritten:
        record, proof = self.record, None
        if not published.written:
            record.written.discard(action.path)
        if verify:
            # Spark's checksum file, if Spark wrote the snapshot first, is compared like ours.
            source = self._source.beside(action.path) if action.checksum else self._source
            digest = self._read_back(action, source, published.digest)
        entry = published.entry
        shown = self._source.entries.get(entry.path)  # by reading it back
        entry = dated(self.context.storage, entry, shown)
        record.tables[entry.path] = record.listed(published.refers, published.parts)
        if verify:
            ours = published.written > 0
            proof = self._proof(action, entry, digest, action.chain, ours=ours)
        record.placed.append(entry)
        written, parts, refers = published.written, published.parts, published.refers
        return SnapshotWritten(action, entry, proof, written, published.checksum, parts, refers)

    def _read_back(
        self, action: WriteSnapshot, source: Source, expected: StateDigest
    ) -> StateDigest:
        try:
            return read_back(self.context.engine, source, action.path, expected, self.context.fence)
        except MissingSstError:  # executors may have uploaded a zip and cleaned up for it
            self._must_come_next(action)
            raise

    def attest(self, action: Attest) -> Attested:
        """Reads a snapshot back whole and compares it with the fold of the files below it."""
        entry, record, rocks = action.snapshot.entry, self.record, self._store.rocks
        must_be_unchanged(self.context.storage, entry)
        digest = self.context.engine.digest(self._source, entry.path)
        if action.against:
            expected = self.folds.state(action.against, action.snapshot)
            try:
                must_equal(action.path, digest, expected)
            except SnapshotMismatchError as error:
                raise error.because(action.why) from error
        proved = record.proofs.get(entry.path)
        ours = entry.path in rocks.ours if rocks else proved is not None and proved.ours
        record.tables[entry.path] = record.tables_of(entry.path)
        before = proved or record.former.get(entry.path)
        proof = self._proof(action, entry, digest, action.against, ours=ours)
        if before and (action.doubts or before.doubted):
            proof = proof.doubting(before, self._doubted(action.doubts))
            record.proofs[entry.path] = proof
        record.held.append(self.context.ledger.attested(action, entry, proof))
        return Attested(action, proof)

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
        self.record.proofs[entry.path] = proof
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
