"""Scanning and planning, repeated where a single scan may be misleading."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import assert_never

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId, UnitId
from statemaint.model.policy import Policy
from statemaint.plan import Action, Attest, Delete, Plan, Request, WriteSnapshot, diagnose, plan
from statemaint.scan import (
    Handover,
    Recalling,
    ScanPart,
    missing_source_logs,
    scan,
    unfinished_rollbacks,
)
from statemaint.storage import ReadOnly, Storage

# A query that deletes faster than we can list would otherwise keep us scanning forever.
_MOST_SCANS = 5


def scan_checkpoint(
    storage: Storage,
    only: Callable[[StoreId], bool] | None = None,
    *,
    part: ScanPart | None = None,
) -> Checkpoint:
    """Returns a checkpoint whose findings a second scan has confirmed (S3).

    The query continues during a scan: it purges its log and cleans up below it, so one listing may
    be older than another. Real damage appears again in the next scan.

    Args:
        storage: the storage of the checkpoint.
        only: the filter of stores to read; all of them by default.
        part: the partitions to list, and an earlier scan's result for the rest.

    Raises:
        NotACheckpointError: when there is no checkpoint.
        UnsupportedError: when it is of a kind that cannot be maintained.
        StorageError: when a listing or read failed.
    """
    checkpoint = scan(storage, only, part=part)
    for _ in range(_MOST_SCANS):
        before = _damage(checkpoint)
        if not before:
            break
        checkpoint = scan(storage, only, part=part)
        if _damage(checkpoint) <= before:
            break
    return checkpoint


def _damage(checkpoint: Checkpoint) -> frozenset[Finding]:
    stores = (one for store in checkpoint.stores for one in diagnose(store, checkpoint))
    return frozenset(one for one in (*checkpoint.findings, *stores) if one.damage)


def plan_checkpoint(
    storage: Storage,
    policy: Policy,
    *,
    request: Request | None = None,
    as_of: float | None = None,
    skew: float = 0.0,
    handover: Handover | None = None,
) -> tuple[Checkpoint, Plan]:
    """Returns a checkpoint and its plan; writes nothing (S13).

    A snapshot that is trusted because no file below it was listed must be the lowest in a second
    scan, too: a listing made while another writer snapshots and deletes is partly outdated.

    Args:
        storage: the storage of the checkpoint.
        policy: when to snapshot and what to keep.
        request: the scope to restrict the plan to.
        as_of: the time of the first plan, for a plan that is made again; now by default.
        skew: seconds by which the storage's stamps were seen to be ahead of its clock.
        handover: an earlier scan's result for all but the partitions that the request names.

    Raises:
        ConfigError: when the request names a store or version that does not exist; otherwise as
            `scan_checkpoint`.
    """
    part = _part(request, handover)
    reading = Recalling(storage, part.handover) if part else ReadOnly(storage)
    only = request.covers if request else None

    def look() -> tuple[Checkpoint, Plan]:
        checkpoint, now = scan_checkpoint(reading, only, part=part), reading.now()
        # A task looks again: one may have begun, and been killed, before the run had its lease.
        found = (*checkpoint.findings, *unfinished_rollbacks(reading))
        found += () if part else tuple(_lost_sources(reading, checkpoint))
        checkpoint = replace(checkpoint, findings=found)
        ages = now if as_of is None else as_of
        return checkpoint, plan(checkpoint, policy, ages, request=request, skew=skew, seen=now)

    decision = look()
    for _ in range(_MOST_SCANS):
        before = _trusted(decision[1])
        if not before:
            break
        decision = look()
        if _trusted(decision[1]) <= before:
            break
    return decision


def _lost_sources(reading: Storage, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields the findings of source logs that a second look confirms; the query may be running."""
    if findings := list(missing_source_logs(reading, checkpoint)):
        again = {*missing_source_logs(reading, scan(reading, lambda _: False))}
        yield from (one for one in findings if one in again)


def _part(request: Request | None, handover: Handover | None) -> ScanPart | None:
    if not (handover and request and request.operators and request.partitions):
        return None
    pairs = product(request.operators, request.partitions)
    return ScanPart(handover, frozenset(UnitId(*one) for one in pairs))


def _trusted(decided: Plan) -> frozenset[str]:
    """Returns the unproved snapshots that the plan starts from."""
    paths = set()
    for store in decided.stores:
        bases = [base for action in store.actions if (base := _begins_at(action))]
        proofs = store.attestations
        paths |= {one.path for one in bases if not any(proof.covers(one) for proof in proofs)}
    return frozenset(paths)


def _begins_at(action: Action) -> Entry | None:
    match action:
        case WriteSnapshot(chain=chain) | Attest(against=Chain() as chain):
            return chain.base.entry if chain.base else None
        case Attest(snapshot=snapshot):
            return snapshot.entry
        case Delete():
            return None
        case _:
            assert_never(action)
