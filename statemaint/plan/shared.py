"""What may go of the files that snapshots of RocksDB share, and when executors forbid it (S9).

An executor keeps its database on local disk and uploads a snapshot of it now and then: what is new
since the last one, and a zip that also names tables which it had loaded or uploaded before. Until
then nobody else knows that it needs those. Whoever deletes them meanwhile spoils the zip that is
about to come (SPARK-55892 was that, among executors). So while executors upload snapshots, neither
a zip nor a table goes, whatever refers to it; they clean up after themselves.
"""

from collections.abc import Iterable, Mapping

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Rocks, Store
from statemaint.model.files import Snapshot
from statemaint.model.uploads import Uploads
from statemaint.plan.actions import DeleteReason, KeepReason, WriteSnapshot
from statemaint.plan.uploads import observed

# Executors snapshot every ten versions unless they are told otherwise; twice that without one is
# silence. Where their own zips lie further apart, so must the silence be longer.
_LEAST_QUIET = 20

Fate = KeepReason | DeleteReason


def executors_upload(store: Store, required: int, target: int) -> bool:
    """Tells whether an executor may hold a snapshot that it has not uploaded yet.

    Nothing is known of executors before we have seen them for a while. Without changelogs there is
    no such snapshot: each batch uploads its own before it ends.
    """
    if store.rocks is None or store.snapshot_per_batch(required, target):
        return False
    uploads = observed(store)
    quiet = _quiet(uploads)
    if store.since is None or target - store.since < quiet:
        return True
    return any(target - one.version < quiet for one in uploads.newest)


def settled(store: Store, target: int) -> int:
    """Returns the version below which no executor has begun with any zip, if it has not ended.

    Silence is no proof: a query that is restarted may begin to upload. What it uploads first names
    tables of the newest zip that it found, and that is never older than one that we had proved
    before so many versions.
    """
    quiet, listed = _quiet(observed(store)), {file.entry.path: file.entry for file in store.files}
    proved = (one for one in store.attestations if one.path in listed)
    return max(
        (
            one.version
            for one in proved
            if one.covers(listed[one.path])
            and one.target is not None
            and target - one.target >= quiet
        ),
        default=0,
    )


def _quiet(uploads: Uploads) -> int:
    # The time since their last one is no gap yet: silence would have to last longer than itself.
    return max(_LEAST_QUIET, 2 * uploads.widest_gap)


def may_share(store: Store, chain: Chain) -> bool:
    """Returns whether a new zip may name tables of its base, whatever executors clean up.

    `RocksDBFileManager.deleteOldVersions` lists the zips, and deletes tables that only zips below
    the oldest one that it keeps refer to, however long after. It never saw the new zip. It keeps
    the newest one that it saw; so the tables of that one, whichever it was, are safe, and what a
    later newest zip shares with it.
    """
    zips = (file.version for file in store.files if isinstance(file, Snapshot))
    newest = max(zips, default=0)
    return store.rocks is not None and chain.base is not None and chain.start == newest


def overtakes(
    store: Store,
    version: int,
    required: int,
    target: int,
    newest: int,
    forced: frozenset[int] = frozenset(),
) -> bool:
    """Returns whether a new zip could make Spark delete what an executor's next one refers to.

    `RocksDBFileManager.deleteOldVersions` takes every zip for an executor's. It keeps the newest
    one that lies as far below the newest of all as versions are retained, and deletes those below,
    with their tables. An executor's next zip refers to tables of the one it last loaded or
    uploaded, and before SPARK-55892 was fixed nothing checks that they are still there. Until it
    comes, a new executor of the same partition may upload as well, and move the window on; where
    many versions are retained the late one comes long before that matters.

    Where there is any zip to delete, tables go as well that no zip names and that are older than
    all that one names: those of an executor whose zip another one uploaded again. So the lowest zip
    is never ours.

    Args:
        store: the store.
        version: of the zip that would be written.
        required: the oldest version that the commit log asks for.
        target: the newest version that may get a zip.
        newest: the newest committed version.
        forced: the operators whose first batch has to write a zip: 1.zip is no habit there.
    """
    if store.rocks is None or store.snapshot_per_batch(required, newest):
        return False
    found = [one for one in store.files if isinstance(one, Snapshot)]
    zips = {one.version for one in found}
    theirs = {one.version for one in found if one.entry.path not in store.rocks.ours}
    quiet, retained = _quiet(observed(store)), newest - required
    if not theirs or newest - max(theirs) >= quiet:
        return False
    kept = max(_begun(zips, max(theirs)), _kept(zips, max(zips), retained))
    if version < kept and not any(one < kept for one in zips):
        return True
    later = {*zips, version, target, newest}  # the target and the newest may get a zip as well
    if _kept(later, max(later), retained) > kept:
        return True
    return any(
        _kept(theirs, now, retained) <= held < _kept({*zips, version}, now, retained)
        for now in range(newest, newest + _LEAST_QUIET)
        for one in theirs
        for held in (one, _begun(zips, one))
        if now - one < quiet and not (one == 1 and store.id.operator in forced)
    )


def _begun(zips: set[int], uploaded: int) -> int:
    """Returns the version that an executor has begun with which uploaded a zip.

    It may have uploaded it for a batch that failed, and begun again at the one below.
    """
    return max((one for one in zips if one < uploaded), default=uploaded)


def _kept(zips: set[int], newest: int, retained: int) -> int:
    """Returns the version of the oldest zip that Spark's clean-up keeps; 0 where it keeps all."""
    return max((one for one in zips if one <= newest - retained + 1), default=0)


def shared_fate(
    rocks: Rocks, path: str, snapshots: Mapping[str, Fate], writes: Iterable[WriteSnapshot]
) -> KeepReason | None:
    """Returns why a shared file is needed, given what becomes of every snapshot of its store.

    A zip that is about to be written may refer to whatever its base refers to. What it leaves out
    the next run finds.
    """
    kept = [one for one, fate in snapshots.items() if isinstance(fate, KeepReason)]
    bases = [one.chain.base.entry.path for one in writes if one.reuse and one.chain.base]
    if any(path in rocks.parts.get(one, ()) for one in (*kept, *bases)):
        return KeepReason.USED
    # It may be the very one that needs it.
    return KeepReason.UNREADABLE if rocks.unreadable & set(kept) else None


def last_user(rocks: Rocks, path: str, snapshots: Mapping[str, Fate]) -> DeleteReason:
    """Returns why a shared file that no kept snapshot needs is there at all."""
    users = (one for one, fate in snapshots.items() if fate is DeleteReason.BELOW_BASE)
    used = any(path in rocks.parts.get(one, ()) for one in users)
    return DeleteReason.UNUSED_SST if used else DeleteReason.ORPHAN_SST


def snapshots_of(fates: Mapping[Entry, Fate], files: Iterable[object]) -> dict[str, Fate]:
    """Returns what becomes of each snapshot among some files, by path."""
    return {file.entry.path: fates[file.entry] for file in files if isinstance(file, Snapshot)}
