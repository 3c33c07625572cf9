"""The snapshots that a run writes into a store, and the chains that they are folded from. Pure."""

from statemaint.model.chain import Chain, Versions, lone_checksum_files
from statemaint.model.files import ChecksumFile, spark_checksums
from statemaint.plan.actions import SnapshotReason, WriteSnapshot
from statemaint.plan.facts import Facts
from statemaint.plan.sst_files import may_share, overtakes


def snapshots_due(facts: Facts) -> tuple[WriteSnapshot, ...]:
    """Returns the snapshots to write: that of the target, then that of the floor.

    The target comes first. If the floor's snapshot already existed, the target's chain could look
    short, and a run interrupted between the two would end differently from an uninterrupted one.
    """
    target, floor = facts.window.target, facts.floor
    due = ((target, _target_reason(facts)), (floor, _floor_reason(facts)))
    return tuple(_write(facts, version, reason) for version, reason in due if reason)


def _target_reason(facts: Facts) -> SnapshotReason | None:
    """Returns why the target gets a snapshot; `None` if it gets none."""
    target = facts.window.target
    length = _length(facts, target)
    if not length or not _may_write(facts, target):
        return None
    if _is_long(facts, length):
        return SnapshotReason.CHAIN_TOO_LONG
    return SnapshotReason.FORCED if facts.window.force_snapshot else None


def _floor_reason(facts: Facts) -> SnapshotReason | None:
    """Returns why the floor gets a snapshot: a neglected store shrinks in this run."""
    if not facts.window.policy.rebase or facts.floor == facts.window.target:
        return None
    long = _is_long(facts, _length(facts, facts.floor))
    return SnapshotReason.REBASE if long and _may_write(facts, facts.floor) else None


def _length(facts: Facts, version: int) -> int:
    """Returns the number of deltas that a restart at a version reads."""
    return len(_chain(facts.versions, version).deltas)


def _is_long(facts: Facts, length: int) -> bool:
    """Returns whether a chain is due for a snapshot. Spark's two providers differ by one."""
    least = facts.window.policy.min_deltas_for_snapshot + (facts.store.rocks is None)
    return length >= least


def _may_write(facts: Facts, version: int) -> bool:
    """Returns whether the log is right at a version, and nothing is in the way of its snapshot.

    A partition without rows needs no zip to name its families, and none can be written.
    """
    return not (
        version in facts.doubted
        or facts.store.unnamed
        or _is_taken(facts, facts.store.snapshot_path(version))
        or _overtakes(facts, version)
        or _is_condemned(facts, version)
    )


def _is_taken(facts: Facts, path: str) -> bool:
    """Returns whether a kept file has the path: only a stale snapshot is cleared away.

    A zip that lacks an SST file is in the way of a whole one.
    """
    if path in facts.stale and facts.window.hold is None:
        return False
    return any(file.entry.path == path for file in facts.store.files)


def _overtakes(facts: Facts, version: int) -> bool:
    window = facts.window
    return overtakes(
        facts.store, version, window.required, window.target, window.newest, window.forced
    )


def _is_condemned(facts: Facts, version: int) -> bool:
    """Returns whether a checksum that outlived its snapshot would condemn the new one.

    It is deleted first. While it is too young to be deleted as an orphan, the snapshot waits.
    """
    return any(facts.window.guard(side.entry) for side in checksums_left_of(facts, version))


def checksums_left_of(facts: Facts, version: int) -> tuple[ChecksumFile, ...]:
    """Returns the checksum files of a version's snapshot if the snapshot is missing."""
    path = facts.store.snapshot_path(version)
    return tuple(one for one in lone_checksum_files(facts.store.files) if one.owner == path)


def _write(facts: Facts, version: int, reason: SnapshotReason) -> WriteSnapshot:
    """Returns the action that writes the snapshot of a version.

    It is folded from the log as far as the log still exists. A snapshot that was never compared
    with the log could be wrong, and the log that it hides may be deleted in reliance on the new
    one.
    """
    from_log = facts.versions.from_log(version, proved=facts.proved)
    chain = from_log or _chain(facts.versions, version)
    rocks = facts.store.rocks
    return WriteSnapshot(
        facts.store.id,
        facts.store.snapshot_path(version),
        chain,
        reason,
        checksum=_has_checksum(facts, chain),
        id=rocks.id_at(version) if rocks else None,
        families=facts.versions.base(version) if rocks else None,
        reuse=_may_reuse(facts, chain),
    )


def _has_checksum(facts: Facts, chain: Chain) -> bool:
    """Returns whether the newest change of a chain has a checksum file: the query writes them."""
    return chain.deltas[-1].entry.path in spark_checksums(facts.store.files)


def _may_reuse(facts: Facts, chain: Chain) -> bool:
    """Returns whether a new zip may name SST files of its base."""
    newest = chain.version == facts.window.target
    return newest and not facts.uploading and may_share(facts.store, chain)


def _chain(versions: Versions, version: int) -> Chain:
    chain = versions.chain(version)
    if not isinstance(
        chain, Chain
    ):  # pragma: no cover -- facts are gathered of loadable versions only
        raise TypeError(chain)
    return chain
