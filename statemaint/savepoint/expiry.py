"""Deletes savepoints that have expired: of each only what its record names.

The record is marked first, so that no run completes the savepoint. Then `metadata` is replaced by
one that no Spark reads: until then the savepoint is whole, from then on no query starts from it.
Spark 3.5 and 4.0 would begin at batch 0 in a state without logs, so this `metadata` stays until
nothing else is left, and the record until the end: a deletion that was killed anywhere is found and
completed by the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from statemaint.errors import Superseded
from statemaint.execute.lease import leased
from statemaint.records.claims import Holder
from statemaint.records.runs import new_run_id
from statemaint.records.savepoints import (
    METADATA,
    SAVEPOINT,
    SavepointNote,
    true_metadata,
    write_savepoint,
)
from statemaint.savepoint.catalog import Savepoint, SavepointState, is_own, look
from statemaint.storage import Opener, Storage, open_storage

_REFUSED = b"not a query's metadata: statemaint is deleting this savepoint\n"
_EXPIRE = (SavepointState.WHOLE, SavepointState.UNFINISHED, SavepointState.EXPIRING)
# What two looks at a savepoint must agree in; our own files about it may come and go.
_SHOWN = attrgetter("state", "note", "named", "unknown")


def carry_out(
    savepoints: Sequence[Savepoint], dest: str, *, opened: Opener = open_storage
) -> Iterator[Savepoint]:
    """Yields the savepoints that have expired, each once it is deleted; the oldest first.

    A query that began to run from one whose expiry was killed gets back its `metadata`. Raises
    `Superseded` as `expire` does; the next call continues.
    """
    for savepoint in sorted(savepoints, key=attrgetter("begun")):
        note = savepoint.note
        if savepoint.kept == ():
            yield expire(savepoint, dest, opened=opened)
        elif savepoint.state is SavepointState.STARTED and note and note.expired is not None:
            restore(opened(savepoint.address), note)


def without_expired(
    savepoints: Sequence[Savepoint], dest: str, *, opened: Opener = open_storage
) -> tuple[Savepoint, ...]:
    """Returns savepoints in their order, those that expire as they are after `carry_out`."""
    deleted = {each.address: each for each in carry_out(savepoints, dest, opened=opened)}
    return tuple(deleted.get(each.address, each) for each in savepoints)


def expire(savepoint: Savepoint, dest: str, *, opened: Opener = open_storage) -> Savepoint:
    """Deletes a savepoint of the listed folder `dest`.

    Raises `Superseded`, and deletes nothing, when the savepoint is no longer as it was listed, or a
    query begins to run from it.
    """
    address, note = savepoint.address, savepoint.note
    storage = opened(address)
    with leased(storage, Holder(new_run_id(storage.now()))) as lease:
        if note is None or savepoint.state not in _EXPIRE:
            raise Superseded(address, "it is not one that expires")
        seen = look(storage, address)
        if seen is None or _SHOWN(seen) != _SHOWN(savepoint):
            raise Superseded(address, "it is no longer as it was listed")
        lease.must_hold()
        if note.expired is None:
            write_savepoint(storage, replace(note, expired=storage.now()))
        storage.replace(METADATA, [_REFUSED])
        seen = look(storage, address)
        if seen is None or seen.state is not SavepointState.EXPIRING:
            restore(storage, note)
            raise Superseded(address, "a query has begun to run from it")
        storage.delete_all([entry.path for entry in seen.named], before=lease.check)
    left = [entry.path for entry in storage.list("")]
    unknown = tuple(path for path in left if not is_own(path))
    if not unknown:  # the record last, after the lease
        storage.delete_all([path for path in left if path != SAVEPOINT])
        storage.delete(SAVEPOINT)
        folder = address.removeprefix(f"{dest.rstrip('/')}/")
        if folder != address:
            opened(dest).delete_folders(folder)
    return replace(savepoint, left=unknown)


def restore(storage: Storage, note: SavepointNote) -> None:
    """Makes the checkpoint of a query that has begun, as the savepoint expired, startable again."""
    storage.replace(METADATA, [true_metadata(note)])
    write_savepoint(storage, replace(note, expired=None))
