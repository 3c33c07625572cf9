"""Digests of the states of all stores at one version."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from statemaint.codec.integrity.digest import StateDigest
from statemaint.fold import Engine, Source, engine_for
from statemaint.fold.needs import chains_need, loading
from statemaint.fold.state import state_digest
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.ids import StoreId
from statemaint.planning import scan_checkpoint
from statemaint.state.versions import chain_of, committed_version
from statemaint.storage import Storage, stoppable
from statemaint.workers import Job, Workers, in_turn


def digest_stores(
    storage: Storage, *, version: int | None = None, workers: Workers | int | None = None
) -> tuple[int, tuple[tuple[StoreId, StateDigest], ...]]:
    """Returns a version and the digest of every store's state at it; writes nothing.

    A store with more changes than fit in memory is sorted in the temporary directory.

    Args:
        storage: where the checkpoint lives.
        version: the newest committed one by default.
        workers: the number of stores read at a time; by default what suits storage and machine.

    Raises:
        ConfigError: when nothing is committed, or a store does not have that version.
        DamagedError: when the checkpoint's own logs cannot be read.
        CheckpointError: when a file of the version is damaged.
        StorageError: when anything could not be listed or read.
    """
    reading, crew = stoppable(storage), Workers.of(workers)
    checkpoint = scan_checkpoint(reading)
    requested = committed_version(checkpoint, version)
    chains = [(store, chain_of(checkpoint, store, requested)) for store in checkpoint.stores]
    size = sum(chain.size for _, chain in chains)
    ahead = crew.ahead(storage.parallel, len(chains), size)
    engine = engine_for(size, checkpoint.provider)
    threads = crew.threads(storage.parallel, size)
    budget = crew.budget(loading(size, checkpoint.provider))
    digest = _Digest(reading, checkpoint, engine, ahead, budget.total)
    jobs = [
        Job(partial(digest.of, *one), partial(digest.need, *one), one[1].size) for one in chains
    ]
    digests = in_turn(jobs, threads=threads, budget=budget, stop=reading.stop)
    return requested, tuple(
        (store.id, one) for (store, _), one in zip(chains, digests, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Digest:
    storage: Storage
    checkpoint: Checkpoint
    engine: Engine
    ahead: int
    memory: int

    def need(self, store: Store, chain: Chain) -> int:
        """Returns an estimate of the memory that a digest takes, which may exceed what there is."""
        return chains_need([chain], self._source(store), store)

    def of(self, store: Store, chain: Chain) -> Iterator[StateDigest]:
        source = self._source(store)
        if store.rocks is None and self.need(store, chain) > self.memory:
            yield state_digest(source, store, chain)
        else:
            folds = self.engine.fold(source, chain, (chain.version,), write=False)
            yield folds.digests[chain.version]

    def _source(self, store: Store) -> Source:
        return Source.of(self.storage, store, self.checkpoint, ahead=self.ahead)
