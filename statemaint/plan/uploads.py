"""How far apart executors upload snapshots, as far as anything shows it (S9).

An executor holds tables from when it loaded, or last uploaded, until it uploads: for
`minDeltasForSnapshot` versions, and a little more. Nothing in a checkpoint gives that number. The
gaps between its snapshots do, as long as both ends of a gap are there, so they are noted when they
are first seen.
"""

from collections.abc import Iterable
from itertools import pairwise

from statemaint.model.checkpoint import Rocks, Store
from statemaint.model.files import Delta, Snapshot, SstFile
from statemaint.model.uploads import Upload, Uploads

# One snapshot alone has no gap. The versions before it may be those of an executor that uploads
# rarely, or of a neglected query, whose runs were too short for any upload. No more versions than
# these are inferred, or the tables of years would be kept on the strength of one forced snapshot.
MOST_INFERRED = 500


def observed(store: Store) -> Uploads:
    """Returns what is known of executors' snapshots: those noted before, and those listed now."""
    found, noted = store.uploads, {one.path for one in store.uploads.newest}
    new = [one for one in store.theirs if one.entry.path not in noted]
    alone = len(noted) + len(new) == 1
    for file in new:
        upload = Upload(file.version, file.entry.path, file.entry.modified)
        found = found.noting(upload, _gap(store, found, file, alone=alone))
    return found


def _gap(store: Store, noted: Uploads, file: Snapshot, *, alone: bool) -> int:
    """Returns for how many versions the executor that uploaded a snapshot held its tables."""
    since = noted.before(file.version)
    if since is None:
        since = _first_without(store, file) if alone else file.version
    return file.version - max(since, _loaded_ours(store, file, since))


def _first_without(store: Store, file: Snapshot) -> int:
    """Returns the version from which on no executor uploaded any before its first snapshot.

    That is where the changelogs below it begin, or where we began to look. Before that nobody
    knows: a clean-up takes the snapshots below, and the changelogs together with them.
    """
    least = max(0, file.version - MOST_INFERRED)
    if store.since is None:
        return least
    changed = {one.version for one in store.files if isinstance(one, Delta)}
    first = file.version - 1
    while first in changed:
        first -= 1
    return max(min(first, store.since), least)


def _loaded_ours(store: Store, file: Snapshot, since: int) -> int:
    """Returns the version at which its executor cannot have loaded yet, from a newer zip of ours.

    A table that it shares with that zip is older than the load; so are the changelogs that were
    written before the table. Without this an upload after long silence would look like a habit.
    """
    if store.rocks is None:
        return since
    shared = _shared_with_ours(store, store.rocks, file, since)
    times = [one.entry.modified for one in store.files if _is_table(one, shared)]
    known = [time for time in times if time is not None]
    return _written_by(store, file, max(known)) if known else since


def _is_table(file: object, paths: frozenset[str]) -> bool:
    return isinstance(file, SstFile) and file.entry.path in paths


def _shared_with_ours(store: Store, rocks: Rocks, file: Snapshot, since: int) -> frozenset[str]:
    between = (one.entry.path for one in _snapshots(store) if since < one.version < file.version)
    ours = (rocks.parts.get(path, {}) for path in between if path in rocks.ours)
    mine = rocks.parts.get(file.entry.path, {})
    return frozenset(path for parts in ours for path in parts if path in mine)


def _snapshots(store: Store) -> Iterable[Snapshot]:
    return (one for one in store.files if isinstance(one, Snapshot))


def _written_by(store: Store, file: Snapshot, time: float) -> int:
    """Returns the newest version whose changelog is as old as that; 0 where times say nothing.

    They do not where the files are copies, which are as old as the copying made them.
    """
    logs = [one for one in store.files if isinstance(one, Delta) and one.version <= file.version]
    if any(one.entry.modified is None for one in logs):
        return 0
    ages = sorted((one.version, (one.entry.modified or 0.0) > time) for one in logs)
    turns = [early for (early, old), (_, new) in pairwise(ages) if old != new]
    rises = bool(ages) and not ages[0][1] and ages[-1][1] and len(turns) == 1
    return turns[0] if rises else 0
