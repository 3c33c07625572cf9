"""The decision for a partition that a repartition has left behind. Pure."""

from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, TempFile, UnknownFile
from statemaint.model.findings import Finding, damaged
from statemaint.model.ids import version_of
from statemaint.plan.actions import Delete, Kept, StorePlan, Wait, Withheld
from statemaint.plan.facts import Window
from statemaint.plan.reasons import DeleteReason, KeepReason, WithheldReason
from statemaint.plan.snapshots import due, withheld
from statemaint.plan.store import halt

WithVersion = Delta | Snapshot | SstFile | ChecksumFile | TempFile


def is_old(store: Store, checkpoint: Checkpoint, window: Window) -> bool:
    """Returns whether the newest batch no longer has a partition that earlier batches had."""
    return not checkpoint.asks(store.id, window.target)


def decide_old(
    store: Store, checkpoint: Checkpoint, window: Window, findings: tuple[Finding, ...]
) -> StorePlan:
    """Returns the plan of such a partition, which is kept whole while a restart may need it.

    No restart needs it once no batch in the commit log has the partition and its newest version is
    below the floor.
    """
    if damaged(findings):
        return halt(store, findings)
    keeps = _kept_for(store, checkpoint, window)
    deletes, kept = [], []
    for file in store.files:
        if isinstance(file, UnknownFile):
            kept.append(Kept(file.entry, KeepReason.UNKNOWN))
        elif keeps or not window.is_older(file.entry, window.policy.orphan_age):
            kept.append(Kept(file.entry, keeps or KeepReason.YOUNG))
        else:
            deletes.append(_delete(store, file))
    actions = tuple(sorted(deletes, key=lambda one: one.order))
    return StorePlan(
        store, None, actions, tuple(kept), findings, _withheld(store, checkpoint, window)
    )


def _withheld(store: Store, checkpoint: Checkpoint, window: Window) -> tuple[Withheld, ...]:
    wait = Wait(WithheldReason.OLD_PARTITION)
    chains = due(store, store.versions, window, window.floor)
    return tuple(
        withheld(store, chain, reason, wait)
        for reason, chain in chains
        if checkpoint.asks(store.id, chain.version)
    )


def _kept_for(store: Store, checkpoint: Checkpoint, window: Window) -> KeepReason | None:
    if window.skewed:
        return KeepReason.CLOCK_SKEW
    newest = max(store.versions.all, default=0)
    requested = any(checkpoint.asks(store.id, version_of(one)) for one in checkpoint.batches)
    needed = requested or newest >= window.floor or not window.policy.verify
    return KeepReason.OLD_PARTITION if needed else None


def _delete(store: Store, file: WithVersion) -> Delete:
    reason = (
        DeleteReason.ORPHAN_SIDE if isinstance(file, ChecksumFile) else DeleteReason.OLD_PARTITION
    )
    return Delete(store.id, file.version, file.entry, reason)
