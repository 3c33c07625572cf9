"""The decision for one store, step by step. Each step reads only the steps before it.

Step         Result                                 Module
facts        the known facts                        statemaint.plan.facts
snapshots    the snapshots to write or to withhold  statemaint.plan.snapshots
comparisons  the comparisons before all else        statemaint.plan.snapshots
boundary     the version to delete files below      statemaint.plan.facts
fates        the fate of each file, with a reason   statemaint.plan.fates
deletions    the order of the deletions             statemaint.plan.fates
"""

from collections.abc import Iterator

from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import ChecksumFile, UnknownFile
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.model.ids import version_of
from statemaint.plan.actions import (
    Action,
    Attest,
    Delete,
    Kept,
    StorePlan,
    Wait,
    Window,
    Withheld,
    WriteSnapshot,
)
from statemaint.plan.facts import Facts, boundary_of, gather
from statemaint.plan.fates import clearances, deletions, fates_of, kept_files
from statemaint.plan.reasons import DeleteReason, KeepReason, WithheldReason
from statemaint.plan.snapshots import base_proof, comparisons, due, snapshots_due, withheld
from statemaint.plan.staleness import Judgement

# These files may be deleted only because a proved snapshot takes their place.
RELY_ON_BASE = (DeleteReason.BELOW_BASE, DeleteReason.SIDE_FILE, DeleteReason.UNUSED_SST)


def halt(store: Store, findings: tuple[Finding, ...], window: Window | None = None) -> StorePlan:
    """Returns a plan without actions for a store (S16); without a window no snapshot is due."""
    kept = tuple(Kept(file.entry, KeepReason.HALTED) for file in store.files)
    waiting = tuple(_waiting(store, window, WithheldReason.HALTED)) if window else ()
    return StorePlan(store, None, (), kept, findings, waiting)


def uncommitted(store: Store, findings: tuple[Finding, ...]) -> StorePlan:
    """Returns the plan of a store without a committed version, whose files all stay."""
    if damaged(findings):
        return halt(store, findings)
    unknown, above = KeepReason.UNKNOWN, KeepReason.ABOVE_TARGET
    reasons = ((it.entry, unknown if isinstance(it, UnknownFile) else above) for it in store.files)
    kept = tuple(Kept(entry, reason) for entry, reason in reasons)
    return StorePlan(store, None, (), kept, findings)


def _waiting(store: Store, window: Window, why: WithheldReason) -> Iterator[Withheld]:
    for reason, chain in due(store, store.versions, window, window.floor):
        yield withheld(store, chain, reason, Wait(why))


def decide(
    store: Store, window: Window, findings: tuple[Finding, ...], judgement: Judgement
) -> StorePlan:
    if damaged(findings):
        return halt(store, findings, window)
    versions = judgement.without_stale(store).versions
    loads = versions.loadable(window.floor, window.target)
    if window.target not in loads:
        detail = (
            f"{store.id.directory}: version {window.target} is no longer retained; the query moved "
            "on since this run was planned"
        )
        moved_on = Finding(FindingCode.SUPERSEDED, detail, store.id, window.target)
        return halt(store, (*findings, moved_on))
    facts = gather(store, window, judgement=judgement, versions=versions, floor=min(loads))
    return _decided(facts, findings)


def _decided(facts: Facts, findings: tuple[Finding, ...]) -> StorePlan:
    decisions = tuple(snapshots_due(facts))
    writes = tuple(decision for decision in decisions if isinstance(decision, WriteSnapshot))
    waiting = tuple(decision for decision in decisions if isinstance(decision, Withheld))
    compared = tuple(comparisons(facts, writes))
    boundary = boundary_of(facts, writes)
    fates = fates_of(facts, boundary, writes)
    deletes = deletions(facts, fates)
    cleared = clearances(facts, deletes, writes)
    entries = {delete.entry for delete in cleared}
    rest = tuple(delete for delete in deletes if delete.entry not in entries)
    relies = any(delete.reason in RELY_ON_BASE for delete in rest)
    proof = base_proof(facts, boundary, (*writes, *compared)) if relies else ()
    actions = _in_order(compared, cleared, writes, proof, rest)
    base = boundary.base.entry.path if boundary.base else None
    return StorePlan(facts.store, base, actions, kept_files(fates), findings, waiting)


def _in_order(
    compared: tuple[Attest, ...],
    cleared: tuple[Delete, ...],
    writes: tuple[WriteSnapshot, ...],
    proof: tuple[Attest, ...],
    deletes: tuple[Delete, ...],
) -> tuple[Action, ...]:
    """Returns all actions in the order in which they must happen (S7).

    1. A comparison that fails stops the store before anything is changed.
    2. Files that would spoil a new snapshot are deleted before it is written.
    3. Snapshots are written, and each is read back and proved.
    4. The base is proved if that has not happened yet.
    5. Files that the base replaces, and files that nothing needs, are deleted.
    """
    return (*compared, *cleared, *writes, *proof, *deletes)


# -- a partition that a repartition has left behind


def decide_old(
    store: Store, checkpoint: Checkpoint, window: Window, findings: tuple[Finding, ...]
) -> StorePlan:
    """Returns the plan of a partition that the newest batch no longer has.

    It is kept whole while a restart may need it: until no batch in the commit log has the partition
    and its newest version is below the floor.
    """
    if damaged(findings):
        return halt(store, findings)
    requested = any(checkpoint.asks(store.id, version_of(batch)) for batch in checkpoint.batches)
    newest = max(store.versions.all, default=0)
    keeps = window.hold
    if not keeps and (requested or newest >= window.floor):
        keeps = KeepReason.OLD_PARTITION
    deletes, kept = [], []
    for file in store.files:
        if isinstance(file, UnknownFile):
            kept.append(Kept(file.entry, KeepReason.UNKNOWN))
        elif keeps or not window.is_older(file.entry, window.policy.orphan_age):
            kept.append(Kept(file.entry, keeps or KeepReason.YOUNG))
        else:
            side = isinstance(file, ChecksumFile)
            reason = DeleteReason.ORPHAN_SIDE if side else DeleteReason.OLD_PARTITION
            deletes.append(Delete(store.id, file.version, file.entry, reason))
    actions = tuple(sorted(deletes, key=lambda delete: delete.order))
    due_here = _waiting(store, window, WithheldReason.OLD_PARTITION)
    waiting = tuple(it for it in due_here if checkpoint.asks(store.id, it.version))
    return StorePlan(store, None, actions, tuple(kept), findings, waiting)
