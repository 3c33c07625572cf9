"""The comparisons of snapshots with the log before a store relies on them (S6). Pure."""

from collections.abc import Collection, Iterator

from statemaint.model.files import Snapshot
from statemaint.plan.actions import Attest, WriteSnapshot
from statemaint.plan.facts import Boundary, Facts
from statemaint.plan.reasons import AttestReason
from statemaint.plan.staleness import Suspect


def comparisons(facts: Facts, writes: Collection[WriteSnapshot]) -> Iterator[Attest]:
    """Yields the comparisons that come before every other action.

    Snapshots whose log was replaced come first: either of the two may be wrong. Snapshots that we
    wrote and a run left without a proof follow, where a new snapshot would be folded past them or
    a restart would begin with them, and the newest of executors after a base that nothing proves.
    """
    yield from (_of_disputed(facts, one) for one in facts.judgement.disputed)
    disputed = {one.path for one in facts.judgement.disputed}
    for snapshot in _unproved(facts):
        if snapshot.entry.path not in disputed:
            yield from _of_unproved(facts, snapshot, writes)


def _of_disputed(facts: Facts, suspect: Suspect) -> Attest:
    doubts = tuple(facts.versions.deltas[version].entry for version in suspect.doubts)
    reason = AttestReason.LOG_REPLACED
    return Attest(facts.store.id, suspect.snapshot, suspect.instead, reason, doubts, suspect.why)


def _unproved(facts: Facts) -> Iterator[Snapshot]:
    """Yields the snapshots without a proof, the lowest first: ours, and the newest one.

    The run that wrote ours was killed, or found the written snapshot to be wrong.
    """
    newest = facts.versions.base(facts.window.target)
    for version, snapshot in sorted(facts.versions.snapshots.items()):
        if version not in facts.proved and (_is_ours(facts, snapshot) or snapshot == newest):
            yield snapshot


def _is_ours(facts: Facts, snapshot: Snapshot) -> bool:
    rocks = facts.store.rocks
    return snapshot.entry.path in (rocks.ours if rocks else facts.store.written)


def _of_unproved(
    facts: Facts, snapshot: Snapshot, writes: Collection[WriteSnapshot]
) -> Iterator[Attest]:
    """Yields the comparison of an unproved snapshot if it is due.

    A snapshot with nothing left to compare it with is read only if a fold leads past it. So is the
    newest one of executors, if the fold begins with one that was compared with nothing either: one
    of the two may be wrong, and Spark would have begun with the newest.
    """
    ours = _is_ours(facts, snapshot)
    past = [one for one in writes if one.chain.start < snapshot.version < one.version]
    compared = facts.proved & {one.version for one in facts.store.attestations if one.files}
    unsure = any(one.chain.start and one.chain.start not in compared for one in past)
    over = bool(past) if ours else unsure
    if over or (ours and _begins_restart(facts, snapshot)):
        against = facts.versions.from_log(snapshot.version, proved=facts.proved)
        if over or against:
            yield Attest(facts.store.id, snapshot, against, AttestReason.NEVER_PROVED)


def _begins_restart(facts: Facts, snapshot: Snapshot) -> bool:
    """Returns whether a restart may begin with a snapshot that is certainly ours.

    Snapshots that were in an HDFS-backed store before our first write also count as ours, and may
    be a dozen that executors wrote. Only the newest of these is compared.
    """
    window, versions, store = facts.window, facts.versions, facts.store
    if not window.policy.verify:
        return False
    lowest, newest = versions.base(window.required), versions.base(window.target)
    first = lowest.version if lowest else 0
    certain = store.rocks is not None or snapshot.version >= (store.since or 0)
    return (certain or snapshot == newest) and first <= snapshot.version <= window.target


def base_proof(
    facts: Facts, boundary: Boundary, planned: Collection[WriteSnapshot | Attest]
) -> tuple[Attest, ...]:
    """Returns the comparison of the base that deletions rely on.

    There is none if the base is already proved or one of the planned actions proves it.
    """
    base = boundary.base
    paths = {one.path for one in planned}
    if base is None or base.entry.path in paths or base.version in facts.proved:
        return ()
    against = facts.versions.from_log(base.version, proved=facts.proved)
    edited = {one.path: one.replaced for one in facts.judgement.edited}
    return (Attest(facts.store.id, base, against, doubts=edited.get(base.entry.path, ())),)
