"""The trash: deleted files, kept for some time in a folder per run (S17). `undo` restores them.

    _statemaint/trash/<run>/manifest/...             a line for each file, before it is moved
    _statemaint/trash/<run>/<path>                   the file, under its old path

A line records until when the file is kept at least, and its surroundings at that time, by which an
undo recognizes them. Emptying the trash (`trashed`) follows these lines and not the current policy,
and so does an undo.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from statemaint.errors import AlreadyExistsError, NotFoundError, Superseded
from statemaint.execute.fence import superseded_if_missing
from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot, StateFile, checksum_file_of
from statemaint.model.findings import FindingCode
from statemaint.model.ids import RecoveryVerb, StoreId, UnitId, version_of
from statemaint.model.proof import Attestation, FileRecord
from statemaint.plan.actions import Delete
from statemaint.plan.reasons import DeleteReason
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove
from statemaint.records import manifest
from statemaint.records.manifest import LogWorld, Note, StoreWorld
from statemaint.records.trashed import forget_trashed
from statemaint.scan.proofs import crc32c_of, equal, is_same
from statemaint.storage.base import Check, Storage

_BATCH = re.compile(r"0|[1-9][0-9]{0,17}")
Versioned = Delta | Snapshot
_OF_ANOTHER_LOG = (FindingCode.STALE_SNAPSHOT, FindingCode.SNAPSHOT_MISMATCH)


@dataclass(slots=True)
class Trash:
    """The trash of one run."""

    storage: Storage
    run: str
    seconds: float
    # The number of each partition's newest manifest page; `None` until one is written.
    pages: Counter[UnitId] | None = None
    _there: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    @property
    def until(self) -> float:
        return self.storage.now() + self.seconds

    def take(
        self, deletes: Sequence[Delete], *, before: Check, after: Callable[[Delete], object]
    ) -> None:
        """Moves files of one store to the trash, after `note`; a missing file is not an error.

        Only this run creates files in its trash, so a file that was not there when the run began to
        work is there only if this object moved it. A file of an earlier attempt is compared. For
        `before` and `after`, and the order of the moves, see `Storage.move_all`.
        """
        by_path = {self.path_of(delete.entry): delete for delete in deletes}
        for path in by_path.keys() & self._there:
            before()
            self.put(by_path[path].entry)
            after(by_path.pop(path))
        with self._lock:
            self._there.update(by_path)
        moves = [(delete.entry, path) for path, delete in by_path.items()]
        self.storage.move_all(
            moves, before=before, after=lambda entry: after(by_path[self.path_of(entry)])
        )

    def note(self, deletes: Sequence[Delete], world: StoreWorld | None = None) -> None:
        until = self.until
        notes = []
        for delete in deletes:
            stale = delete.reason is DeleteReason.STALE_SNAPSHOT
            notes.append(Note(FileRecord.of(delete.entry, {}), until, world=world, stale=stale))
        unit = deletes[0].store.unit
        with self._lock:
            if self.pages is None:
                if there := list(self.storage.list(manifest.folder_of(self.run))):
                    forget_trashed(self.storage, self.run)
                self.pages = manifest.newest_pages(there)
                self._there.update(entry.path for entry in there)
            self.pages[unit] += 1
            name = manifest.page_name(unit, self.pages[unit])
        self.announce(notes, name)

    def announce(self, notes: Sequence[Note], name: str, logs: LogWorld | None = None) -> None:
        """Adds files to a manifest of the run, in the order in which they will be moved."""
        self.storage.append(manifest.manifest_path(self.run, name), manifest.render(notes, logs))

    def path_of(self, entry: Entry) -> str:
        return f"{manifest.folder_of(self.run)}/{entry.path}"

    def put(self, entry: Entry) -> None:
        """Moves one file to the trash, after `announce`; a missing file is not an error."""
        target = self.path_of(entry)
        try:
            self.storage.move(entry.path, target)
        except NotFoundError:
            return
        except AlreadyExistsError:
            # The same run was cut short between the two steps of a move.
            if not equal(self.storage, entry.path, target):
                raise
            self.storage.delete(entry.path)


def log_of(files: Iterable[StateFile]) -> tuple[Versioned, ...]:
    """Returns a store's log: its deltas or changelogs, or its zips if it has neither."""
    kept = tuple(files)
    deltas = tuple(file for file in kept if isinstance(file, Delta))
    return deltas or tuple(
        file for file in kept if isinstance(file, Snapshot) and file.entry.path.endswith(".zip")
    )


def log_entries(storage: Storage, operators: Iterable[int]) -> Iterator[Entry]:
    metadata = (f"state/{operator}/_metadata/v2" for operator in sorted(operators))
    for folder in ("commits", "offsets", *metadata):
        yield from (entry for entry in storage.list(folder) if is_log_entry(entry.path))


def is_log_entry(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    of_log = folder in ("commits", "offsets") or folder.endswith("/_metadata/v2")
    return of_log and _BATCH.fullmatch(name) is not None


def maintained(
    storage: Storage, store: Store, target: int | None, gone: int, proof: Attestation | None = None
) -> StoreWorld:
    """Returns the log of a store under maintenance.

    The checksum of the first version above the removed ones is also noted: as long as that file is
    unchanged, nothing below it was written again.
    """
    log = log_of(store.files)
    first = min((file.version for file in log if file.version > gone), default=None)

    def proved_or_sealed(entry: Entry) -> FileRecord:
        for record in proof.inputs if proof else ():
            same = record.path == entry.path and record.sum is not None
            if proof and same and record.identifies(entry, proof.at):
                return record.listed_as(entry)
        try:
            return sealed(storage, entry)
        except Superseded:
            return FileRecord.of(entry, {})

    files = (
        proved_or_sealed(file.entry) if file.version == first else FileRecord.of(file.entry, {})
        for file in log
    )
    return StoreWorld(store.id.directory, target, tuple(files))


def sealed(storage: Storage, entry: Entry) -> FileRecord:
    with superseded_if_missing("this was planned"):
        seen = FileRecord.of(entry, {entry.path: crc32c_of(storage, entry.path)})
    must_be_as_planned(storage, entry)
    return seen


def must_be_as_planned(storage: Storage, entry: Entry) -> None:
    with superseded_if_missing("this was planned"):
        current = storage.stat(entry.path)
    if not is_same(current, entry):
        raise Superseded(entry.path, "was replaced since this was planned")


def recovery_notes(
    storage: Storage, plan: RecoveryPlan, checkpoint: Checkpoint, until: float
) -> tuple[Note, ...]:
    """Returns the notes of removed files; `checkpoint` is as it will be without them."""
    removes = [step for step in plan.actions if isinstance(step, Remove)]
    if plan.verb is RecoveryVerb.ROLLBACK:
        return tuple(Note(_witnessed(storage, remove.entry), until) for remove in removes)
    stores = {store.id: store for store in checkpoint.stores}
    highest: dict[StoreId, int] = {}
    for remove in removes:
        if remove.store is not None and remove.store in stores:
            highest[remove.store] = max(remove.version, highest.get(remove.store, 0))
    judged = {store: _judged(storage, stores[store], highest[store]) for store in highest}
    worlds = {it: StoreWorld(it.directory, checkpoint.target, judged[it]) for it in judged}
    owners = {file.entry.path: file.entry for store in stores.values() for file in store.files}
    repairs = (repair for repair in plan.repairs if repair.finding.code in _OF_ANOTHER_LOG)
    stale = {path for repair in repairs for path in repair.paths}
    return tuple(
        Note(
            FileRecord.of(remove.entry, {}),
            until,
            beside=_beside(storage, remove.entry, owners),
            world=worlds.get(remove.store) if remove.store else None,
            stale=remove.path in stale,
        )
        for remove in removes
    )


def _beside(storage: Storage, entry: Entry, owners: Mapping[str, Entry]) -> FileRecord | None:
    side = checksum_file_of(entry)
    owner = owners.get(side.owner) if side else None
    return _witnessed(storage, owner) if owner else None


def _witnessed(storage: Storage, entry: Entry) -> FileRecord:
    """Returns a file, with its fingerprint if it is a change; other files may be large."""
    change = entry.path.endswith((".delta", ".changelog"))
    return sealed(storage, entry) if change else FileRecord.of(entry, {})


def _judged(storage: Storage, store: Store, version: int) -> tuple[FileRecord, ...]:
    """Returns a store's log, with fingerprints of the files that a version was compared with."""
    chain = store.versions.from_log(version, proved=())
    start = chain.start if chain else 0
    return tuple(
        sealed(storage, file.entry)
        if isinstance(file, Delta) and start < file.version <= version
        else FileRecord.of(file.entry, {})
        for file in log_of(store.files)
    )


def rolled_back(storage: Storage, plan: RecoveryPlan, checkpoint: Checkpoint) -> LogWorld | None:
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
