"""The decision for one store, step by step. Each step reads only the steps before it.

Step         Result                                 Module
facts        the known facts                        statemaint.plan.facts
snapshots    the snapshots to write or to withhold  statemaint.plan.snapshots
comparisons  the comparisons before all else        statemaint.plan.comparisons
boundary     the version to delete files below      statemaint.plan.facts
fates        the fate of each file, with a reason   statemaint.plan.fates
deletions    the order of the deletions             statemaint.plan.deletions
"""

from collections.abc import Collection

from statemaint.model.checkpoint import Store
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.plan.actions import (
    Action,
    Attest,
    Delete,
    Kept,
    StorePlan,
    Wait,
    Withheld,
    WriteSnapshot,
)
from statemaint.plan.comparisons import base_proof, comparisons
from statemaint.plan.deletions import clearances, deletions, kept_files
from statemaint.plan.facts import Facts, Window, boundary_of, gather, lowest_loadable
from statemaint.plan.fates import fates_of
from statemaint.plan.reasons import DeleteReason, KeepReason, WithheldReason
from statemaint.plan.snapshots import due, snapshots_due, withheld
from statemaint.plan.staleness import Judgement

# These files may be deleted only because a proved snapshot takes their place.
RELY_ON_BASE = (DeleteReason.BELOW_BASE, DeleteReason.SIDE_FILE, DeleteReason.UNUSED_SST)


def halt(store: Store, findings: tuple[Finding, ...], window: Window | None = None) -> StorePlan:
    """Returns a plan without actions for a store (S16); without a window no snapshot is due."""
    kept = tuple(Kept(file.entry, KeepReason.HALTED) for file in store.files)
    chains = due(store, store.versions, window, window.floor) if window else ()
    wait = Wait(WithheldReason.HALTED)
    waiting = tuple(withheld(store, chain, reason, wait) for reason, chain in chains)
    return StorePlan(store, None, (), kept, findings, waiting)


def decide(
    store: Store, window: Window, findings: tuple[Finding, ...], judgement: Judgement
) -> StorePlan:
    """Returns the plan of a store, with a reason for each of its files."""
    if damaged(findings):
        return halt(store, findings, window)
    versions = judgement.without_stale(store).versions
    floor = lowest_loadable(versions, window)
    if floor is None:
        return halt(store, (*findings, _moved_on(store, window)))
    facts = gather(store, window, judgement=judgement, versions=versions, floor=floor)
    return _decided(facts, findings)


def _moved_on(store: Store, window: Window) -> Finding:
    detail = (
        f"{store.id.directory}: version {window.target} is no longer retained; the query moved on "
        "since this run was planned"
    )
    return Finding(FindingCode.SUPERSEDED, detail, store.id, window.target)


def _decided(facts: Facts, findings: tuple[Finding, ...]) -> StorePlan:
    decisions = snapshots_due(facts)
    writes = tuple(one for one in decisions if isinstance(one, WriteSnapshot))
    waiting = tuple(one for one in decisions if isinstance(one, Withheld))
    compared = tuple(comparisons(facts, writes))
    boundary = boundary_of(facts, writes)
    fates = fates_of(facts, boundary, writes)
    deletes = deletions(facts, fates)
    cleared = clearances(facts, deletes, writes)
    rest = _without(deletes, cleared)
    relies = any(one.reason in RELY_ON_BASE for one in rest)
    proof = base_proof(facts, boundary, (*writes, *compared)) if relies else ()
    actions = _in_order(compared, cleared, writes, proof, rest)
    base = boundary.base.entry.path if boundary.base else None
    return StorePlan(facts.store, base, actions, kept_files(fates), findings, waiting)


def _without(deletes: Collection[Delete], cleared: Collection[Delete]) -> tuple[Delete, ...]:
    entries = {one.entry for one in cleared}
    return tuple(one for one in deletes if one.entry not in entries)


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
