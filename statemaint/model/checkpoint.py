"""A checkpoint as one scan saw it: what `scan` makes, and all that `plan` may look at."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from itertools import pairwise

from statemaint.listing import Entry
from statemaint.model.chain import Versions
from statemaint.model.files import Delta, Snapshot, StateFile, snapshot_version
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId, batch_of, version_of
from statemaint.model.proof import Attestation, Outdated
from statemaint.model.uploads import NOTHING_SEEN, Uploads


@unique
class Provider(StrEnum):
    """The state store providers that can be maintained, by their class names."""

    HDFS_BACKED = "HDFSBackedStateStoreProvider"
    ROCKSDB = "RocksDBStateStoreProvider"


@dataclass(frozen=True, slots=True)
class Rocks:
    """What else is known of a store of RocksDB.

    Attributes:
        ids: the unique id that counts at each version, as far down as anything says.
        plain: the newest version below those that has none, as has every one below it; 0 where
            nothing says so.
        parts: the shared files that each zip refers to, by the zip's path, with their sizes.
        ours: the zips that say that we wrote them: an executor may put its own under the same name.
        unsound: the zips that cannot be loaded, by path, and what is wrong with each.
        unreadable: those of them whose references are unknown.
    """

    ids: Mapping[int, str] = field(default_factory=dict)
    plain: int = 0
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ours: frozenset[str] = frozenset()
    unsound: Mapping[str, str] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()

    def id_at(self, version: int) -> str | None:
        """Returns the unique id of the attempt that counts at a version, if it has one."""
        return self.ids.get(version)

    def counts(self, file: Delta | Snapshot) -> bool:
        """Tells whether a file is of the attempt that counts at its version.

        Versions without unique ids may lie below those with them, and above them too.
        """
        if file.id is None:
            return file.version <= self.plain or file.version > max(self.ids, default=0)
        return self.ids.get(file.version) == file.id

    def loaded(self, files: Iterable[StateFile]) -> Iterator[StateFile]:
        """Yields the changelogs and zips that Spark would load."""
        for file in files:
            if isinstance(file, Delta | Snapshot) and self.counts(file):
                yield file

    def sound(self, files: Iterable[StateFile]) -> Iterator[StateFile]:
        """Yields the changelogs that count, and the zips of them that can be loaded."""
        return (file for file in self.loaded(files) if file.entry.path not in self.unsound)

    def with_parts(self, path: str, parts: Mapping[str, int]) -> "Rocks":
        """Returns the same, with one more zip."""
        return replace(self, parts={**self.parts, path: parts})


@dataclass(frozen=True, slots=True)
class Store:
    """One store.

    Attributes:
        id: which one.
        files: what lies in its directory.
        attestations: what the ledger says of its snapshots.
        findings: what the scan found wrong.
        written: the paths of the newest snapshots that we wrote, or were about to write.
        rocks: what else is known of it where it is one of RocksDB.
        since: the target version when we first wrote a snapshot here, or first noted executors'.
        outdated: the proofs that no longer count because their inputs were replaced.
        former: the proofs of snapshots that other files, or other tables, have taken the place of,
            with what of their inputs was replaced.
        listed: when its files were listed, by the storage's clock.
        uploads: what was noted of executors' snapshots, which may have been deleted since.
        unreadable: the snapshots of ours that somebody who reads the log beside them cannot read,
            by path, and why; as far as a listing tells.
    """

    id: StoreId
    files: tuple[StateFile, ...] = ()
    attestations: tuple[Attestation, ...] = ()
    findings: tuple[Finding, ...] = ()
    written: tuple[str, ...] = ()
    rocks: Rocks | None = None
    since: int | None = None
    outdated: tuple[Outdated, ...] = ()
    former: tuple[Outdated, ...] = ()
    listed: float = 0.0
    uploads: Uploads = NOTHING_SEEN
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def versions(self) -> Versions:
        """Returns its deltas and snapshots by version: those that count, and can be loaded."""
        return Versions.of(self.rocks.sound(self.files) if self.rocks else self.files)

    @property
    def lapsed(self) -> frozenset[str]:
        """Returns the paths of snapshots that are other files than the ones that were proved."""
        return frozenset(one.path for one in self.former)

    def oldest(self, required: int, target: int) -> int:
        """Returns the oldest version that must load of those that the commit log has.

        Mirrors `RocksDBFileManager.deleteOldVersions`, which keeps as many versions as Spark keeps
        batches, while the commit log has one batch more: its oldest may be gone. Then a zip is all
        that is left below the next version, and nothing lies beneath it but what a late task has
        put there since.
        """
        snapshots = self.versions.snapshots if self.rocks else {}
        first = min(snapshots, default=0)
        if not required < first <= target:
            return required
        files = (file for file in self.files if isinstance(file, Delta | Snapshot))
        beneath = [file for file in files if file.version < first]
        late = all(_is_later(file, snapshots[first]) for file in beneath)
        return first if late else required

    @property
    def foreign(self) -> tuple[Snapshot, ...]:
        """Returns the snapshots that somebody else wrote since we first wrote one, ascending."""
        since = self._first_written()
        if since is None:
            return ()
        return tuple(one for one in self.theirs if one.version > since)

    @property
    def ours(self) -> frozenset[str]:
        """Returns the paths of the snapshots that we may have written."""
        return self.rocks.ours if self.rocks else frozenset(self.written)

    def beside(self, version: int) -> Entry | None:
        """Returns the file of the query's own that tells who reads its state at a version (S22).

        That is the change of that version, or of the nearest one below or above; a snapshot by
        executors where there is no change.
        """
        files: tuple[Delta | Snapshot, ...] = tuple(self.versions.deltas.values()) or self.theirs
        below = max((one for one in files if one.version <= version), key=_version, default=None)
        nearest = below or min(files, key=_version, default=None)
        return nearest.entry if nearest else None

    @property
    def theirs(self) -> tuple[Snapshot, ...]:
        """Returns the listed snapshots that executors wrote, as far as anything says, ascending."""
        files = [file for file in self.files if isinstance(file, Snapshot)]
        theirs = [one for one in files if one.entry.path not in self.ours]
        return tuple(sorted(theirs, key=lambda one: (one.version, one.entry.path)))

    def _first_written(self) -> int | None:
        """Returns the version above which everybody else's snapshot is newer than our first."""
        if self.rocks:
            return self.since
        ours = (snapshot_version(path) for path in self.written)
        return min((version for version in ours if version is not None), default=None)

    def snapshot_per_batch(self, first: int, last: int) -> bool:
        """Tells whether every batch of a closed range of versions wrote a zip and no changelog."""
        if self.rocks is None or first >= last:
            return self.rocks is not None and not any(isinstance(x, Delta) for x in self.files)
        versions, wanted = self.versions, range(self.oldest(first, last), last + 1)
        return all(one in versions.snapshots and one not in versions.deltas for one in wanted)

    def snapshot_path(self, version: int) -> str:
        """Returns the path that a version's snapshot has, or would have."""
        if self.rocks is None:
            return f"{self.id.directory}/{version}.snapshot"
        unique = self.rocks.id_at(version)
        return f"{self.id.directory}/{version}{f'_{unique}' if unique else ''}.zip"


def _is_later(file: Delta | Snapshot, other: Snapshot) -> bool:
    one, than = file.entry.modified, other.entry.modified
    return isinstance(file, Delta) and one is not None and than is not None and one > than


def _version(file: Delta | Snapshot) -> int:
    return file.version


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator as its metadata describes it (Spark 4.0+ writes it).

    Attributes:
        id: the operator's number.
        name: Spark's name for its kind, such as `stateStoreSave`.
        stores: the names of its stores.
        partitions: how many partitions its metadata declares.
        declared_id: the number that its metadata give it, which a copied folder brings along.
    """

    id: int
    name: str
    stores: tuple[str, ...]
    partitions: int
    declared_id: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that one scan learned.

    Attributes:
        root: the address it was read from.
        query_id: from `metadata`; empty when that file is missing.
        batches: the committed batches still in `commits/`, ascending.
        offsets: the batches still in `offsets/`, ascending; the last may not be committed.
        lacks: the directories of the schema files that the operators' metadata promise and that
            are not there.
        schemas: the schema file of each store that has one of its own.
        provider: the state store provider of every operator.
        codec: the compression of every state file, by Spark's short name.
        row_checksums: whether every record in them carries a checksum.
        operators: what the operators' metadata say.
        stores: every store, ascending by id.
        findings: what concerns the whole checkpoint.
        unclassified: files under `state/` that belong to no store: kept, never touched.
        directories: those in a store's own directory that have the name of a state file.
        left_out: how many more stores there are, which nobody asked for.
        partitions: how many partitions each operator has, by its number.
        counts: how many partitions each batch has, where a repartition has changed that.
        commit_times: the storage's time of each entry of the commit log, by batch.
        commit: the newest entry of the commit log, as it is listed.
        running: the entry of the offset log of the batch that comes next, if it has begun.
    """

    root: str
    query_id: str = ""
    batches: tuple[int, ...] = ()
    provider: Provider = Provider.HDFS_BACKED
    codec: str = "lz4"
    row_checksums: bool = False
    operators: tuple[Operator, ...] = ()
    stores: tuple[Store, ...] = ()
    findings: tuple[Finding, ...] = ()
    unclassified: tuple[Entry, ...] = field(default=())
    directories: tuple[str, ...] = ()
    left_out: int = 0
    partitions: Mapping[int, int] = field(default_factory=dict)
    offsets: tuple[int, ...] = ()
    lacks: tuple[str, ...] = ()
    schemas: Mapping[StoreId, Entry] = field(default_factory=dict)
    commit_times: Mapping[int, float | None] = field(default_factory=dict)
    commit: Entry | None = None
    running: Entry | None = None
    counts: Mapping[int, int] = field(default_factory=dict)

    def asks(self, store: StoreId, version: int | None) -> bool:
        """Returns whether loading a version asks for a store's partition.

        Spark's repartition (4.3) leaves the files of partitions that only older batches have. What
        a batch has is in its offsets; where these are gone, every partition is asked for.
        """
        if not self.counts or version is None:
            return True
        most = max(self.counts.values())
        return store.partition < self.counts.get(batch_of(version), most)

    def moved(self, older: int, newer: int) -> bool:
        """Returns whether rows lie in other partitions at one version than at another."""
        counts = {self.counts.get(batch_of(one)) for one in (older, newer) if one}
        return bool(self.counts) and (None in counts or len(counts) > 1)

    @property
    def repartitioned(self) -> frozenset[int]:
        """Returns the versions that a repartition has written, as far as the logs say."""
        batches = sorted(self.counts)
        changed = (b for a, b in pairwise(batches) if self.counts[a] != self.counts[b])
        return frozenset(version_of(batch) for batch in changed)

    @property
    def committed(self) -> int | None:
        """Returns the newest committed batch, `None` when there is none."""
        return self.batches[-1] if self.batches else None

    @property
    def target(self) -> int | None:
        """Returns the newest state version that a committed batch wrote (S2)."""
        return None if self.committed is None else version_of(self.committed)

    @property
    def required(self) -> int | None:
        """Returns the oldest version that somebody can still ask for by its batch (S3)."""
        return version_of(self.batches[0]) if self.batches else None

    @property
    def resumes(self) -> int | None:
        """Returns the version that a restart reads, `None` where it begins with empty state.

        Mirrors `MicroBatchExecution.populateStartOffsets`: the newest batch in the offset log runs
        again unless it is the newest committed one, whichever other commits are missing.
        """
        newest = self.offsets[-1] if self.offsets else -1
        if self.committed is not None and self.committed >= newest:
            return self.target
        return max(newest, 0) or None

    @property
    def span(self) -> tuple[int, int] | None:
        """Returns the oldest and the newest version that a restart or a rollback may ask for."""
        asked = [one for one in (self.required, self.target, self.resumes) if one is not None]
        return (min(asked), max(asked)) if asked else None
