"""From a store's plan and its outcomes to its report."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import assert_never

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.findings import Finding
from statemaint.model.proof import Attestation
from statemaint.plan.actions import Delete, StorePlan, Wait, Withheld, WriteSnapshot
from statemaint.plan.reasons import KeepReason, WithheldReason
from statemaint.plan.snapshots import withheld
from statemaint.report.outcome import (
    Attested,
    Deleted,
    Halted,
    Outcome,
    Skipped,
    SnapshotWritten,
    StoreOutcome,
    StoreReport,
)

_LATER = (KeepReason.GRACE, KeepReason.LIMIT)


def summarize(plan: StorePlan, outcomes: Iterable[Outcome], target: int | None) -> StoreReport:
    happened = tuple(outcomes)
    return StoreReport(
        before=plan.store,
        after=_after_all(plan.store, happened),
        state=StoreOutcome.HALTED if plan.halted else _state(happened),
        outcomes=happened,
        findings=plan.findings + tuple(_new_findings(plan, happened)),
        target=target,
        reclaimable=_reclaimable(plan, happened),
        withheld=plan.withheld + tuple(_not_reached(plan, happened)),
    )


def _after_all(store: Store, outcomes: Iterable[Outcome]) -> Store:
    for deleting, some in groupby(outcomes, lambda one: isinstance(one, Deleted)):
        if deleting:  # in one pass, however many there are
            store = _without(store, {one.action.entry for one in some if isinstance(one, Deleted)})
        else:
            store = reduce(_after, some, store)
    return store


def _after(store: Store, outcome: Outcome) -> Store:
    match outcome:
        case SnapshotWritten(attestation=attestation):
            return _attested(_grown(store, outcome), attestation)
        case Attested(attestation=attestation):
            return _attested(store, attestation)
        case Deleted() | Halted() | Skipped():  # `_after_all` removes deleted files
            return store
        case _:
            assert_never(outcome)


def _grown(store: Store, outcome: SnapshotWritten) -> Store:
    new = {file.entry.path for file in outcome.files}
    kept = (file for file in store.files if file.entry.path not in new)
    rocks = store.rocks and store.rocks.with_parts(outcome.entry.path, outcome.refers)
    return replace(store, files=(*kept, *outcome.files), rocks=rocks)


def _attested(store: Store, attestation: Attestation | None) -> Store:
    if attestation is None:
        return store
    others = (one for one in store.attestations if one.path != attestation.path)
    attestations = sorted((*others, attestation), key=lambda one: one.version)
    outdated = tuple(one for one in store.outdated if one.path != attestation.path)
    return replace(store, attestations=tuple(attestations), outdated=outdated)


def _without(store: Store, deleted: set[Entry]) -> Store:
    paths = {entry.path for entry in deleted}
    files = tuple(file for file in store.files if file.entry not in deleted)
    attestations = tuple(one for one in store.attestations if one.path not in paths)
    outdated = tuple(one for one in store.outdated if one.path not in paths)
    return replace(store, files=files, attestations=attestations, outdated=outdated)


def _state(outcomes: tuple[Outcome, ...]) -> StoreOutcome:
    if any(isinstance(one, Halted) for one in outcomes):
        return StoreOutcome.HALTED
    if any(isinstance(one, Skipped) for one in outcomes):
        return StoreOutcome.SKIPPED
    return StoreOutcome.DONE


def _new_findings(plan: StorePlan, outcomes: tuple[Outcome, ...]) -> list[Finding]:
    findings = [one.finding for one in outcomes if isinstance(one, Halted | Skipped)]
    return [one for one in findings if one is not None and one not in plan.findings]


def _not_reached(plan: StorePlan, outcomes: tuple[Outcome, ...]) -> Iterator[Withheld]:
    """Yields the planned snapshots that a run did not write, because the store was left."""
    end = next((one for one in outcomes if isinstance(one, Halted | Skipped)), None)
    if end is None:
        return
    written = {one.action.path for one in outcomes if isinstance(one, SnapshotWritten)}
    for action in plan.actions:
        if isinstance(action, WriteSnapshot) and action.path not in written:
            loaded = plan.store.versions.chain(action.version)
            chain = loaded if isinstance(loaded, Chain) else action.chain
            yield withheld(plan.store, chain, action.reason, Wait(_reason(end)))


def _reason(end: Halted | Skipped) -> WithheldReason:
    if isinstance(end, Halted):
        return WithheldReason.HALTED
    return WithheldReason.MOVED_ON if end.finding else WithheldReason.OUT_OF_TIME


def _reclaimable(plan: StorePlan, outcomes: tuple[Outcome, ...]) -> int:
    """Returns the bytes that wait to be deleted: for grace, the limit, or this plan's run."""
    deleted = {one.action.entry for one in outcomes if isinstance(one, Deleted)}
    waiting = {kept.entry for kept in plan.kept if kept.reason in _LATER}
    waiting |= {one.entry for one in plan.actions if isinstance(one, Delete)}
    return sum(entry.size for entry in waiting - deleted)
