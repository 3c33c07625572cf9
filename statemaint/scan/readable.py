"""Our snapshots that the query might not be able to read, by the listing (S22)."""

from collections.abc import Iterator
from dataclasses import replace

from statemaint.errors import NotFoundError, UnreadableError
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot, SstFile
from statemaint.storage import Storage, deprived


def with_unreadable(storage: Storage, store: Store) -> Store:
    """Returns a store with the snapshots of ours that a reader of its log cannot read.

    Requests are made only for files that owners, groups and modes in the listing leave in doubt,
    and none if listings have no modes. A snapshot that may be an executor's counts only if its
    owner differs from the log's.
    """
    snapshots = (one for one in store.files if isinstance(one, Snapshot))
    unreadable = {
        one.entry.path: why
        for one in snapshots
        if one.entry.path in store.ours and (why := _why(storage, store, one))
    }
    return replace(store, unreadable=unreadable) if unreadable else store


def _why(storage: Storage, store: Store, snapshot: Snapshot) -> str | None:
    beside = store.beside(snapshot.version)
    if beside is None or beside.access is None:
        return None
    sure = _surely_ours(store, snapshot.entry.path)
    for entry in (snapshot.entry, *_parts(store, snapshot)):
        if entry.access is None or deprived(beside.access, entry.access) is None:
            continue
        if not sure and entry.access.owner == beside.access.owner:
            continue
        try:
            storage.check_readable(entry.path, like=beside.path)
        except UnreadableError as error:
            return str(error)
        except NotFoundError:
            return None  # deleted by the query since it was listed
    return None


def _surely_ours(store: Store, path: str) -> bool:
    """Returns whether no executor can have written a snapshot; the ledger lists some of theirs."""
    return store.rocks is not None or any(
        one.ours for one in store.attestations if one.path == path
    )


def _parts(store: Store, snapshot: Snapshot) -> Iterator[Entry]:
    named = store.rocks.parts.get(snapshot.entry.path, {}) if store.rocks else {}
    shared = (file.entry for file in store.files if isinstance(file, SstFile))
    return (entry for entry in shared if entry.path in named)
