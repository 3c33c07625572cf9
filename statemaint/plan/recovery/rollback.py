"""The removals after which a query restarts after a batch, and the batches that allow it. Pure."""

import re
from collections.abc import Iterable, Iterator

from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, owner_of
from statemaint.model.findings import Finding
from statemaint.model.ids import version_of
from statemaint.plan.recovery.recovery_plan import Remove, RemoveReason

_LOG_ENTRY = re.compile(r"\.?(0|[1-9][0-9]{0,17})(?:\.crc)?")
_FIRST = 10**18  # before any batch


def rolled_back(
    stores: Iterable[Store],
    logs: Iterable[Entry],
    batch: int,
    *,
    keep_next: bool,
    keep_metadata: bool = True,
) -> tuple[Remove, ...]:
    """Returns the removals after which a query restarts after a committed batch.

    State is removed first, newest first: Spark refuses a query that is started in the middle, and
    never gives it the state of another time. The logs follow from the top down, a commit before
    its offsets: each state in between is one that Spark itself leaves behind. No file that the
    batch is loaded from is removed.

    `logs` has the files in `commits/`, `offsets/` and the operators' `_metadata/v2/`. With
    `keep_next` the next batch keeps its offsets and reads the same input again; with
    `keep_metadata` the operators' metadata stay, which it writes again.
    """
    state = [remove for store in stores for remove in _above(store, version_of(batch))]
    # A query run that begins with a batch writes the operators' metadata of that batch again.
    folders = {"state/": keep_metadata, "offsets/": keep_next}
    stays = tuple(folder for folder, kept in folders.items() if kept)
    goes = (entry for entry in logs if _batch(entry) > batch + entry.path.startswith(stays))
    entries = [Remove(entry, RemoveReason.ROLLED_BACK) for entry in goes]
    return (*sorted(state, key=_state_order), *sorted(entries, key=_log_order))


def newest_to_go_back_to(
    checkpoint: Checkpoint, findings: Iterable[Finding], loadable: Iterable[int]
) -> int | None:
    """Returns the newest of the loadable batches that the findings allow a rollback to, if any.

    A restart reads its commit, its offsets, and the offsets of the batch after or before it.
    Mirrors `MicroBatchExecution.populateStartOffsets`.
    """
    bad = {finding.path for finding in findings if finding.damage}
    offsets = {offset for offset in checkpoint.offsets if f"offsets/{offset}" not in bad}
    for batch in sorted(loadable, reverse=True):
        beside = batch == 0 or batch - 1 in offsets or batch + 1 in offsets
        if batch in offsets and beside and f"commits/{batch}" not in bad:
            return batch
    return None


def _batch(entry: Entry) -> int:
    match = _LOG_ENTRY.fullmatch(entry.name)
    return int(match[1]) if match else -1


def _above(store: Store, version: int) -> Iterator[Remove]:
    shared = _only_of_those_above(store, version)
    files = (it for it in store.files if isinstance(it, Delta | Snapshot | SstFile | ChecksumFile))
    for file in files:
        if file.version > version or owner_of(file) in shared:
            yield Remove(file.entry, RemoveReason.ROLLED_BACK, store.id, file.version)


def _only_of_those_above(store: Store, version: int) -> frozenset[str]:
    """Returns the SST files that only zips above a version refer to.

    They are removed with the zips: left behind they would be orphans, and deleted before an undo.
    """
    if store.rocks is None:
        return frozenset()
    zips = {file.entry.path: file.version for file in store.snapshots}
    stay = {path for path, number in zips.items() if number <= version}
    if stay & store.rocks.unreadable:
        return frozenset()  # their references are unknown
    return store.rocks.parts_of(zips.keys() - stay) - store.rocks.parts_of(stay)


def _state_order(remove: Remove) -> tuple[bool, int, bool, int, str]:
    """Returns the sort key of state: by version, changes before snapshots; checksums first (S7).

    A version whose snapshot went first might load from an older one and a change of another time.
    Tables go last, as more than one version may need them.
    """
    changes = ".delta" in remove.entry.name or ".changelog" in remove.entry.name
    is_table = remove.version == 0
    return is_table, -remove.version, not changes, -remove.entry.name.count(".crc"), remove.path


def _log_order(remove: Remove) -> tuple[int, int, bool, str]:
    folder = ("state/", "commits/", "offsets/").index(remove.path[: remove.path.index("/") + 1])
    batch = 0 if folder == 0 else _batch(remove.entry)
    return -batch if folder else -_FIRST, folder, not remove.path.endswith(".crc"), remove.path
