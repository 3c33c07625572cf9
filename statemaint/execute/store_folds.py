"""The folds of one store, each from exactly the files that the run was planned with."""

from dataclasses import dataclass, field

from statemaint.codec.integrity.digest import StateDigest
from statemaint.execute.bases import as_planned
from statemaint.fold import Engine, Folding, Source
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot


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
