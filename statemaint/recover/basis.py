"""The files that remain to load the newest committed version from, once a recovery is done."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from statemaint.errors import Superseded
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.storage import Storage
from statemaint.workers import Workers, in_order


def must_stand(storage: Storage, checkpoint: Checkpoint, workers: Workers | int | None) -> None:
    """Makes sure that the newest committed version still loads from the files that remain.

    Executors that run on delete what they no longer need: all below the newest snapshot, which a
    rollback moves away.

    `checkpoint` is as it will be without the removed files.
    """
    version = checkpoint.target
    if version is None:
        return
    asked = (one for one in checkpoint.stores if checkpoint.asks(one.id, version))
    jobs = [partial(_must_stand, storage, one, version) for one in asked]
    threads = Workers.of(workers).threads(storage.parallel, 0)
    deque(in_order(jobs, threads=threads), maxlen=0)


def _must_stand(storage: Storage, store: Store, version: int) -> None:
    there = {*storage.list(store.id.directory)}
    if lacking := sorted(one.path for one in _needed(store, version) if one not in there):
        detail = (
            f"version {version} is loaded from it, and it was deleted or replaced since this was "
            "planned; stop the query with all its executors"
        )
        raise Superseded(lacking[0], detail)


def _needed(store: Store, version: int) -> Iterable[Entry]:
    """Returns the files that a version is loaded from; none if a repair has to write one first."""
    chain = store.versions.chain(version)
    return _files(store, chain) if isinstance(chain, Chain) else ()


def _files(store: Store, chain: Chain) -> Iterator[Entry]:
    yield from (one.entry for one in chain.deltas)
    if chain.base:
        yield chain.base.entry
        parts = store.rocks.parts.get(chain.base.entry.path, {}) if store.rocks else {}
        yield from (one.entry for one in store.files if one.entry.path in parts)
