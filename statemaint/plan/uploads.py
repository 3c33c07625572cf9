"""The gaps between executors' snapshot uploads, as far as the checkpoint shows them (S9).

An executor holds SST files from its load or last upload until its next upload: for
`minDeltasForSnapshot` versions, and a little more. Nothing in a checkpoint gives that number. The
gaps between its snapshots do, as long as both ends of a gap exist, so uploads are noted when they
are first seen.
"""

from collections.abc import Iterable
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
    uploads, noted = store.uploads, {one.path for one in store.uploads.newest}
    new = [one for one in store.theirs if one.entry.path not in noted]
    alone = len(noted) + len(new) == 1
    for file in new:
        upload = Upload(file.version, file.entry.path, file.entry.modified)
        uploads = uploads.noting(upload, _gap(store, uploads, file, alone=alone))
    return uploads


def _gap(store: Store, noted: Uploads, file: Snapshot, *, alone: bool) -> int:
    """Returns for how many versions the executor that uploaded a snapshot held its SST files."""
    since = noted.before(file.version)
    if since is None:
        since = _first_without(store, file) if alone else file.version
    return file.version - max(since, _loaded_ours(store, file, since))


def _first_without(store: Store, file: Snapshot) -> int:
    """Returns the lowest version of the gap below a store's first snapshot, as far as is known.

    That is where the changelogs below it begin, or where we began to look. Anything earlier is
    unknown: a clean-up deletes the snapshots below together with the changelogs.
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
    """Returns the version at which its executor cannot have loaded yet, by a newer zip of ours.

    An SST file that it shares with that zip is older than the load, and so are the changelogs
    written before that file. Otherwise one upload after a long silence would look like a habit.
    """
    if store.rocks is None:
        return since
    shared = _shared_with_ours(store, store.rocks, file, since)
    times = [one.entry.modified for one in store.files if _is_table(one, shared)]
    known_times = [time for time in times if time is not None]
    return _written_by(store, file, max(known_times)) if known_times else since


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
    """Returns the newest version whose changelog was written by then; 0 if times show nothing.

    Times show nothing if the files are copies, which have the times of the copying.
    """
    logs = [one for one in store.files if isinstance(one, Delta) and one.version <= file.version]
    if any(one.entry.modified is None for one in logs):
        return 0
    ages = sorted((one.version, (one.entry.modified or 0.0) > time) for one in logs)
    turns = [early for (early, old), (_, new) in pairwise(ages) if old != new]
    rises = bool(ages) and not ages[0][1] and ages[-1][1] and len(turns) == 1
    return turns[0] if rises else 0
