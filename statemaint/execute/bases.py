"""What deletions rely on: proved snapshots that stand and are readable, and chains that fold."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from statemaint.codec.integrity.digest import StateDigest
from statemaint.errors import NotFoundError, Superseded
from statemaint.execute.ledger import Known
from statemaint.fold import Engine, Folding, Pieces, Source
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.storage import Storage


def must_be_unchanged(storage: Storage, entry: Entry) -> None:
    """Makes sure that a snapshot is the file that was listed or written."""
    try:
        current = storage.stat(entry.path)
    except NotFoundError as error:
        raise Superseded(entry.path, "the snapshot is missing") from error
    if current != entry:
        raise Superseded(entry.path, "the snapshot was replaced after the run was planned")


def as_planned(
    folding: Folding, storage: Storage, chain: Chain, done: Callable[[frozenset[str]], object]
) -> Pieces:
    """Yields the pieces of a fold, whose files must be those that the run was planned with.

    `done` is called with the chain's paths once the whole chain was folded.
    """
    try:
        yield from folding
    except NotFoundError as error:
        why = "existed when the run was planned and is missing"
        raise Superseded(error.path, why) from error
    if chain.base:  # its proof is of the listed file
        must_be_unchanged(storage, chain.base.entry)
    done(frozenset(chain.paths))
    return folding.digests


def must_be_readable(storage: Storage, store: Store, known: Known, path: str) -> bool:
    """Makes sure that readers of the log beside a proved snapshot of ours can also read it (S22).

    Earlier builds wrote snapshots with the permissions of the maintainer's umask or of the bucket.
    Snapshots of executors are the query's own. The check runs once: the proof records its success.

    Its proof in `known` is replaced once the snapshot is found readable.

    Returns:
        Whether the proof was replaced.
    """
    proof = known.proofs[path]
    ours = proof.ours or path in (store.rocks.ours if store.rocks else known.written)
    beside = store.beside(proof.version)
    if proof.readable or not ours or beside is None:
        return False
    try:
        storage.check_readable(path, like=beside.path)
    except NotFoundError as error:
        raise Superseded(error.path, "existed when the run was planned and is missing") from error
    known.proofs[path] = replace(proof, readable=True)
    return True


@dataclass(frozen=True, slots=True)
class StoreFolds:
    """Folds the chains of one store, and records which it has folded.

    Attributes:
        source: how to read its files; it collects the fingerprints of the files that are read.
        done: the paths of each chain that was folded whole.
    """

    store: Store
    source: Source
    engine: Engine
    done: list[frozenset[str]] = field(default_factory=list)

    def fold(self, chain: Chain, versions: tuple[int, ...]) -> Folding:
        """Returns the pieces of the snapshots of some versions of a chain, highest first."""
        return self._fold(self.source, chain, versions, write=True)

    def state(self, chain: Chain, like: Snapshot | None) -> StateDigest:
        """Returns the digest of a chain's last version.

        `like` is the zip that defines how RocksDB merges; the chain may begin below the first one.
        """
        return self._fold(self.source.like(like), chain, (chain.version,), write=False).digests[
            chain.version
        ]

    def must_give(self, chain: Chain) -> None:
        """Makes sure that a chain folds; a part of a longer folded chain is not folded again."""
        if not any(set(chain.paths) <= folded for folded in self.done):
            self.state(chain, self.store.versions.base(chain.version))

    def _fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool
    ) -> Folding:
        folding = self.engine.fold(source, chain, versions, write=write)
        return Folding(as_planned(folding, source.storage, chain, self.done.append))
