"""Answers the first questions on call: can the query restart, from where, and what to do."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from statemaint.audit.diagnosis import Diagnosis
from statemaint.audit.past import compared
from statemaint.audit.rebuild import Depth
from statemaint.audit.row_rules import newest_right
from statemaint.audit.verify import Verification, verify_at, with_self_repair
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.findings import Finding, FindingCode, Subject
from statemaint.model.ids import version_of
from statemaint.model.policy import PRESETS
from statemaint.model.restart_time import SLOTS, Forecast
from statemaint.plan.findings.restart import resumes, spoiled_batches
from statemaint.plan.planner import plan
from statemaint.plan.staleness import judge
from statemaint.plan.withheld import by_reason
from statemaint.scan.restart_evidence import past_restarts, with_record_size
from statemaint.storage import Storage, stoppable
from statemaint.workers import Workers


def doctor(
    storage: Storage,
    *,
    deep: bool = False,
    slots: int | None = None,
    event_logs: Storage | None = None,
    workers: Workers | int | None = None,
) -> Diagnosis:
    """Diagnoses a checkpoint: whether, and from where, its query can restart.

    Args:
        storage: where the checkpoint lives.
        deep: check as a deep `verify` does; else every file of a retained version is decoded.
        slots: the number of stores that the query's executors load at a time, one or more; by
            default what its last event log says, or four.
        event_logs: a folder with event logs of the query's Spark, which correct the forecast.
        workers: the number of stores read at a time; by default what suits storage and machine.

    Raises:
        NotACheckpointError: when there is none.
        ConfigError: when there is no event log.
        UnsupportedError: when it is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    reading, depth = stoppable(storage), Depth.ROWS if deep else Depth.CHAINS
    verified = verify_at(reading, depth, workers=workers)
    verified = with_self_repair(reading, verified, workers=workers)
    checkpoint = verified.checkpoint
    longest = max(
        _newest(checkpoint), key=lambda pair: (len(pair[1].deltas), pair[1].size), default=None
    )
    past = past_restarts(event_logs, checkpoint.query_id) if event_logs else None
    slots = slots or next((it.slots for it in reversed(past or ()) if it.slots), SLOTS)
    forecast = Forecast.of(with_record_size(reading, checkpoint), slots)
    forecast = replace(forecast, spark=past[-1].spark) if past else forecast
    ratios = tuple(compared(forecast, checkpoint, past or ()))
    loadable = tuple(_loadable(checkpoint, verified.findings))
    store, chain = longest or (None, None)
    return Diagnosis(
        checkpoint=checkpoint,
        findings=verified.findings,
        loadable=loadable,
        longest=store,
        chain=chain,
        versions_checked=verified.versions_checked,
        disputed=tuple(_disputed(checkpoint, verified.findings)),
        right=tuple(_right(reading, verified, loadable, workers)),
        deep=deep,
        resumable=resumes(checkpoint, verified.findings),
        self_repairing=verified.passed_over is not None,
        passed_over=verified.passed_over or (),
        waits=tuple(_waits(reading, checkpoint, longest)),
        forecast=replace(forecast, percent=max(1, round(100 * median(ratios))) if ratios else 100),
        past=past,
        ratios=ratios,
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
