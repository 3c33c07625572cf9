"""Deletes savepoints that have expired: of each only what its record names.

The record is marked first, so that no run completes the savepoint. Then `metadata` is replaced by
one that no Spark reads: until then the savepoint is whole, from then on no query starts from it.
Spark 3.5 and 4.0 would begin at batch 0 in a state without logs, so this `metadata` stays until
nothing else is left, and the record until the end: a deletion that was killed anywhere is found and
completed by the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from statemaint.errors import Superseded
from statemaint.execute import leased
from statemaint.execute.fence import Fence
from statemaint.records import Holder
from statemaint.records.runs import new_run_id
from statemaint.records.savepoints import (
    METADATA,
    SAVEPOINT,
    SavepointNote,
    true_metadata,
    write_savepoint,
)
from statemaint.savepoint.catalog import Decision, ListedSavepoint, is_own, look
from statemaint.savepoint.keep import SavepointState
from statemaint.storage import Opener, Storage, open_storage

_REFUSED = b"not a query's metadata: statemaint is deleting this savepoint\n"
_PAGE = 1000
_EXPIRE = (SavepointState.WHOLE, SavepointState.UNFINISHED, SavepointState.EXPIRING)


@dataclass(frozen=True, slots=True)
class Expired:
    """What was deleted of a savepoint.

    Attributes:
        address: its address.
        files: the number of its deleted files, without our own about it.
        bytes: their size.
        left: the files that are not the savepoint's. As long as there are any, the record and the
            `metadata` that no Spark reads stay as well.
    """

    address: str
    files: int
    bytes: int
    left: tuple[str, ...] = ()


def carry_out(
    decisions: Sequence[Decision], dest: str, *, opened: Opener = open_storage
) -> Iterator[Expired]:
    """Yields the savepoints that have expired, each once it is deleted; the oldest first.

    A query that began to run from one whose expiry was killed gets back its `metadata`.

    Raises:
        Superseded: as `expire` does; the next call continues.
    """
    for decision in sorted(decisions, key=_begun):
        savepoint = decision.savepoint
        if not decision.reasons:
            yield expire(savepoint, dest, opened=opened)
        elif savepoint.is_half_expired and savepoint.note:
            restore(opened(savepoint.address), savepoint.note)


def _begun(decision: Decision) -> float:
    note = decision.savepoint.note
    return note.begun if note else 0.0


def expire(savepoint: ListedSavepoint, dest: str, *, opened: Opener = open_storage) -> Expired:
    """Deletes a savepoint.

    Args:
        savepoint: the savepoint as it was listed.
        dest: the address of the folder that was listed.
        opened: opens the storage of an address.

    Raises:
        Superseded: when it is no longer as it was listed, or a query begins to run from it;
            nothing of it is deleted then.
        LeaseHeldError: when another run writes or maintains it.
    """
    expired = expire_in(opened(savepoint.address), savepoint)
    folder = savepoint.address.removeprefix(f"{dest.rstrip('/')}/")
    if not expired.left and folder != savepoint.address:
        opened(dest).delete_folders(folder)
    return expired


def expire_in(storage: Storage, savepoint: ListedSavepoint) -> Expired:
    """Deletes the savepoint in a storage; raises as `expire` does."""
    address, note = savepoint.address, savepoint.note
    with leased(storage, Holder(new_run_id(storage.now()))) as lease:
        if note is None or savepoint.state not in _EXPIRE:
            raise Superseded(address, "it is not one that expires")
        if not savepoint.is_still(look(storage, address)):
            raise Superseded(address, "it is no longer as it was listed")
        lease.must_hold()
        _refuse(storage, note)
        seen = look(storage, address)
        if seen is None or seen.state is not SavepointState.EXPIRING:
            restore(storage, note)
            raise Superseded(address, "a query has begun to run from it")
        _delete(storage, [one.path for one in seen.named], lease)
    left = [one.path for one in storage.list("")]
    unknown = tuple(path for path in left if not is_own(path))
    if not unknown:  # the record last, after the lease
        _delete(storage, [*(path for path in left if path != SAVEPOINT), SAVEPOINT], Fence())
    return Expired(address, len(seen.named), sum(one.size for one in seen.named), unknown)


def restore(storage: Storage, note: SavepointNote) -> None:
    """Makes the checkpoint of a query that has begun, as the savepoint expired, startable again."""
    storage.replace(METADATA, [true_metadata(note)])
    write_savepoint(storage, replace(note, expired=None))


def _refuse(storage: Storage, note: SavepointNote) -> None:
    if note.expired is None:
        write_savepoint(storage, replace(note, expired=storage.now()))
    storage.replace(METADATA, [_REFUSED])


def _delete(storage: Storage, paths: Sequence[str], fence: Fence) -> None:
    for start in range(0, len(paths), _PAGE):
        storage.delete_all(paths[start : start + _PAGE], before=fence.check)
