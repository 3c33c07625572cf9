"""Digests of the states of all stores at one version."""

from collections.abc import Iterator
from functools import partial

from statemaint.codec.integrity.digest import StateDigest
from statemaint.fold import Source, engine_for
from statemaint.fold.needs import chains_need, loading
from statemaint.fold.state import state_digest
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
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

    def job(store: Store, chain: Chain) -> Job[StateDigest]:
        source = Source.of(reading, store, checkpoint, ahead=ahead)
        need = partial(chains_need, [chain], source, store)

        def digest() -> Iterator[StateDigest]:
            if store.rocks is None and need() > budget.total:
                yield state_digest(source, store, chain)
            else:
                fold = engine.fold(source, chain, (chain.version,), write=False)
                yield fold.digests[chain.version]

        return Job(digest, need, chain.size)

    jobs = [job(store, chain) for store, chain in chains]
    digests = in_turn(jobs, threads=threads, budget=budget, stop=reading.stop)
    ids = (store.id for store, _ in chains)
    return requested, tuple(zip(ids, digests, strict=True))
