"""Scan, plan, execute, report."""

import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from resource import RUSAGE_SELF, getrusage
from typing import assert_never
from uuid import uuid4

from statemaint.execute import execute
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan import (
    Action,
    Attest,
    Delete,
    Plan,
    Request,
    WriteSnapshot,
    diagnose,
    plan,
)
from statemaint.report import Outcome, Report, summarize
from statemaint.scan import scan
from statemaint.storage import ReadOnly, Storage

# A query that deletes faster than we can list would otherwise keep us scanning for ever.
_MOST_SCANS = 5


def new_run_id(now: float) -> str:
    """Returns an id that sorts by time and that no other run has."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}"


def scan_checkpoint(storage: Storage) -> Checkpoint:
    """Returns a checkpoint whose findings a second scan has confirmed (S3).

    A query goes on while we look: it purges its log and cleans up below it, so that one listing
    may be older than another. What is really broken is still broken at the next look.

    Raises:
        NotACheckpointError: when there is none.
        UnsupportedError: when it is of a kind that cannot be maintained.
        StorageError: when anything could not be listed or read.
    """
    checkpoint = scan(storage)
    for _ in range(_MOST_SCANS):
        before = _damage(checkpoint)
        if not before:
            break
        checkpoint = scan(storage)
        if _damage(checkpoint) <= before:
            break
    return checkpoint


def _damage(checkpoint: Checkpoint) -> frozenset[Finding]:
    stores = (one for store in checkpoint.stores for one in diagnose(store, checkpoint))
    return frozenset(one for one in (*checkpoint.findings, *stores) if one.damage)


def plan_checkpoint(
    storage: Storage, policy: Policy, *, request: Request | None = None
) -> tuple[Checkpoint, Plan]:
    """Returns a checkpoint and what would be done to it; writes nothing (S13).

    A snapshot that is believed because nothing below it was listed must be the lowest at a second
    look too: a listing that ran while somebody else snapshotted and deleted is partly old.

    Raises:
        ConfigError: when the request names what does not exist; else as `scan_checkpoint`.
    """
    reading = ReadOnly(storage)
    checkpoint = scan_checkpoint(reading)
    decided = plan(checkpoint, policy, reading.now(), request=request)
    for _ in range(_MOST_SCANS):
        before = _believed(decided)
        if not before:
            break
        checkpoint = scan_checkpoint(reading)
        decided = plan(checkpoint, policy, reading.now(), request=request)
        if _believed(decided) <= before:
            break
    return checkpoint, decided


def _believed(decided: Plan) -> frozenset[str]:
    """Returns the snapshots that the plan begins at although nobody has proved them."""
    found = set()
    for store in decided.stores:
        bases = [base for action in store.actions if (base := _begins_at(action))]
        proofs = store.attestations
        found |= {one.path for one in bases if not any(proof.covers(one) for proof in proofs)}
    return frozenset(found)


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


def maintain(
    storage: Storage,
    policy: Policy,
    *,
    request: Request | None = None,
    dry_run: bool = False,
    run: str | None = None,
    on_outcome: Callable[[Outcome, Plan], None] = lambda _outcome, _plan: None,
) -> Report:
    """Maintains a checkpoint once, and returns what happened.

    Safe to kill and to repeat (S15). A store that is damaged, or whose storage fails, is reported
    and left as it is; the others are maintained all the same.

    Args:
        storage: where the checkpoint lives.
        policy: when to snapshot and what to keep.
        request: what to restrict the run to.
        dry_run: plan and report, but write and delete nothing.
        run: the run's id in the ledger; a new one by default.
        on_outcome: is told each outcome as it happens, for progress.

    Raises:
        ConfigError: when the request names what does not exist; else as `scan_checkpoint`.
    """
    started = storage.now()
    _, decided = plan_checkpoint(storage, policy, request=request)
    name = run or new_run_id(started)
    happened: dict[StoreId, list[Outcome]] = defaultdict(list)
    if not dry_run:
        elapsed = lambda: storage.now() - started  # noqa: E731
        for outcome in execute(decided, storage, run=name, elapsed=elapsed):
            happened[outcome.store].append(outcome)
            on_outcome(outcome, decided)
    stores = tuple(summarize(one, happened[one.store.id], decided.target) for one in decided.stores)
    seconds = storage.now() - started
    return Report(name, decided, stores, started, seconds, dry_run, _peak_memory())


def _peak_memory() -> int:
    peak = getrusage(RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
