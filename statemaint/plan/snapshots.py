"""The snapshots that a run writes into a store, and the chains that they are folded from. Pure."""

from collections.abc import Iterator

from statemaint.model.chain import Chain, Versions, lone_checksum_files
from statemaint.model.checkpoint import Store
from statemaint.model.files import ChecksumFile, spark_checksums
from statemaint.model.replay import replay_of_chain
from statemaint.plan.actions import Wait, Withheld, WriteSnapshot
from statemaint.plan.facts import Facts, Window
from statemaint.plan.reasons import KeepReason, SnapshotReason, WithheldReason
from statemaint.plan.sst_files import may_share, overtakes, quiet_from

_HOLDS = {
    KeepReason.CLOCK_SKEW: WithheldReason.CLOCK_SKEW,
    KeepReason.VERIFY_OFF: WithheldReason.VERIFY_OFF,
}


def due(
    store: Store, versions: Versions, window: Window, floor: int
) -> Iterator[tuple[SnapshotReason, Chain]]:
    """Yields the chains that are due for a snapshot: that of the target, then that of the floor.

    The target comes first. If the floor's snapshot already existed, the target's chain could look
    short, and a run interrupted between the two would end differently from an uninterrupted one.
    The snapshot of the floor makes a neglected store shrink in this run.
    """
    chain = versions.chain(window.target)
    if isinstance(chain, Chain) and _is_long(store, window, chain):
        yield SnapshotReason.CHAIN_TOO_LONG, chain
    elif isinstance(chain, Chain) and chain.deltas and window.force_snapshot:
        yield SnapshotReason.FORCED, chain
    if not window.policy.rebase or floor == window.target:
        return
    chain = versions.chain(floor)
    if isinstance(chain, Chain) and _is_long(store, window, chain):
        yield SnapshotReason.REBASE, chain


def snapshots_due(facts: Facts) -> tuple[WriteSnapshot | Withheld, ...]:
    """Returns the decision on each due snapshot: it is written, or withheld for a reason."""
    found = due(facts.store, facts.versions, facts.window, facts.floor)
    return tuple(_decided(facts, reason, chain) for reason, chain in found)


def _decided(facts: Facts, reason: SnapshotReason, chain: Chain) -> WriteSnapshot | Withheld:
    wait = _wait(facts, chain.version)
    if wait is None:
        return _write(facts, chain, reason)
    return withheld(facts.store, chain, reason, wait)


def withheld(store: Store, chain: Chain, reason: SnapshotReason, wait: Wait) -> Withheld:
    return Withheld(store.id, chain.version, reason, replay_of_chain(store, chain), wait)


def _is_long(store: Store, window: Window, chain: Chain) -> bool:
    """Returns whether a chain is due for a snapshot. Spark's two providers differ by one."""
    return len(chain.deltas) >= window.policy.min_deltas_for_snapshot + (store.rocks is None)


def _wait(facts: Facts, version: int) -> Wait | None:
    """Returns what a snapshot waits for; `None` if it may be written.

    The log must be right at its version, and nothing may be in its way. A partition without rows
    needs no zip to name its families, and without their names none can be written.
    """
    if version in facts.doubted:
        return Wait(WithheldReason.LOG_IN_DOUBT, _undoubted(facts, version))
    if facts.store.unnamed:
        return Wait(WithheldReason.UNNAMED)
    if facts.store.unsettled:
        return Wait(WithheldReason.UNSETTLED)
    if taken := _taken(facts, facts.store.snapshot_path(version)):
        return Wait(taken)
    if _overtakes(facts, version):
        return Wait(WithheldReason.EXECUTORS, quiet_from(facts.store))
    return _condemned(facts, version)


def _undoubted(facts: Facts, version: int) -> int:
    """Returns the target version at which the log is no longer in doubt where it is at a version.

    The target and the floor advance together.
    """
    end = version
    while end in facts.doubted:
        end += 1
    return facts.window.target + end - version


def _taken(facts: Facts, path: str) -> WithheldReason | None:
    """Returns why a file keeps the path of a snapshot: only a stale snapshot is cleared away.

    A zip that lacks an SST file is in the way of a whole one.
    """
    hold = facts.window.hold
    if not any(file.entry.path == path for file in facts.store.files):
        return None
    if path not in facts.stale:
        return WithheldReason.NAME_TAKEN
    return _HOLDS[hold] if hold else None


def _overtakes(facts: Facts, version: int) -> bool:
    window = facts.window
    return overtakes(
        facts.store, version, window.required, window.target, window.newest, window.forced
    )


def _condemned(facts: Facts, version: int) -> Wait | None:
    """Returns the wait for the deletion of a checksum that would condemn a new snapshot.

    It outlived its snapshot. While it is too young to be deleted as an orphan, the snapshot waits.
    """
    for side in checksums_left_of(facts, version):
        guard, written = facts.window.guard(side.entry), side.entry.modified
        if guard is KeepReason.YOUNG:
            age = facts.window.policy.orphan_age
            return Wait(
                WithheldReason.YOUNG_CHECKSUM, time=None if written is None else written + age
            )
        if guard:
            return Wait(_HOLDS[guard])
    return None


def checksums_left_of(facts: Facts, version: int) -> tuple[ChecksumFile, ...]:
    """Returns the checksum files of a version's snapshot if the snapshot is missing."""
    path = facts.store.snapshot_path(version)
    return tuple(one for one in lone_checksum_files(facts.store.files) if one.owner == path)


def _write(facts: Facts, loaded: Chain, reason: SnapshotReason) -> WriteSnapshot:
    """Returns the action that writes the snapshot of a version, given the chain that it loads from.

    It is folded from the log as far as the log still exists. A snapshot that was never compared
    with the log could be wrong, and the log that it hides may be deleted in reliance on the new
    one.
    """
    version, rocks = loaded.version, facts.store.rocks
    chain = facts.versions.from_log(version, proved=facts.proved) or loaded
    return WriteSnapshot(
        facts.store.id,
        facts.store.snapshot_path(version),
        chain,
        reason,
        checksum=_has_checksum(facts, chain),
        id=rocks.id_at(version) if rocks else None,
        families=facts.versions.base(version) or facts.store.families_at(version)
        if rocks
        else None,
        reuse=_may_reuse(facts, chain),
    )


def _has_checksum(facts: Facts, chain: Chain) -> bool:
    """Returns whether the newest change of a chain has a checksum file: the query writes them."""
    return chain.deltas[-1].entry.path in spark_checksums(facts.store.files)


def _may_reuse(facts: Facts, chain: Chain) -> bool:
    """Returns whether a new zip may name SST files of its base."""
    newest = chain.version == facts.window.target
    return newest and not facts.uploading and may_share(facts.store, chain)
