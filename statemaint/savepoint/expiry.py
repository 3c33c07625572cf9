"""Deletes savepoints that have expired: of each only what its record names.

The record is marked first, then `metadata` is replaced by one that no Spark reads: until then the
savepoint is whole, from then on no query starts from it. Spark 3.5 and 4.0 would begin at batch 0
in a state without logs, so this `metadata` stays until nothing else is left, and the record until
the end: a deletion that was killed anywhere is found and completed by the next.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from statemaint.errors import Superseded
from statemaint.records.savepoints import SavepointNote, read_stores, write_savepoint
from statemaint.savepoint.catalog import METADATA, ListedSavepoint, look
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
        left: the files that its record does not name. As long as there are any, the record and the
            `metadata` that no Spark reads stay as well.
    """

    address: str
    files: int
    bytes: int
    left: tuple[str, ...] = ()


def expire(savepoint: ListedSavepoint, dest: str, *, opened: Opener = open_storage) -> Expired:
    """Deletes a savepoint.

    Args:
        savepoint: the savepoint as it was listed.
        dest: the address of the folder that was listed.
        opened: opens the storage of an address.

    Raises:
        Superseded: when it is no longer as it was listed, or a query begins to run from it;
            nothing of it is deleted then.
    """
    expired = expire_in(opened(savepoint.address), savepoint)
    folder = savepoint.address.removeprefix(f"{dest.rstrip('/')}/")
    if not expired.left and folder != savepoint.address:
        opened(dest).delete_folders(folder)
    return expired


def expire_in(storage: Storage, savepoint: ListedSavepoint) -> Expired:
    """Deletes the savepoint in a storage; raises as `expire` does."""
    note = savepoint.note
    if (
        note is None
        or savepoint.state not in _EXPIRE
        or look(storage, savepoint.address) != savepoint
    ):
        raise Superseded(savepoint.address, "it is no longer as it was listed")
    _refuse(storage, note)
    seen = look(storage, savepoint.address)
    if seen is None or seen.note is None or seen.state is SavepointState.STARTED:
        restore(storage, note)
        raise Superseded(savepoint.address, "a query has begun to run from it")
    if note.ended is None:  # the record has no files yet
        seen = replace(seen, note=replace(seen.note, stores=read_stores(storage)))
    _delete(storage, seen.named)
    if not seen.unknown:
        _delete(storage, seen.beside)
    sizes = [entry.size for entry in seen.entries if entry.path in {*seen.named}]
    return Expired(savepoint.address, len(sizes), sum(sizes), seen.unknown)


def restore(storage: Storage, note: SavepointNote) -> None:
    """Makes the checkpoint of a query that has begun, as the savepoint expired, startable again."""
    content = json.dumps({"id": note.id}, separators=(",", ":"))
    storage.replace(METADATA, [content.encode()])
    write_savepoint(storage, replace(note, expired=None))


def _refuse(storage: Storage, note: SavepointNote) -> None:
    if note.expired is None:
        write_savepoint(storage, replace(note, expired=storage.now()))
    storage.replace(METADATA, [_REFUSED])


def _delete(storage: Storage, paths: Sequence[str]) -> None:
    for start in range(0, len(paths), _PAGE):
        storage.delete_all(paths[start : start + _PAGE])
