"""What repair and rollback do: files that go to the trash, and snapshots that are made anew. Pure.

Neither deletes anything: what is removed can be brought back by `undo`, byte for byte.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum, unique

from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Operator, Store
from statemaint.model.files import (
    Delta,
    SharedFile,
    SideFile,
    Snapshot,
    StateFile,
    spark_checksums,
)
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, version_of
from statemaint.plan.actions import SnapshotReason, WriteSnapshot

_LOG_ENTRY = re.compile(r"\.?(0|[1-9][0-9]{0,17})(?:\.crc)?")


@unique
class MendVerb(StrEnum):
    """What a mend was asked for."""

    REPAIR = "repair"
    ROLLBACK = "rollback"


@unique
class RemoveReason(StrEnum):
    """Why a file goes to the trash."""

    BAD_SNAPSHOT = "bad_snapshot"  # the log gives the state that it should hold
    STALE_CHECKSUM = "stale_checksum"  # the file beside it is sound
    ABOVE_TARGET = "above_target"  # Spark would take it for the state of a batch that runs again
    UNREADABLE_SCHEMA = "unreadable_schema"  # a restarted query writes it anew
    ROLLED_BACK = "rolled_back"  # of a batch above the one that the query goes on behind


@dataclass(frozen=True, slots=True)
class Remove:
    """Move one file to the trash.

    Attributes:
        entry: the file.
        reason: why.
        store: the store that it belongs to; `None` for an entry of a log.
        version: the state version that it is of; 0 where it is of none.
    """

    entry: Entry
    reason: RemoveReason
    store: StoreId | None = None
    version: int = 0

    @property
    def path(self) -> str:
        """Returns the file's path."""
        return self.entry.path


@dataclass(frozen=True, slots=True)
class Proof:
    """What a version's state is without the files that go.

    Attributes:
        digest: 32 hexadecimal digits, order-free over all rows.
        rows: how many keys it has.
        files: how many files it was folded from.
        start: the version that they start from, 0 for the empty state.
    """

    digest: str
    rows: int
    files: int
    start: int


@dataclass(frozen=True, slots=True)
class Cure:
    """What would end one finding.

    Attributes:
        finding: which.
        removes: the files that go, a checksum before its file.
        version: the version whose state must be the same without them; 0 for what is of no version.
        rebuild: the snapshot that takes the place of a bad one; `None` where none is needed.
        proof: of the state at that version without them; `None` until it was read.
    """

    finding: Finding
    removes: tuple[Remove, ...]
    version: int
    rebuild: WriteSnapshot | None = None
    proof: Proof | None = None

    @property
    def reason(self) -> RemoveReason:
        """Returns why its files go."""
        return self.removes[-1].reason

    @property
    def paths(self) -> frozenset[str]:
        """Returns the paths of what goes."""
        return frozenset(one.path for one in self.removes)


@dataclass(frozen=True, slots=True)
class Mend:
    """Everything that a repair or a rollback would do; a value (S14).

    Attributes:
        verb: which of the two.
        root: the checkpoint's address.
        query_id: the query that the checkpoint belongs to.
        batch: the committed batch that the query goes on behind.
        removes: the files that a rollback moves away, in the order in which they go.
        cures: what a repair does, in its order.
        findings: what is still wrong afterwards.
        unmended: why each damage that stays is not mended.
        versions_checked: how many versions were rebuilt without those files, as the proof.
    """

    verb: MendVerb
    root: str
    query_id: str
    batch: int | None
    removes: tuple[Remove, ...] = ()
    cures: tuple[Cure, ...] = ()
    findings: tuple[Finding, ...] = ()
    unmended: tuple[str, ...] = ()
    versions_checked: int = 0

    @property
    def steps(self) -> tuple[Remove | WriteSnapshot, ...]:
        """Returns all steps in their order."""
        found: list[Remove | WriteSnapshot] = list(self.removes)
        for cure in self.cures:
            found += [*cure.removes, *([cure.rebuild] if cure.rebuild else [])]
        return tuple(found)


# -- repair


def cures(checkpoint: Checkpoint, findings: Iterable[Finding]) -> tuple[Cure, ...]:
    """Returns what might end each finding of damage; nothing is proved yet.

    In an order in which each may rely on those before it: lower snapshots first, checksums last. A
    snapshot is disposable, and so is a checksum (S1). A change is not: nothing here removes one.
    """
    stores = {store.id: store for store in checkpoint.stores}
    found: dict[frozenset[str], Cure] = {}
    for finding in findings:
        if finding.damage and finding.store in stores and finding.path:
            for cure in _cures_of(stores[finding.store], finding):
                found.setdefault(cure.paths, cure)
        for store, entry in checkpoint.schemas.items():
            if finding.code is FindingCode.UNREADABLE_METADATA and finding.path == entry.path:
                remove = Remove(entry, RemoveReason.UNREADABLE_SCHEMA, store)
                found[frozenset({entry.path})] = Cure(finding, (remove,), 0)
    return tuple(sorted(found.values(), key=_order))


def _order(cure: Cure) -> tuple[int, StoreId, int]:
    # A bad snapshot takes its checksum with it, which then needs no cure of its own. What several
    # share goes once none of them is left.
    store = cure.removes[-1].store or StoreId(0, 0)
    rank = 2 * (cure.reason is RemoveReason.STALE_CHECKSUM) + (cure.version == 0)
    return rank, store, cure.version


_OF_SNAPSHOTS = frozenset(
    {FindingCode.CORRUPT_FILE, FindingCode.SNAPSHOT_MISMATCH, FindingCode.MISSING_SST}
)


def _cures_of(store: Store, finding: Finding) -> Iterator[Cure]:
    for file in store.files:
        if isinstance(file, SideFile) and file.entry.path == finding.path:
            yield Cure(finding, _checksums(store, file), file.version)
        elif isinstance(file, SharedFile) and file.entry.path == finding.path:
            yield _without(store, finding, file, RemoveReason.BAD_SNAPSHOT)
        elif isinstance(file, Snapshot):
            if finding.code is FindingCode.SNAPSHOT_ABOVE_TARGET:
                if file.entry.path == finding.path:
                    yield _without(store, finding, file, RemoveReason.ABOVE_TARGET)
            elif finding.code in _OF_SNAPSHOTS and _spoils(store, file, finding.path):
                yield _without(store, finding, file, RemoveReason.BAD_SNAPSHOT)


def _spoils(store: Store, snapshot: Snapshot, path: str | None) -> bool:
    """Tells whether a bad file is a snapshot, or one that it refers to."""
    parts = store.rocks.parts if store.rocks else {}
    return path == snapshot.entry.path or path in parts.get(snapshot.entry.path, {})


def _without(
    store: Store, finding: Finding, file: Snapshot | SharedFile, reason: RemoveReason
) -> Cure:
    sides = sorted(_sides_of(store, file.entry.path), key=lambda one: -len(one.entry.path))
    gone = (*(one.entry for one in sides), file.entry)
    removes = tuple(Remove(one, reason, store.id, file.version) for one in gone)
    return Cure(finding, removes, file.version)


def _checksums(store: Store, side: SideFile) -> tuple[Remove, ...]:
    """Returns a checksum file, and in front of it what Hadoop keeps beside it."""
    beside = f"{side.entry.path.removesuffix(side.entry.name)}.{side.entry.name}.crc"
    files = [one for one in store.files if one.entry.path == beside]
    reason = RemoveReason.STALE_CHECKSUM
    return tuple(Remove(one.entry, reason, store.id, side.version) for one in (*files, side))


def _sides_of(store: Store, path: str) -> Iterator[SideFile]:
    return (one for one in store.files if isinstance(one, SideFile) and one.owner == path)


def rebuilt(cure: Cure, listed: Store, store: Store, window: range) -> WriteSnapshot | None:
    """Returns what to write in place of a bad snapshot; `None` where the log alone will do.

    It is written where a retained version would be loaded from it, folded from as little as
    possible that nobody has compared with the log.

    Args:
        cure: that removes it.
        listed: the store as it is.
        store: as it is without what goes.
        window: the versions that the commit log asks for.
    """
    path = cure.removes[-1].path
    chain = store.versions.from_log(cure.version, proved=())
    if cure.reason is not RemoveReason.BAD_SNAPSHOT or path != listed.snapshot_path(cure.version):
        return None  # no snapshot, or one of an attempt that does not count
    if chain is None or not _reads_from(listed, cure.version, window):
        return None
    return WriteSnapshot(
        store.id,
        path,
        chain,
        SnapshotReason.REBUILT,
        checksum=chain.deltas[-1].entry.path in spark_checksums(store.files),
        id=store.rocks.id_at(cure.version) if store.rocks else None,
        families=families_of(store, cure.version),
    )


def _reads_from(store: Store, version: int, window: range) -> bool:
    """Tells whether a retained version would be loaded from a snapshot, were it sound."""
    versions = [one.version for one in store.files if isinstance(one, Snapshot)]
    first = max((one for one in versions if one <= window.start), default=0)
    return first <= version < window.stop


def refers(store: Store, path: str) -> bool:
    """Tells whether a snapshot that is there refers to a shared file."""
    return store.rocks is not None and any(path in parts for parts in store.rocks.parts.values())


def families_of(store: Store, version: int) -> Snapshot | None:
    """Returns the zip that says how RocksDB is set up at a version, if any can be read."""
    if store.rocks is None:
        return None
    snapshots = store.versions.snapshots
    return store.versions.base(version) or snapshots.get(min(snapshots, default=0))


def has_families(operator: Operator | None) -> bool:
    """Tells whether an operator may keep its state in column families, which a zip must name.

    Mirrors `useColumnFamilies` of `transformWithState`, and of joins that have one store.
    """
    if operator is None:
        return False  # before Spark 4.0, which has none
    joins = operator.name == "symmetricHashJoin" and len(operator.stores) == 1
    return joins or operator.name.startswith("transformWithState")


def self_checking(checkpoint: Checkpoint) -> bool:
    """Tells whether a file that decodes is sure to be one that was written so.

    Blocks of LZ4 carry a hash of their content, and rows may carry one of their own; the other
    compressions would not see every flipped bit. Whether it is the file of that name is another
    question.
    """
    return checkpoint.codec == "lz4" or checkpoint.row_checksums


def witnessed(store: Store, side: SideFile) -> bool:
    """Tells whether a file was compared with others when the versions around it were rebuilt.

    A snapshot is compared with the log below it, and a change with the next snapshot above.
    """
    versions = store.versions
    above = [number for number in versions.snapshots if number >= side.version]
    if not above or not any(file.entry.path == side.owner for file in _counting(store)):
        return False
    number = min(above)
    below = versions.loadable(max(1, number - 1), number)
    return number in versions.deltas and (number == 1 or number - 1 in below)


def _counting(store: Store) -> Iterator[StateFile]:
    versions = store.versions
    yield from versions.deltas.values()
    yield from versions.snapshots.values()


# -- rollback


def rolled_back(
    stores: Iterable[Store], logs: Iterable[Entry], batch: int, *, keep_next: bool
) -> tuple[Remove, ...]:
    """Returns what has to go so that a query goes on behind a committed batch.

    State first, newest first: whoever starts the query in the middle of it is refused by Spark, and
    never given the state of another time. Then the logs, from the top down, a commit before its
    offsets: each state in between is one that Spark itself leaves behind. Nothing that the batch
    is loaded from is among them.

    Args:
        stores: of the checkpoint.
        logs: the files in `commits/`, `offsets/` and the operators' `_metadata/v2/`.
        batch: the newest that stays committed.
        keep_next: keep the offsets of the next batch, which then reads the same input again.
    """
    state = [one for store in stores for one in _above(store, version_of(batch))]
    # A run that begins with a batch writes the operator's metadata of that batch anew.
    stays = ("state/", "offsets/") if keep_next else ("state/",)
    entries = [
        Remove(entry, RemoveReason.ROLLED_BACK)
        for entry in logs
        if _batch(entry) > batch + entry.path.startswith(stays)
    ]
    return (*sorted(state, key=_state_order), *sorted(entries, key=_log_order))


def newest_to_go_back_to(
    checkpoint: Checkpoint, findings: Iterable[Finding], loadable: Iterable[int]
) -> int | None:
    """Returns the newest batch that a rollback to may succeed, by what was found.

    A restart reads its commit, its offsets, and those of the batch behind it or before it. Mirrors
    `MicroBatchExecution.populateStartOffsets`.

    Args:
        checkpoint: as it is.
        findings: what was found wrong with it.
        loadable: the batches that load in every store.
    """
    bad = {one.path for one in findings if one.damage}
    offsets = {one for one in checkpoint.offsets if f"offsets/{one}" not in bad}
    for batch in sorted(loadable, reverse=True):
        beside = batch == 0 or batch - 1 in offsets or batch + 1 in offsets
        if batch in offsets and beside and f"commits/{batch}" not in bad:
            return batch
    return None


def _batch(entry: Entry) -> int:
    """Returns the batch that an entry of a log is of; -1 for what is none."""
    found = _LOG_ENTRY.fullmatch(entry.name)
    return int(found[1]) if found else -1


def _above(store: Store, version: int) -> Iterator[Remove]:
    shared = _only_of_those_above(store, version)
    for file in store.files:
        if isinstance(file, Delta | Snapshot | SharedFile | SideFile):
            path = file.owner if isinstance(file, SideFile) else file.entry.path
            if file.version > version or path in shared:
                yield Remove(file.entry, RemoveReason.ROLLED_BACK, store.id, file.version)


def _only_of_those_above(store: Store, version: int) -> frozenset[str]:
    """Returns the tables that only zips above a version refer to.

    They go with them: left behind they would be orphans, and gone when somebody undoes.
    """
    if store.rocks is None:
        return frozenset()
    zips = {file.entry.path: file.version for file in store.files if isinstance(file, Snapshot)}
    stay = {path for path, number in zips.items() if number <= version}
    if stay & store.rocks.unreadable:
        return frozenset()  # nobody knows what those refer to
    parts = store.rocks.parts
    used = {part for path in stay for part in parts.get(path, ())}
    return frozenset(part for path in zips.keys() - stay for part in parts.get(path, ())) - used


def _state_order(one: Remove) -> tuple[int, int, int, str]:
    """Snapshots first, then what they share, then changes; a checksum before its file (S7)."""
    changes = ".delta" in one.entry.name or ".changelog" in one.entry.name
    rank = 1 if one.version == 0 else 2 * changes
    return rank, -one.version, -one.entry.name.count(".crc"), one.path


def _log_order(one: Remove) -> tuple[int, int, bool, str]:
    folder = ("state/", "commits/", "offsets/").index(one.path[: one.path.index("/") + 1])
    batch = 0 if folder == 0 else _batch(one.entry)
    return -batch if folder else -_FIRST, folder, not one.path.endswith(".crc"), one.path


_FIRST = 10**18  # before any batch
