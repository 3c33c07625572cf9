"""The gaps between executors' snapshot uploads, as far as the checkpoint shows them (S9).

An executor holds SST files from its load or last upload until its next upload: for
`minDeltasForSnapshot` versions, and a little more. Nothing in a checkpoint gives that number. The
gaps between its snapshots do, as long as both ends of a gap exist, so uploads are noted when they
are first seen.
"""

from itertools import pairwise

from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta, Snapshot, SstFile
from statemaint.model.rocks import Rocks, Upload, Uploads

# A single snapshot has no gap. The versions before it may belong to an executor that uploads
# rarely, or to a neglected query whose runs were too short for any upload. The inferred gap is
# capped, or one forced snapshot would keep the SST files of years.
MOST_INFERRED = 500


def observed(store: Store) -> Uploads:
    """Returns the known uploads of executors: those noted before and those listed now."""
    uploads, noted = store.uploads, {upload.path for upload in store.uploads.newest}
    new = [file for file in store.theirs if file.entry.path not in noted]
    alone = len(noted) + len(new) == 1
    for file in new:
        since = uploads.before(file.version)
        if since is None:
            since = _first_without(store, file) if alone else file.version
        # For that many versions the executor that uploaded it held its SST files.
        gap = file.version - max(since, _loaded_ours(store, file, since))
        uploads = uploads.noting(Upload(file.version, file.entry.path, file.entry.modified), gap)
    return uploads


def _first_without(store: Store, file: Snapshot) -> int:
    """Returns the lowest version of the gap below a store's first snapshot, as far as is known.

    That is where the changelogs below it begin, or where we began to look: a clean-up deletes the
    snapshots below together with the changelogs.
    """
    least = max(0, file.version - MOST_INFERRED)
    if store.since is None:
        return least
    changed = {change.version for change in store.files if isinstance(change, Delta)}
    first = file.version - 1
    while first in changed:
        first -= 1
    return max(min(first, store.since), least)


def _loaded_ours(store: Store, file: Snapshot, since: int) -> int:
    """Returns the version at which its executor cannot have loaded yet, by a newer zip of ours.

    An SST file that it shares with that zip is older than the load, and so are the changelogs
    written before that file. Otherwise one upload after a long silence would look like a habit.
    """
    if store.rocks is None:
        return since
    shared = _shared_with_ours(store, store.rocks, file, since)
    tables = (it.entry for it in store.files if isinstance(it, SstFile) and it.entry.path in shared)
    times = [table.modified for table in tables if table.modified is not None]
    return _written_by(store, file, max(times)) if times else since


def _shared_with_ours(store: Store, rocks: Rocks, file: Snapshot, since: int) -> frozenset[str]:
    zips = (it.entry.path for it in store.snapshots if since < it.version < file.version)
    ours = (path for path in zips if path in rocks.ours)
    return rocks.parts_of([file.entry.path]) & rocks.parts_of(ours)


def _written_by(store: Store, file: Snapshot, time: float) -> int:
    """Returns the newest version whose changelog was written by then; 0 if times show nothing.

    Copies have the times of the copying.
    """
    logs = [log for log in store.files if isinstance(log, Delta) and log.version <= file.version]
    if any(log.entry.modified is None for log in logs):
        return 0
    ages = sorted((log.version, (log.entry.modified or 0.0) > time) for log in logs)
    turns = [early for (early, old), (_, new) in pairwise(ages) if old != new]
    rises = bool(ages) and not ages[0][1] and ages[-1][1] and len(turns) == 1
    return turns[0] if rises else 0
