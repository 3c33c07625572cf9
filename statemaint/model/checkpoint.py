"""A checkpoint as one scan saw it: the result of `scan` and the only input of `plan`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from itertools import pairwise
from math import inf
from operator import attrgetter

from statemaint.listing import Entry
from statemaint.model.chain import Chain, Versions
from statemaint.model.files import Delta, Snapshot, StateFile, snapshot_version
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, batch_of, version_of
from statemaint.model.pins import Pin
from statemaint.model.proof import Attestation, Outdated
from statemaint.model.rocks import NOTHING_SEEN, Rocks, Uploads
from statemaint.wording import Displayed, counted, quoted


@unique
class Provider(StrEnum):
    """The state store providers, by class name; `UNKNOWN` if neither logs nor files show it."""

    HDFS_BACKED = "HDFSBackedStateStoreProvider"
    ROCKSDB = "RocksDBStateStoreProvider"
    UNKNOWN = "unknown"


MAINTAINED = (Provider.HDFS_BACKED, Provider.ROCKSDB)
"""The providers whose stores can be read."""


@dataclass(frozen=True, slots=True)
class Store:
    """One store."""

    id: StoreId
    files: tuple[StateFile, ...] = ()
    attestations: tuple[Attestation, ...] = ()
    findings: tuple[Finding, ...] = ()
    written: tuple[str, ...] = ()  # the newest snapshots that we wrote, or were about to write
    rocks: Rocks | None = None  # `None` for another provider
    since: int | None = None  # the target when we first wrote here, or first noted an upload
    outdated: tuple[Outdated, ...] = ()  # they no longer count: their inputs were replaced
    # Those of snapshots that were replaced, or whose SST files were, with their replaced inputs.
    former: tuple[Outdated, ...] = ()
    listed: float = 0.0  # when its files were listed, by the storage's clock
    uploads: Uploads = NOTHING_SEEN  # as noted; they may have been deleted since
    # Why a reader of the log beside it cannot read a snapshot of ours, by its path, as listed.
    unreadable: Mapping[str, str] = field(default_factory=dict)
    # A plan uses them many times; `replace` forgets them.
    _versions: Versions | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def versions(self) -> Versions:
        """Returns its deltas and snapshots by version: those that count, and can be loaded."""
        if self._versions is None:
            rocks, files = self.rocks, self.files
            versions = rocks.versions(rocks.sound(files)) if rocks else Versions.of(files)
            object.__setattr__(self, "_versions", versions)
            return versions
        return self._versions

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Returns all that are listed, whether they count or not."""
        return tuple(file for file in self.files if isinstance(file, Snapshot))

    @property
    def size(self) -> int:
        return sum(file.entry.size for file in self.files)

    @property
    def unread(self) -> bool:
        """Returns whether it could not be listed or read, so that nothing else is known of it."""
        return any(finding.code is FindingCode.STORAGE_FAILED for finding in self.findings)

    @property
    def outside(self) -> tuple[Entry, ...]:
        """Returns the files whose real place is outside the checkpoint, by path (S24)."""
        outside = (file.entry for file in self.files if file.entry.outside)
        return tuple(sorted(outside, key=attrgetter("path")))

    @property
    def lapsed(self) -> frozenset[str]:
        """Returns the paths of snapshots that are no longer the files that were proved."""
        return frozenset(proof.path for proof in self.former)

    def families_at(self, version: int) -> Snapshot | None:
        """Returns the zip with the column families and the merge operator of a version, if any.

        It is the nearest one that names every family that changes up to the version are known to
        use: the newest at or below, else the lowest above, as a zip names all families before it.
        Its tables may be missing.
        """
        if self.rocks is None:
            return None
        loaded = self.rocks.versions(self.rocks.loaded(self.files))
        readable = loaded.without(self.rocks.unreadable)
        changes = [file for file in readable.deltas.values() if file.version <= version]
        used = frozenset().union(*(self.rocks.used.get(file.entry.path, ()) for file in changes))
        base = readable.base(version)
        zips = [zip_ for number, zip_ in sorted(readable.snapshots.items()) if number > version]
        nearest = [base, *zips] if base else zips
        names_all = (it for it in nearest if used <= {*readable.named.get(it.entry.path, used)})
        return next(names_all, nearest[0] if nearest else None)

    @property
    def unnamed(self) -> bool:
        """Returns whether it may have column families, and no zip that names any can be read."""
        rocks = self.rocks
        return rocks is not None and bool(rocks.used) and self.families_at(0) is None

    @property
    def unsettled(self) -> bool:
        """Returns whether nothing shows the format of a zip's metadata that its Spark reads."""
        return self.rocks is not None and self.rocks.unsettled and self.families_at(0) is None

    def oldest(self, required: int, target: int) -> int:
        """Returns the oldest version that must load of those that the commit log has.

        The commit log has one batch more than `RocksDBFileManager.deleteOldVersions` keeps
        versions, so the oldest may be missing. Then only a zip is left below the next version, and
        below that zip only files that a late task has written since.
        """
        snapshots = self.versions.snapshots if self.rocks else {}
        first = min(snapshots, default=0)
        if not required < first <= target:
            return required
        written = snapshots[first].entry.modified
        files = (file for file in self.files if isinstance(file, Delta | Snapshot))
        beneath = [file for file in files if file.version < first]
        late = all(isinstance(it, Delta) and is_later(it.entry.modified, written) for it in beneath)
        return first if late else required

    @property
    def foreign(self) -> tuple[Snapshot, ...]:
        """Returns the snapshots that executors wrote since we first wrote one, ascending."""
        ours = (snapshot_version(path) for path in self.written)
        first = min((version for version in ours if version is not None), default=None)
        since = self.since if self.rocks else first
        return () if since is None else tuple(file for file in self.theirs if file.version > since)

    @property
    def ours(self) -> frozenset[str]:
        """Returns the paths of the snapshots that we may have written."""
        return self.rocks.ours if self.rocks else frozenset(self.written)

    def beside(self, version: int) -> Entry | None:
        """Returns the query's own file whose readers are those of its state at a version (S22).

        It is the change of that version or of the nearest one, or a snapshot that executors wrote.
        """
        files: tuple[Delta | Snapshot, ...] = tuple(self.versions.deltas.values()) or self.theirs
        by_version = attrgetter("version")
        below = max((it for it in files if it.version <= version), key=by_version, default=None)
        nearest = below or min(files, key=by_version, default=None)
        return nearest.entry if nearest else None

    @property
    def theirs(self) -> tuple[Snapshot, ...]:
        """Returns the listed snapshots that executors wrote, as far as is known, ascending."""
        ours = self.ours
        theirs = (file for file in self.snapshots if file.entry.path not in ours)
        return tuple(sorted(theirs, key=lambda file: (file.version, file.entry.path)))

    def is_forced(self, snapshot: Snapshot) -> bool:
        """Returns whether the batch of a zip had to write it, as its column families are new.

        Such a zip is no maintenance, and its batch writes it again if it runs again. Mirrors
        `RocksDB.createColFamilyIfAbsent` and `removeColFamilyIfExists`, which force a zip with the
        first version of a store, and with the first after a restart with other families.
        """
        families = self.rocks.families if self.rocks else {}
        if self.rocks is None or not families.get(snapshot.entry.path):
            return False
        if snapshot.version == 1 or snapshot.version in self.rocks.evolved:
            return True
        zips = (it for it in self.snapshots if it.entry.path in families)
        below = (zip_ for zip_ in zips if zip_.version < snapshot.version)
        last = max(below, key=attrgetter("version"), default=None)
        return last is not None and families[last.entry.path] != families[snapshot.entry.path]

    def snapshot_per_batch(self, first: int, last: int) -> bool:
        """Returns whether every batch of a closed range of versions wrote a zip, no changelog.

        A single version does not say: the changelogs below it may be deleted already.
        """
        if self.rocks is None or first >= last:
            return False
        versions, wanted = self.versions, range(self.oldest(first, last), last + 1)
        return all(it in versions.snapshots and it not in versions.deltas for it in wanted)

    def snapshot_path(self, version: int) -> str:
        return self._path(version, "snapshot" if self.rocks is None else "zip")

    def change_path(self, version: int) -> str:
        return self._path(version, "delta" if self.rocks is None else "changelog")

    def _path(self, version: int, kind: str) -> str:
        unique = self.rocks.id_at(version) if self.rocks else None
        return f"{self.id.directory}/{version}{f'_{unique}' if unique else ''}.{kind}"


def is_later(time: float | None, other: float | None) -> bool:
    """Returns whether a time is certainly later than another one."""
    return time is not None and other is not None and time > other


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator as its metadata describe it (written by Spark 4.0+)."""

    id: int
    name: str  # Spark's name for its kind, such as `stateStoreSave`
    stores: tuple[str, ...]
    partitions: int
    declared_id: int | None = None  # the number in its metadata: another one in a copied folder

    @property
    def has_families(self) -> bool:
        """Returns whether its state may be in column families, which a zip must name.

        Mirrors `useColumnFamilies` of `transformWithState`, and of joins that have one store.
        """
        joins = self.name == "symmetricHashJoin" and len(self.stores) == 1
        return joins or self.name.startswith("transformWithState")


@dataclass(frozen=True, slots=True, repr=False)
class Checkpoint(Displayed):
    """Everything that one scan found."""

    root: str
    query_id: str = ""  # from `metadata`; empty when that file is missing
    batches: tuple[int, ...] = ()  # the committed batches still in `commits/`, ascending
    provider: Provider = Provider.HDFS_BACKED
    codec: str = "lz4"  # the compression of every state file, by Spark's short name
    row_checksums: bool = False
    operators: tuple[Operator, ...] = ()
    stores: tuple[Store, ...] = ()
    findings: tuple[Finding, ...] = ()
    unclassified: tuple[Entry, ...] = ()  # of `state/`, but of no store: kept, never touched
    directories: tuple[str, ...] = ()  # in a store's own, with the name of a state file
    left_out: int = 0  # the number of further stores that were not requested
    # The number of partitions of each operator, by its number.
    partitions: Mapping[int, int] = field(default_factory=dict)
    offsets: tuple[int, ...] = ()  # still in `offsets/`, ascending; the last may be uncommitted
    lacks: tuple[str, ...] = ()  # the missing schema files that the operators' metadata promise
    schemas: Mapping[StoreId, Entry] = field(default_factory=dict)
    # The storage's time of each entry of the commit log, and of the offset log, by batch.
    commit_times: Mapping[int, float | None] = field(default_factory=dict)
    planned: Mapping[int, float | None] = field(default_factory=dict)
    commit: Entry | None = None
    # The newest version that was committed before all of the state was listed, if above the target.
    reached: int = 0
    # The offset log entry of the batch after the newest committed one, if it has begun.
    running: Entry | None = None
    # The number of partitions of each batch, if a repartition has changed it.
    counts: Mapping[int, int] = field(default_factory=dict)
    pinned: int | None = None  # the shuffle partitions of the newest committed batch, if known
    # The newest entry that the newest batch reads of each file source's own log.
    file_sources: Mapping[str, int] = field(default_factory=dict)
    pins: tuple[Pin, ...] = ()  # the pins that hold, by id
    record_size: float | None = None  # stored bytes of a record, if a change was read to see them

    def _facts(self) -> Iterator[str]:
        yield quoted(self.root)
        yield "nothing committed" if self.committed is None else f"batch {self.committed}"
        yield counted(len({store.id.operator for store in self.stores}), "operator")
        yield counted(len(self.stores), "store")
        if self.findings:
            yield counted(len(self.findings), "finding")

    def _rows(self) -> Iterator[dict[str, object]]:
        chains = [(it, it.versions.chain(self.target_of(it.id) or 0)) for it in self.stores]
        lengths = [(it, len(of.deltas) if isinstance(of, Chain) else inf) for it, of in chains]
        for store, length in sorted(lengths, key=lambda pair: -pair[1]):
            yield {
                **store.id.columns,
                "snapshots": len(store.versions.snapshots),
                "chain": length if length < inf else "broken",
                "files": len(store.files),
                "bytes": store.size,
            }

    def asks(self, store: StoreId, version: int | None) -> bool:
        return asks(self.counts, store, version)

    def target_of(self, store: StoreId) -> int | None:
        return target_of(self.counts, store, self.target)

    def needed(self, version: int | None) -> tuple[Store, ...]:
        return tuple(store for store in self.stores if self.asks(store.id, version))

    def retained(self, store: StoreId, first: int, last: int) -> int:
        """Returns the number of versions of a closed range whose load needs a store's partition.

        The work is bounded by the batches of known counts, however wide the range is.
        """
        counted = [version for version in map(version_of, self.counts) if first <= version <= last]
        others = max(0, last - first + 1 - len(counted))
        rest = not self.counts or store.partition < max(self.counts.values())
        return others * rest + sum(self.asks(store, version) for version in counted)

    def moved(self, older: int, newer: int) -> bool:
        """Returns whether rows are in different partitions at two versions."""
        counts = {self.counts.get(batch_of(version)) for version in (older, newer) if version}
        return bool(self.counts) and (None in counts or len(counts) > 1)

    @property
    def repartitioned(self) -> frozenset[int]:
        batches = sorted(self.counts)
        changed = (b for a, b in pairwise(batches) if self.counts[a] != self.counts[b])
        return frozenset(version_of(batch) for batch in changed)

    @property
    def committed(self) -> int | None:
        return self.batches[-1] if self.batches else None

    @property
    def target(self) -> int | None:
        """Returns the newest state version that a committed batch wrote (S2)."""
        return None if self.committed is None else version_of(self.committed)

    @property
    def required(self) -> int | None:
        """Returns the oldest version that can still be requested by its batch (S3)."""
        return version_of(self.batches[0]) if self.batches else None

    @property
    def resumes(self) -> int | None:
        """Returns the version that a restart reads, `None` if it begins with empty state.

        Mirrors `MicroBatchExecution.populateStartOffsets`: the newest batch in the offset log runs
        again unless it is the newest committed one, whichever other commits are missing.
        """
        newest = self.offsets[-1] if self.offsets else -1
        if self.committed is not None and self.committed >= newest:
            return self.target
        return max(newest, 0) or None

    @property
    def span(self) -> tuple[int, int] | None:
        """Returns the oldest and the newest version that a restart or a rollback may need."""
        needed = (self.required, self.target, self.resumes)
        versions = [version for version in needed if version is not None]
        return (min(versions), max(versions)) if versions else None


def asks(counts: Mapping[int, int], store: StoreId, version: int | None) -> bool:
    """Returns whether a load of a version needs a store's partition, by the counts of batches.

    Spark's repartition (4.3) leaves the files of partitions that only older batches have. If the
    offsets that give a batch's number of partitions are missing, every partition is needed.
    """
    if not counts or version is None:
        return True
    return store.partition < counts.get(batch_of(version), max(counts.values()))


def target_of(counts: Mapping[int, int], store: StoreId, target: int | None) -> int | None:
    """Returns the version of a store at the target: 0 if that has no such partition any more."""
    return target if asks(counts, store, target) else 0
