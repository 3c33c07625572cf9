"""Answers the first questions on call: can the query restart, from where, and what to do."""

import time
from collections import deque
from collections.abc import Iterable, Iterator

from statemaint.audit.diagnosis import Diagnosis, Reading, is_doubt
from statemaint.audit.rebuild import Depth
from statemaint.audit.row_rules import newest_right
from statemaint.audit.verify import Verification, verify_at
from statemaint.errors import CheckpointError, NotFoundError, Superseded, UnsupportedError
from statemaint.fold import Source, engine_for
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.files import ChecksumFile, Snapshot
from statemaint.model.findings import Finding, FindingCode, Subject
from statemaint.model.ids import batch_of, version_of
from statemaint.model.policy import PRESETS
from statemaint.plan.findings.names import blocks_load, names_snapshot
from statemaint.plan.planner import plan
from statemaint.plan.staleness import judge
from statemaint.plan.withheld import by_reason
from statemaint.storage import Storage, Without, stoppable
from statemaint.workers import Workers

_MOST_CHANGES = 500
"""The most that a repaired load replays: `stateStore.autoSnapshotRepair.maxChangeFileReplay`."""
_OF_SNAPSHOTS = frozenset(
    {FindingCode.CORRUPT_FILE, FindingCode.MISSING_SST, FindingCode.STALE_CHECKSUM}
)


def doctor(
    storage: Storage, *, deep: bool = False, slots: int = 1, workers: Workers | int | None = None
) -> Diagnosis:
    """Diagnoses a checkpoint: whether, and from where, its query can restart.

    Args:
        storage: where the checkpoint lives.
        deep: check as a deep `verify` does; else every file of a retained version is decoded.
        slots: the number of stores that the query's executors read at a time, one or more.
        workers: the number of stores read at a time; by default what suits storage and machine.

    Raises:
        NotACheckpointError: when there is none.
        UnsupportedError: when it is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    reading, depth = stoppable(storage), Depth.ROWS if deep else Depth.CHAINS
    verified = verify_at(reading, depth, workers=workers)
    checkpoint = verified.checkpoint
    resumable = _resumes(verified)
    passed_over = None if resumable else _passed_over(reading, verified, depth, workers)
    chains = _newest(checkpoint)
    longest = max(chains, key=lambda one: (len(one[1].deltas), one[1].size), default=None)
    largest = max(chains, key=lambda one: _stored(*one), default=None)
    took = _measured(reading, checkpoint, longest)
    loadable = tuple(_loadable(checkpoint, verified.findings))
    return Diagnosis(
        checkpoint=checkpoint,
        findings=verified.findings,
        loadable=loadable,
        longest=longest[0] if longest else None,
        chain=longest[1] if longest else None,
        took=took,
        versions_checked=verified.versions_checked,
        largest=took if largest is longest else _measured(reading, checkpoint, largest),
        total=_total(checkpoint, chains),
        slots=slots,
        disputed=tuple(_disputed(checkpoint, verified.findings)),
        right=tuple(_right(reading, verified, loadable, workers)),
        deep=deep,
        resumable=resumable,
        self_repairing=passed_over is not None,
        passed_over=passed_over or (),
        waits=tuple(_waits(reading, checkpoint, longest)),
    )


def _waits(
    storage: Storage, checkpoint: Checkpoint, longest: tuple[Store, Chain] | None
) -> Iterator[str]:
    policy = PRESETS["safe"]
    if longest and len(longest[1].deltas) >= policy.min_deltas_for_snapshot:
        withheld = plan(checkpoint, policy, storage.now()).withheld
        yield from map(str, by_reason(one for one in withheld if one.store == longest[0].id))


def _resumes(verified: Verification) -> bool:
    version = verified.checkpoint.resumes
    if version is None:
        return True
    if any(blocks_load(one, verified.checkpoint) for one in verified.findings):
        return False
    # Findings in the logs that stop a restart are in `Diagnosis.blockers`.
    of_state = [one for one in verified.findings if one.code.about.subject is not Subject.LOGS]
    read = [one for one in of_state if not is_doubt(one)]
    if batch_of(version) in _spoiled(read):
        return False
    return all(
        version in store.versions.loadable(version, version)
        for store in verified.checkpoint.needed(verified.checkpoint.resumes)
    )


def _passed_over(
    storage: Storage, verified: Verification, depth: Depth, workers: Workers | int | None
) -> tuple[str, ...] | None:
    """Returns the bad snapshots without which a restart succeeds; `None` if it does not.

    Only the stores of these snapshots are read again.

    Mirrors `AutoSnapshotLoader.loadSnapshot` of Spark 4.2 and later: if the newest snapshot does
    not load, the one below is tried, and finally the empty state, each with the changes above it;
    with unique ids, the empty state only if the lineage of the version goes back to it.
    In HDFS-backed stores a directory that is named like a snapshot also makes this fail.
    """
    folders = {one.path for one in verified.findings if one.path and names_snapshot(one)}
    if folders and verified.checkpoint.provider is Provider.HDFS_BACKED:
        return None
    bad = frozenset(folders | {*_bad_snapshots(verified)})
    stores = verified.checkpoint.stores
    sides = {
        file.entry.path
        for store in stores
        for file in store.files
        if isinstance(file, ChecksumFile) and file.owner in bad
    }
    hidden = bad | sides | {*_below(storage, folders)}
    view = Without(storage, hidden)
    without = verify_at(view, depth, rebuilt={}, workers=workers, known=verified.results)
    version = verified.checkpoint.resumes or 0
    headless = {one.store for one in verified.findings if one.code is FindingCode.LINEAGE_BROKEN}
    short = all(
        isinstance(chain := store.versions.chain(version), Chain)
        and len(chain.deltas) <= _MOST_CHANGES
        and (chain.base or store.id not in headless)
        for store in without.checkpoint.needed(without.checkpoint.resumes)
    )
    return tuple(sorted(bad)) if short and _resumes(without) else None


def _below(storage: Storage, folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        yield f"{folder}/"
        yield from (entry.path for entry in storage.list(folder))


def _bad_snapshots(verified: Verification) -> Iterator[str]:
    stores = {store.id: store for store in verified.checkpoint.stores}
    for finding in verified.findings:
        if finding.code in _OF_SNAPSHOTS and finding.store in stores:
            yield from _snapshots_of(stores[finding.store], finding.path)


def _snapshots_of(store: Store, path: str | None) -> Iterator[str]:
    """Yields the snapshots that are a bad file, own it, or refer to it."""
    sides = {file.entry.path: file.owner for file in store.files if isinstance(file, ChecksumFile)}
    bad = sides.get(path or "", path)
    parts = store.rocks.parts if store.rocks else {}
    for file in store.files:
        own = file.entry.path
        if isinstance(file, Snapshot) and (own == bad or bad in parts.get(own, ())):
            yield own


def _disputed(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Iterator[str]:
    wrong = {one.path for one in findings if one.code is FindingCode.SNAPSHOT_MISMATCH}
    for store in checkpoint.stores:
        for one in judge(store, checkpoint).disputed:
            if one.path in wrong and not one.by_query:
                yield f"{one.path} disagrees with the log: {one.why}"


def _right(
    storage: Storage,
    verified: Verification,
    loadable: tuple[int, ...],
    workers: Workers | int | None,
) -> Iterator[int]:
    """Yields the newest batch whose rows are right, if those of the newest version are not."""
    if any(one.code.about.subject is Subject.ROWS for one in verified.findings):
        threads = Workers.of(workers).number or storage.parallel
        newest = newest_right(storage, verified.checkpoint, loadable, threads=threads)
        yield from () if newest is None else (newest,)


def _loadable(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Iterator[int]:
    required, target = checkpoint.required, checkpoint.target
    if required is None or target is None or checkpoint.provider is Provider.UNKNOWN:
        return
    spoiled = _spoiled(findings)
    loads = [(one.id, one.versions.loadable(required, target)) for one in checkpoint.stores]
    for batch in checkpoint.batches:
        version = version_of(batch)
        needed = (loaded for store, loaded in loads if checkpoint.asks(store, version))
        if batch not in spoiled and all(version in loaded for loaded in needed):
            yield batch


def _spoiled(findings: Iterable[Finding]) -> set[int]:
    # Misplaced rows still load; `misplaced` reports them.
    damage = (one for one in findings if one.damage and one.code.about.subject is not Subject.ROWS)
    return {batch for one in damage for batch in one.batches}


_Chains = list[tuple[Store, Chain]]


def _newest(checkpoint: Checkpoint) -> _Chains:
    """Returns the chain that a restart reads of each store that loads."""
    version = checkpoint.resumes
    if version is None:
        return []
    chains = ((store, store.versions.chain(version)) for store in checkpoint.needed(version))
    return [(store, chain) for store, chain in chains if isinstance(chain, Chain)]


def _total(checkpoint: Checkpoint, chains: _Chains) -> int | None:
    if not chains or len(chains) < len(checkpoint.needed(checkpoint.resumes)):
        return None
    return sum(_stored(store, chain) for store, chain in chains)


def _stored(store: Store, chain: Chain) -> int:
    if store.rocks is None or chain.base is None:
        return chain.size
    return chain.size + sum(store.rocks.parts.get(chain.base.entry.path, {}).values())


def _measured(
    storage: Storage, checkpoint: Checkpoint, found: tuple[Store, Chain] | None
) -> Reading | None:
    if not found or not found[1].paths:
        return None
    store, chain = found
    engine = engine_for(chain.size, checkpoint.provider)
    source, began = Source.of(storage, store, checkpoint), time.monotonic()
    try:
        deque(engine.fold(source, chain, (chain.version,), write=False), maxlen=0)
    except (CheckpointError, UnsupportedError, NotFoundError, Superseded):
        return None
    return Reading(_stored(store, chain), time.monotonic() - began)
