"""Estimates of the memory that checking a store takes."""

from statemaint.audit.rebuild import Depth
from statemaint.fold import Source
from statemaint.fold.needs import Density, density, fold_need, read_need
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.plan import judge


def need_of(store: Store, source: Source, checkpoint: Checkpoint, depth: Depth) -> int:
    """Returns an upper estimate of the memory that checking a store takes, in bytes."""
    reading = read_need(max((one.entry.size for one in store.files), default=0), far=source.far)
    if depth is Depth.HEADERS and not judge(store, checkpoint).suspects:
        return reading
    chains = _compared(store)
    largest = max(chains, key=lambda one: one.size, default=None)
    density_of_log = density(source, largest.deltas if largest else (), checkpoint.provider)
    return max([reading, *(_need(one, source, store, density_of_log) for one in chains)])


def chain_need(chain: Chain, source: Source, store: Store, checkpoint: Checkpoint) -> int:
    return _need(chain, source, store, density(source, chain.deltas, checkpoint.provider))


def _need(chain: Chain, source: Source, store: Store, found: Density) -> int:
    parts = store.rocks.parts if store.rocks else {}
    tables = sum(parts.get(chain.base.entry.path, {}).values()) if chain.base else 0
    provider = Provider.ROCKSDB if store.rocks else Provider.HDFS_BACKED
    return fold_need(chain, provider, found, tables=tables, far=source.far)


def _compared(store: Store) -> list[Chain]:
    """Returns the chains between snapshots, each with the changes of the upper one's version."""
    versions, chains = store.versions, []
    below = None
    for version in sorted(versions.snapshots):
        start = below.version if below else 0
        deltas = [versions.deltas[one] for one in versions.deltas if start < one <= version]
        below = versions.snapshots[version]
        chains.append(Chain(version, below, tuple(deltas)))
    return chains
