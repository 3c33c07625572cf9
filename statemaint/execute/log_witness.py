"""Notes the surroundings that a run takes files from, so that an undo recognizes them."""

import re
from collections.abc import Iterable, Iterator, Mapping

from statemaint.errors import Superseded
from statemaint.execute.fence import superseded_if_missing
from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot, StateFile, checksum_file_of
from statemaint.model.findings import FindingCode
from statemaint.model.ids import RecoveryVerb, StoreId, version_of
from statemaint.model.proof import Attestation
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove
from statemaint.records.manifest import LogWorld, Note, Seen, StoreWorld
from statemaint.scan.proofs import crc32c_of, is_same
from statemaint.storage import Storage

_BATCH = re.compile(r"0|[1-9][0-9]{0,17}")
Versioned = Delta | Snapshot
_OF_ANOTHER_LOG = (FindingCode.STALE_SNAPSHOT, FindingCode.SNAPSHOT_MISMATCH)


def log_of(files: Iterable[StateFile]) -> tuple[Versioned, ...]:
    """Returns a store's log: its deltas or changelogs, or its zips if it has neither."""
    kept = tuple(files)
    deltas = tuple(file for file in kept if isinstance(file, Delta))
    return deltas or tuple(
        file for file in kept if isinstance(file, Snapshot) and file.entry.path.endswith(".zip")
    )


def log_entries(storage: Storage, operators: Iterable[int]) -> Iterator[Entry]:
    """Yields the entries of the query's logs and of the operators' metadata."""
    folders = (
        "commits",
        "offsets",
        *(f"state/{operator}/_metadata/v2" for operator in sorted(operators)),
    )
    for folder in folders:
        yield from (entry for entry in storage.list(folder) if is_log_entry(entry.path))


def is_log_entry(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    of_log = folder in ("commits", "offsets") or folder.endswith("/_metadata/v2")
    return of_log and _BATCH.fullmatch(name) is not None


# -- maintenance


def maintained(
    storage: Storage,
    store: Store,
    target: int | None,
    removed: int,
    proof: Attestation | None = None,
) -> StoreWorld:
    """Returns the log of a store under maintenance.

    The checksum of the first version above the removed ones is also noted: as long as that file is
    unchanged, nothing below it was written again.
    """
    log = log_of(store.files)
    first = min((file.version for file in log if file.version > removed), default=None)
    files = (
        _proved_or_sealed(storage, file.entry, proof) if file.version == first else Seen(file.entry)
        for file in log
    )
    return StoreWorld(store.id.directory, target, tuple(files))


def _proved_or_sealed(storage: Storage, entry: Entry, proof: Attestation | None) -> Seen:
    for record in proof.inputs if proof else ():
        same = record.path == entry.path and record.sum is not None
        if proof and same and record.identifies(entry, proof.at):
            return Seen(entry, record.sum)
    try:
        return sealed(storage, entry)
    except Superseded:
        return Seen(entry)


def sealed(storage: Storage, entry: Entry) -> Seen:
    with superseded_if_missing("this was planned"):
        seen = Seen(entry, crc32c_of(storage, entry.path))
    must_be_as_planned(storage, entry)
    return seen


def must_be_as_planned(storage: Storage, entry: Entry) -> None:
    with superseded_if_missing("this was planned"):
        current = storage.stat(entry.path)
    if not is_same(current, entry):
        raise Superseded(entry.path, "was replaced since this was planned")


# -- repair and rollback


def recovery_notes(
    storage: Storage, plan: RecoveryPlan, checkpoint: Checkpoint, until: float
) -> tuple[Note, ...]:
    """Returns the notes of removed files; `checkpoint` is as it will be without them."""
    removes = [step for step in plan.actions if isinstance(step, Remove)]
    stores = {store.id: store for store in checkpoint.stores}
    if plan.verb is RecoveryVerb.ROLLBACK:
        return tuple(Note(_witnessed(storage, remove.entry), until) for remove in removes)
    worlds = _worlds(storage, removes, stores, checkpoint.target)
    owners = {file.entry.path: file.entry for store in stores.values() for file in store.files}
    repairs = (repair for repair in plan.repairs if repair.finding.code in _OF_ANOTHER_LOG)
    stale = {path for repair in repairs for path in repair.paths}
    return tuple(
        Note(
            Seen(remove.entry),
            until,
            beside=_beside(storage, remove.entry, owners),
            world=worlds.get(remove.store) if remove.store else None,
            stale=remove.path in stale,
        )
        for remove in removes
    )


def _beside(storage: Storage, entry: Entry, owners: Mapping[str, Entry]) -> Seen | None:
    """Returns the remaining file that a removed checksum was made for; `None` for other files."""
    side = checksum_file_of(entry)
    owner = owners.get(side.owner) if side else None
    return _witnessed(storage, owner) if owner else None


def _witnessed(storage: Storage, entry: Entry) -> Seen:
    """Returns a file, with its fingerprint if it is a change; other files may be large."""
    change = entry.path.endswith((".delta", ".changelog"))
    return sealed(storage, entry) if change else Seen(entry)


def _worlds(
    storage: Storage,
    removes: Iterable[Remove],
    stores: Mapping[StoreId, Store],
    target: int | None,
) -> dict[StoreId, StoreWorld]:
    """Returns the log of each store that loses files, with fingerprints of the compared files."""
    highest: dict[StoreId, int] = {}
    for remove in removes:
        if remove.store is not None and remove.store in stores:
            highest[remove.store] = max(remove.version, highest.get(remove.store, 0))
    return {
        store: StoreWorld(store.directory, target, _judged(storage, stores[store], version))
        for store, version in highest.items()
    }


def _judged(storage: Storage, store: Store, version: int) -> tuple[Seen, ...]:
    chain = store.versions.from_log(version, proved=())
    start = chain.start if chain else 0
    return tuple(
        sealed(storage, file.entry)
        if isinstance(file, Delta) and start < file.version <= version
        else Seen(file.entry)
        for file in log_of(store.files)
    )


def rolled_back(storage: Storage, plan: RecoveryPlan, checkpoint: Checkpoint) -> LogWorld | None:
    """Returns the query's logs, as a rollback sees them; `None` for a repair."""
    if plan.verb is not RecoveryVerb.ROLLBACK or plan.batch is None:
        return None
    version = version_of(plan.batch)
    removed = {remove.path: remove.entry for remove in plan.removes if is_log_entry(remove.path)}
    operators = {store.id.operator for store in checkpoint.stores}
    remaining = [entry for entry in log_entries(storage, operators) if entry.path not in removed]
    newest = [
        file for store in checkpoint.stores for file in log_of(store.files)
        if file.version == version
    ]  # fmt: skip
    return LogWorld(
        version,
        left=tuple(sealed(storage, entry) for entry in remaining),
        removed=tuple(sealed(storage, entry) for entry in removed.values()),
        newest=tuple(_witnessed(storage, file.entry) for file in newest),
    )
