"""Looking and deciding, twice where a single look may have deceived."""

from collections.abc import Callable
from typing import assert_never

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan import Action, Attest, Delete, Plan, Request, WriteSnapshot, diagnose, plan
from statemaint.scan import scan
from statemaint.storage import ReadOnly, Storage

# A query that deletes faster than we can list would otherwise keep us scanning for ever.
_MOST_SCANS = 5


def scan_checkpoint(storage: Storage, only: Callable[[StoreId], bool] | None = None) -> Checkpoint:
    """Returns a checkpoint whose findings a second scan has confirmed (S3).

    A query goes on while we look: it purges its log and cleans up below it, so that one listing
    may be older than another. What is really broken is still broken at the next look.

    Args:
        storage: where it lives.
        only: tells which stores to read; all of them by default.

    Raises:
        NotACheckpointError: when there is none.
        UnsupportedError: when it is of a kind that cannot be maintained.
        StorageError: when anything could not be listed or read.
    """
    checkpoint = scan(storage, only)
    for _ in range(_MOST_SCANS):
        before = _damage(checkpoint)
        if not before:
            break
        checkpoint = scan(storage, only)
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
) -> tuple[Checkpoint, Plan]:
    """Returns a checkpoint and what would be done to it; writes nothing (S13).

    A snapshot that is believed because nothing below it was listed must be the lowest at a second
    look too: a listing that ran while somebody else snapshotted and deleted is partly old.

    Args:
        storage: where the checkpoint lives.
        policy: when to snapshot and what to keep.
        request: what to restrict the plan to.
        as_of: when it was planned first, for a plan that is made again; by default now.
        skew: seconds by which the storage's stamps were seen to be ahead of its clock.

    Raises:
        ConfigError: when the request names what does not exist; else as `scan_checkpoint`.
    """
    reading = ReadOnly(storage)
    only = request.covers if request else None

    def look() -> tuple[Checkpoint, Plan]:
        checkpoint, now = scan_checkpoint(reading, only), reading.now()
        ages = now if as_of is None else as_of
        return checkpoint, plan(checkpoint, policy, ages, request=request, skew=skew, seen=now)

    found = look()
    for _ in range(_MOST_SCANS):
        before = _believed(found[1])
        if not before:
            break
        found = look()
        if _believed(found[1]) <= before:
            break
    return found


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
