"""The snapshots that a run writes into a store, and those that it compares with the log. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import count

from statemaint.model.chain import Chain, Versions, lone_checksum_files
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import ChecksumFile, Snapshot, spark_checksums
from statemaint.model.policy import Policy
from statemaint.model.restart_time import (
    Forecast,
    Load,
    after_snapshot,
    load_seconds,
    replay_of_chain,
    replay_seconds,
)
from statemaint.plan.actions import Attest, Wait, Window, Withheld, WriteSnapshot
from statemaint.plan.facts import Boundary, Facts
from statemaint.plan.reasons import AttestReason, KeepReason, SnapshotReason, WithheldReason
from statemaint.plan.sst_files import may_share, overtakes, quiet_from

BY_LENGTH, NEVER = -1.0, 1e18  # values of `snapshots_from`
_WELL_BELOW = 0.75


def due(
    store: Store, versions: Versions, window: Window, floor: int
) -> Iterator[tuple[SnapshotReason, Chain]]:
    """Yields the chains that are due for a snapshot: that of the target, then that of the floor.

    If the floor's snapshot existed first, the target's chain could look short, and a run that is
    interrupted between the two would end differently. The floor's lets a neglected store shrink.
    """
    chain = versions.chain(window.target)
    if isinstance(chain, Chain) and _is_long(store, window, chain):
        limited = window.snapshots_from >= 0
        yield SnapshotReason.RESTART_TOO_LONG if limited else SnapshotReason.CHAIN_TOO_LONG, chain
    elif isinstance(chain, Chain) and chain.deltas and window.force_snapshot:
        yield SnapshotReason.FORCED, chain
    rebased = versions.chain(floor) if window.policy.rebase and floor != window.target else None
    if isinstance(rebased, Chain) and _is_long(store, window, rebased, floor=True):
        yield SnapshotReason.REBASE, rebased


def snapshots_due(facts: Facts) -> Iterator[WriteSnapshot | Withheld]:
    for reason, chain in due(facts.store, facts.versions, facts.window, facts.floor):
        if wait := _wait(facts, chain.version):
            yield withheld(facts.store, chain, reason, wait)
        else:
            yield _write(facts, chain, reason)


def withheld(store: Store, chain: Chain, reason: SnapshotReason, wait: Wait) -> Withheld:
    deltas, seconds = len(chain.deltas), load_seconds(store, chain)
    return Withheld(store.id, chain.version, reason, deltas, seconds, wait)


def _is_long(store: Store, window: Window, chain: Chain, *, floor: bool = False) -> bool:
    """Returns whether a chain is due for a snapshot. Spark's two providers differ by one.

    Where a limit of the restart decides, a later snapshot of the target replaces the floor's base.
    """
    if window.snapshots_from >= 0:
        slow = replay_seconds(store, chain) >= window.snapshots_from
        return slow and bool(chain.deltas) and not (floor and chain.base)
    return len(chain.deltas) >= window.policy.min_deltas_for_snapshot + (store.rocks is None)


def _wait(facts: Facts, version: int) -> Wait | None:
    """Returns what a snapshot waits for; `None` if it may be written.

    The log must be right at its version, and nothing may be in its way. A partition without rows
    needs no zip to name its families, and without their names none can be written.
    """
    if version in facts.doubted:
        # The target and the floor advance together, and so does the version.
        undoubted = next(number for number in count(version) if number not in facts.doubted)
        return Wait(WithheldReason.LOG_IN_DOUBT, facts.window.target + undoubted - version)
    if facts.store.unnamed:
        return Wait(WithheldReason.UNNAMED)
    if facts.store.unsettled:
        return Wait(WithheldReason.UNSETTLED)
    if taken := _taken(facts, facts.store.snapshot_path(version)):
        return Wait(taken)
    if overtakes(facts.store, version, facts.window):
        return Wait(WithheldReason.EXECUTORS, quiet_from(facts.store))
    return _condemned(facts, version)


def _taken(facts: Facts, path: str) -> WithheldReason | None:
    """Returns why a file keeps the path of a snapshot: only a stale snapshot is cleared away."""
    hold = facts.window.hold
    if not any(file.entry.path == path for file in facts.store.files):
        return None
    if path not in facts.stale:
        return WithheldReason.NAME_TAKEN
    return WithheldReason(hold.value) if hold else None


def _condemned(facts: Facts, version: int) -> Wait | None:
    """Returns the wait for the deletion of a checksum that outlived its snapshot.

    It would condemn a new one, and may be too young to be deleted as an orphan.
    """
    for side in checksums_left_of(facts, version):
        guard, written = facts.window.guard(side.entry), side.entry.modified
        if guard is KeepReason.YOUNG:
            old = None if written is None else written + facts.window.policy.orphan_age
            return Wait(WithheldReason.YOUNG_CHECKSUM, time=old)
        if guard:
            return Wait(WithheldReason(guard.value))
    return None


def checksums_left_of(facts: Facts, version: int) -> tuple[ChecksumFile, ...]:
    """Returns the checksum files of a version's snapshot if the snapshot is missing."""
    path = facts.store.snapshot_path(version)
    return tuple(side for side in lone_checksum_files(facts.store.files) if side.owner == path)


def _write(facts: Facts, loaded: Chain, reason: SnapshotReason) -> WriteSnapshot:
    """Returns the write of a version's snapshot, given the chain that it loads from.

    It is folded from the log as far as that exists: a snapshot that was never compared with the log
    could be wrong, and the log that it hides may be deleted in reliance on the new one.
    """
    version, store = loaded.version, facts.store
    chain = facts.versions.from_log(version, proved=facts.proved) or loaded
    base = facts.versions.base(version) if store.rocks else None
    newest = version == facts.window.target
    reuse = newest and not facts.uploading and may_share(store, chain)
    write = written(store, chain, reason, base or store.families_at(version))
    return replace(write, reuse=reuse)


def written(
    store: Store, chain: Chain, reason: SnapshotReason, families: Snapshot | None
) -> WriteSnapshot:
    """Returns the write of a store's snapshot; it has a checksum if its newest change has one."""
    return WriteSnapshot(
        store.id,
        store.snapshot_path(chain.version),
        chain,
        reason,
        checksum=chain.deltas[-1].entry.path in spark_checksums(store.files),
        id=store.rocks.id_at(chain.version) if store.rocks else None,
        families=families,
    )


# -- the snapshots that keep a restart within the policy's limit (`restart_within`)


def forecast_of(checkpoint: Checkpoint, policy: Policy) -> Forecast:
    return Forecast.of(checkpoint, policy.restart_slots, policy.restart_percent)


def snapshots_from(
    checkpoint: Checkpoint, stores: Iterable[Store], policy: Policy, target: int
) -> float:
    """Returns the seconds of replay from which a chain is due for a snapshot.

    Nothing is due while the forecast is within the limit. When it passes it, the chains that take
    longest are due, until the forecast is well below: the next runs then have nothing to write. A
    limit that no snapshot can keep leaves the decision to the length of each chain.
    """
    limit, forecast = policy.restart_within, forecast_of(checkpoint, policy)
    if limit is None:
        return BY_LENGTH
    chains = ((store, store.versions.chain(target)) for store in stores)
    found = [(store, chain) for store, chain in chains if isinstance(chain, Chain)]
    works = [replay_of_chain(store, chain, forecast.record) for store, chain in found]
    if forecast.seconds(Load.of(works)).high <= limit:
        return NEVER
    least = [after_snapshot(work, forecast.record) for work in works]
    if forecast.seconds(Load.of(least)).high > limit:
        return BY_LENGTH
    replays = [replay_seconds(store, chain) for store, chain in found]
    slowest = sorted(range(len(found)), key=lambda number: -replays[number])
    # Some of many, from the first to the last: to try each would take their square.
    for number in slowest[:: max(1, len(slowest) // 50)]:
        cut = replays[number]
        trial = zip(works, least, replays, strict=True)
        left = (after if replay >= cut else work for work, after, replay in trial)
        if forecast.seconds(Load.of(left)).high <= _WELL_BELOW * limit:
            return cut
    return min((replay for replay in replays if replay), default=NEVER)


# -- the comparisons of snapshots with the log before a store relies on them (S6)


def comparisons(facts: Facts, writes: Collection[WriteSnapshot]) -> Iterator[Attest]:
    """Yields the comparisons that come before every other action.

    Snapshots whose log was replaced come first: either of the two may be wrong. Snapshots that we
    wrote and a run left without a proof follow, where a new snapshot would be folded past them or
    a restart would begin with them, and the newest of executors after a base that nothing proves.
    """
    store, versions, disputed = facts.store, facts.versions, set()
    for suspect in facts.judgement.disputed:
        disputed.add(suspect.path)
        doubts = tuple(versions.deltas[version].entry for version in suspect.doubts)
        reason = AttestReason.LOG_REPLACED
        yield Attest(store.id, suspect.snapshot, suspect.instead, reason, doubts, suspect.why)
    newest, ours = versions.base(facts.window.target), store.ours
    for version, snapshot in sorted(versions.snapshots.items()):
        if version not in facts.proved and snapshot.entry.path not in disputed:
            # The run that wrote ours was killed, or found the written snapshot to be wrong.
            is_ours = snapshot.entry.path in ours
            if is_ours or snapshot == newest:
                yield from _of_unproved(facts, snapshot, writes, ours=is_ours)


def _of_unproved(
    facts: Facts, snapshot: Snapshot, writes: Collection[WriteSnapshot], *, ours: bool
) -> Iterator[Attest]:
    """Yields the comparison of an unproved snapshot if it is due.

    With nothing left to compare it with, it is read only if a fold leads past it. So is the newest
    one of executors, if the fold begins with one that was compared with nothing either: one of the
    two may be wrong, and Spark would have begun with the newest.
    """
    past = [write for write in writes if write.chain.start < snapshot.version < write.version]
    compared = facts.proved & {proof.version for proof in facts.store.attestations if proof.files}
    unsure = any(write.chain.start and write.chain.start not in compared for write in past)
    over = bool(past) if ours else unsure
    if over or (ours and _begins_restart(facts, snapshot)):
        against = facts.versions.from_log(snapshot.version, proved=facts.proved)
        if over or against:
            yield Attest(facts.store.id, snapshot, against, AttestReason.NEVER_PROVED)


def _begins_restart(facts: Facts, snapshot: Snapshot) -> bool:
    """Returns whether a restart may begin with a snapshot that is certainly ours.

    A dozen that executors wrote in an HDFS-backed store before our first write may count as ours,
    too. Of these only the newest is compared.
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
    """Returns the comparison of the base that deletions rely on, unless it is or will be proved."""
    base = boundary.base
    paths = {action.path for action in planned}
    if base is None or base.entry.path in paths or base.version in facts.proved:
        return ()
    against = facts.versions.from_log(base.version, proved=facts.proved)
    edited = {proof.path: proof.replaced for proof in facts.judgement.edited}
    return (Attest(facts.store.id, base, against, doubts=edited.get(base.entry.path, ())),)
