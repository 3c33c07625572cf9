"""The shared files of RocksDB that executors may still need (S9).

An executor keeps its database on local disk and uploads a snapshot of it periodically: the SST
files that are new since its last one, and a zip that also names SST files that it loaded or
uploaded before. Until that zip is in storage, nothing in the checkpoint shows that it needs those.
If they are deleted in the meantime, the zip cannot be loaded (SPARK-55892 was this case, among
executors). So while executors upload snapshots, no zip and no SST file is deleted, whichever
snapshots refer to it; executors clean up after themselves.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.rocks import Uploads, oldest_kept
from statemaint.plan.actions import Window
from statemaint.plan.uploads import observed

# Executors snapshot every ten versions by default; twice that without one of their zips is silence.
# If their zips are further apart, the silence has to be longer.
_LEAST_QUIET = 20


def executors_upload(store: Store, window: Window) -> bool:
    """Returns whether an executor may hold a snapshot that it has not uploaded yet.

        version     30       40       50                              70
        theirs      30.zip   40.zip   50.zip
                             |- gap -||------- quiet window ---------|
        the answer  yes ........................................ yes | no

    The quiet window is 20 versions, or twice the widest gap that executors ever left between two
    of their zips. It begins again with each of their zips, and with our first look at the store:
    what they did before is unknown.

    If every batch uploads its own zip before it ends, no executor holds one back.
    """
    target = window.target
    if store.rocks is None or store.snapshot_per_batch(window.required, target):
        return False
    uploads = observed(store)
    quiet = _quiet(uploads)
    if store.since is None or target - store.since < quiet:
        return True
    return any(target - upload.version < quiet for upload in uploads.newest)


def settled(store: Store, window: Window) -> int:
    """Returns the version below which no running executor has begun with a zip; 0 if unknown.

        version     10       40     45                              65
        zips        10.zip   40.zip
                                    a run proves 40.zip             target
                                    |------- quiet window ---------|

        executor A  began with 10.zip before 45: by 65 it has uploaded a zip, or ended
        executor B  began after 45: with 40.zip, or a newer one

    Here the answer is 40: no future zip names SST files of a zip below it. Silence alone does not
    show this. A restarted query may upload again, and its first zip names SST files of the newest
    zip that it found, however long executors were silent before.
    """
    last = window.target - _quiet(observed(store))
    listed = {file.entry for file in store.files}
    proofs = (proof for proof in store.attestations if proof.entry in listed)
    early = (proof.version for proof in proofs if proof.target is not None and proof.target <= last)
    return max(early, default=0)


def _quiet(uploads: Uploads) -> int:
    """Returns the number of versions without an upload after which executors count as silent.

    The versions since their newest zip are not a gap: the silence would have to last longer than
    itself.
    """
    return max(_LEAST_QUIET, 2 * uploads.widest_gap)


def may_share(store: Store, chain: Chain) -> bool:
    """Returns whether a new zip may name SST files of its base, whatever executors clean up.

        version      40           50            60
        zips         40.zip       50.zip        60.zip, ours
                     a clean-up lists 40 and 50
                     it keeps the newest that it listed, 50, with its SST files
                     it deletes SST files of 40.zip, however much later, and never saw 60.zip

    So 60.zip may name SST files of 50.zip, the newest when it is written, and of no other. Mirrors
    `RocksDBFileManager.deleteOldVersions`.
    """
    newest = max((zip_.version for zip_ in store.snapshots), default=0)
    return store.rocks is not None and chain.base is not None and chain.start == newest


@dataclass(frozen=True, slots=True)
class _Zips:
    """The zips of a store by version, and the number of versions that Spark's clean-up retains."""

    all: frozenset[int]
    theirs: frozenset[int]
    retained: int

    @property
    def kept(self) -> int:
        """Returns the version of a zip that Spark does not delete as long as we write nothing.

        It is the oldest zip that a clean-up would keep now, or, if that is newer, the one that
        the executors' newest zip was made from.
        """
        oldest = oldest_kept(self.all, max(self.all), self.retained)
        return max(_begun(self.all, max(self.theirs)), oldest)


def overtakes(store: Store, version: int, window: Window) -> bool:
    """Returns whether a new zip could make Spark delete files that an executor's next zip names.

    `RocksDBFileManager.deleteOldVersions` takes every zip for an executor's. Of the zips at or
    below the oldest retained version, it keeps the newest and deletes the others with their SST
    files. With five retained versions, once an executor has uploaded 64.zip:

        version        50        57        60        64        64 - 5 + 1 = 60
        theirs         50.zip    57.zip              64.zip
        without ours   deleted   kept                kept
        with 60.zip    deleted   deleted   kept      kept

    The executor that uploaded 57.zip continues from it: its next zip names SST files of 57.zip, and
    before the fix of SPARK-55892 nothing checks that these still exist. Before that zip is
    uploaded, another executor of the partition may upload 64.zip. If many versions are retained,
    the late zip is uploaded long before that matters.
    """
    newest = window.newest
    if store.rocks is None or store.snapshot_per_batch(window.required, newest):
        return False
    versions = frozenset(zip_.version for zip_ in store.snapshots)
    theirs = frozenset(file.version for file in store.theirs)
    zips, quiet = _Zips(versions, theirs, newest - window.required), _quiet(observed(store))
    if not theirs or newest - max(theirs) >= quiet:
        return False
    planned = versions | {version, window.target, newest}  # the last two may also get a zip
    if _is_lowest(zips, version) or oldest_kept(planned, max(planned), zips.retained) > zips.kept:
        return True
    # A zip that the first batch has to write shows no habit.
    habit = theirs - {1} if store.id.operator in window.forced else theirs
    return any(
        _takes_the_place(zips, version, now, {it for it in habit if it > now - quiet})
        for now in range(newest, newest + _LEAST_QUIET)
    )


def quiet_from(store: Store) -> int:
    """Returns the committed version from which on no zip of ours overtakes executors' zips.

    That is the end of the quiet window after the newest of them, if none is uploaded before.
    """
    return max((file.version for file in store.theirs), default=0) + _quiet(observed(store))


def _is_lowest(zips: _Zips, version: int) -> bool:
    """Returns whether a new zip would be the only one that a clean-up has to delete.

    With any zip it also deletes the SST files that no zip names and that are older than all that
    one names: those of an executor whose zip another executor uploaded again. So the lowest zip is
    never ours.
    """
    return version < zips.kept and zips.kept <= min(zips.all)


def _takes_the_place(zips: _Zips, version: int, now: int, uploaded: Iterable[int]) -> bool:
    """Returns whether a clean-up keeps our zip instead of the one that an executor continues from.

    `now` is the version of the newest zip when the clean-up happens, and `uploaded` has the zips
    whose executors may upload another one.
    """
    before = oldest_kept(zips.theirs, now, zips.retained)
    after = oldest_kept(zips.all | {version}, now, zips.retained)
    held = (base for zip_ in uploaded for base in (zip_, _begun(zips.all, zip_)))
    return any(before <= base < after for base in held)


def _begun(zips: frozenset[int], uploaded: int) -> int:
    """Returns the version that an executor began with before it uploaded a zip.

    It may have uploaded the zip for a batch that failed, and begun again at that version.
    """
    return max((version for version in zips if version < uploaded), default=uploaded)
