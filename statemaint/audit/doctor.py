"""Answers the first questions on call: can the query restart, from where, and what to do."""

import time
from collections import deque
from collections.abc import Iterator

from statemaint.audit.diagnosis import Diagnosis, Reading
from statemaint.audit.rebuild import Depth
from statemaint.audit.row_rules import newest_right
from statemaint.audit.verify import Verification, verify_at, with_self_repair
from statemaint.errors import CheckpointError, NotFoundError, Superseded, UnsupportedError
from statemaint.fold import Source, engine_for
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.findings import Finding, FindingCode, Subject
from statemaint.model.forecast import Forecast
from statemaint.model.ids import version_of
from statemaint.model.policy import PRESETS
from statemaint.model.restart_time import SLOTS
from statemaint.plan.findings.restart import resumes, spoiled_batches
from statemaint.plan.planner import plan
from statemaint.plan.staleness import judge
from statemaint.plan.withheld import by_reason
from statemaint.scan.record_size import with_record_size
from statemaint.storage import Storage, stoppable
from statemaint.workers import Workers


def doctor(
    storage: Storage,
    *,
    deep: bool = False,
    slots: int = SLOTS,
    workers: Workers | int | None = None,
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
    verified = with_self_repair(reading, verified, workers=workers)
    checkpoint = verified.checkpoint
    chains = _newest(checkpoint)
    longest = max(chains, key=lambda pair: (len(pair[1].deltas), pair[1].size), default=None)
    largest = max(chains, key=lambda pair: _stored(*pair), default=None)
    took = _measured(reading, checkpoint, longest)
    every = chains and len(chains) == len(checkpoint.needed(checkpoint.resumes))
    loadable = tuple(_loadable(checkpoint, verified.findings))
    store, chain = longest or (None, None)
    return Diagnosis(
        checkpoint=checkpoint,
        findings=verified.findings,
        loadable=loadable,
        longest=store,
        chain=chain,
        took=took,
        versions_checked=verified.versions_checked,
        largest=took if largest is longest else _measured(reading, checkpoint, largest),
        total=sum(_stored(*pair) for pair in chains) if every else None,
        slots=slots,
        disputed=tuple(_disputed(checkpoint, verified.findings)),
        right=tuple(_right(reading, verified, loadable, workers)),
        deep=deep,
        resumable=resumes(checkpoint, verified.findings),
        self_repairing=verified.passed_over is not None,
        passed_over=verified.passed_over or (),
        waits=tuple(_waits(reading, checkpoint, longest)),
        forecast=Forecast.of(with_record_size(reading, checkpoint), slots),
    )


def _waits(
    storage: Storage, checkpoint: Checkpoint, longest: tuple[Store, Chain] | None
) -> Iterator[str]:
    policy = PRESETS["safe"]
    if longest and len(longest[1].deltas) >= policy.min_deltas_for_snapshot:
        withheld = plan(checkpoint, policy, storage.now()).withheld
        yield from map(
            str, by_reason(snapshot for snapshot in withheld if snapshot.store == longest[0].id)
        )


def _disputed(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Iterator[str]:
    wrong = {finding.path for finding in findings if finding.code is FindingCode.SNAPSHOT_MISMATCH}
    for store in checkpoint.stores:
        for suspect in judge(store, checkpoint).disputed:
            if suspect.path in wrong and not suspect.by_query:
                yield f"{suspect.path} disagrees with the log: {suspect.why}"


def _right(
    storage: Storage,
    verified: Verification,
    loadable: tuple[int, ...],
    workers: Workers | int | None,
) -> Iterator[int]:
    """Yields the newest batch whose rows are right, if those of the newest version are not."""
    if any(finding.code.about.subject is Subject.ROWS for finding in verified.findings):
        threads = Workers.of(workers).number or storage.parallel
        newest = newest_right(storage, verified.checkpoint, loadable, threads=threads)
        yield from () if newest is None else (newest,)


def _loadable(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Iterator[int]:
    required, target = checkpoint.required, checkpoint.target
    if required is None or target is None or checkpoint.provider is Provider.UNKNOWN:
        return
    spoiled = spoiled_batches(findings)
    loads = [(store.id, store.versions.loadable(required, target)) for store in checkpoint.stores]
    for batch in checkpoint.batches:
        version = version_of(batch)
        needed = (loaded for store, loaded in loads if checkpoint.asks(store, version))
        if batch not in spoiled and all(version in loaded for loaded in needed):
            yield batch


def _newest(checkpoint: Checkpoint) -> list[tuple[Store, Chain]]:
    """Returns the chain that a restart reads of each store that loads."""
    version = checkpoint.resumes
    if version is None:
        return []
    return [
        (store, chain)
        for store in checkpoint.needed(version)
        if isinstance(chain := store.versions.chain(version), Chain)
    ]


def _stored(store: Store, chain: Chain) -> int:
    if store.rocks is None or chain.base is None:
        return chain.size
    return chain.size + sum(store.rocks.parts.get(chain.base.entry.path, {}).values())


def _measured(
    storage: Storage, checkpoint: Checkpoint, longest: tuple[Store, Chain] | None
) -> Reading | None:
    if not longest or not longest[1].paths:
        return None
    store, chain = longest
    engine = engine_for(chain.size, checkpoint.provider)
    source, began = Source.of(storage, store, checkpoint), time.monotonic()
    try:
        deque(engine.fold(source, chain, (chain.version,), write=False), maxlen=0)
    except (CheckpointError, UnsupportedError, NotFoundError, Superseded):
        return None
    return Reading(_stored(store, chain), time.monotonic() - began)
