"""The parts of a RocksDB store's zips, its lineage, and the column families that it uses.

Changelogs have the numbers of families, and only zips their names. Spark writes a zip with the
first version of a store that has families, and with each version that adds one, so in an intact
store no changelog needs to be read. Where such a zip is missing, the changelogs that would need it
are read up to the first one that does: a partition may never have used the new family.

    state/<op>/_stateSchema/<store>/<batch>_<uuid>   the families from that batch on

Mirrors `RocksDB.createColFamilyIfAbsent` and `RocksDB.replayChangelog` of Spark 4.3. There a load
fails with the first put or merge of an unnamed family; removals of its keys are ignored.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise

from statemaint.codec.compression.base import Compression, decode
from statemaint.codec.metadata import schema
from statemaint.codec.metadata.logs import UniqueIds
from statemaint.codec.rocksdb import changelog, snapshot_zip
from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.chain import DEFAULT_FAMILY
from statemaint.model.checkpoint import Store
from statemaint.model.files import UUID, Delta, Snapshot, SstFile, snapshot_version, spark_checksums
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, batch_of, version_of
from statemaint.model.lineage import Attempts, Item, Lost, Trace
from statemaint.model.rocks import Rocks, oldest_kept
from statemaint.scan.layout import unless_refused
from statemaint.storage import Storage
from statemaint.workers import in_order

_SCHEMA = re.compile(rf"(0|[1-9][0-9]{{0,17}})_{UUID}")
Committed = Mapping[int, str | None]
"""The unique id of each version whose commit still exists; `None` if it has none."""


def _id(ids: UniqueIds, store: StoreId, place: int) -> str | None:
    """Returns a store's id in a commit: `None` without ids, "unknown" if ids are incomplete."""
    if not ids:
        return None
    partitions = ids.get(store.operator, ())
    stores = partitions[store.partition] if store.partition < len(partitions) else ()
    return stores[place] if place < len(stores) else "unknown"


@dataclass(slots=True)
class FamilySchemas:
    """The schema files of one store name of an operator, each read at most once a scan."""

    storage: Storage
    entries: tuple[Entry, ...] = ()
    _names: dict[str, frozenset[str] | None] = field(default_factory=dict)

    @property
    def versions(self) -> Mapping[int, Entry]:
        """Returns the file of each version that was the first with its families."""
        matches = ((_SCHEMA.fullmatch(entry.name), entry) for entry in self.entries)
        return {version_of(int(match[1])): entry for match, entry in matches if match}

    def unsure(self, store: Store, oldest: int) -> Iterator[tuple[frozenset[int], list[Delta]]]:
        """Yields changelogs whose base may lack a family, ascending, with the base's families."""
        versions = store.versions
        end = max(versions.deltas, default=0) + 1
        for start, stop in pairwise([0, *sorted(versions.snapshots), end]):
            if stop <= oldest:
                continue
            base = versions.snapshots.get(start)
            families = store.rocks.families.get(base.entry.path, {}) if store.rocks and base else {}
            first = self._first_unsure(start, stop, families) if base else 1
            if first is not None:
                named = frozenset(families.values()) if base else DEFAULT_FAMILY
                between = (number for number in sorted(versions.deltas) if first <= number < stop)
                yield named, [versions.deltas[number] for number in between]

    def _first_unsure(self, start: int, stop: int, families: Mapping[str, int]) -> int | None:
        """Returns the first version above a zip, and below the next, whose families it may lack.

        The schema of the zip's own version is compared only if there are several: any zip has the
        first families, unless it is another's.
        """
        own = max((version for version in self.versions if version <= start), default=None)
        if own and len(self.versions) > 1 and not self._are_named(own, families):
            return start + 1
        evolved = sorted(version for version in self.versions if start < version < stop)
        return next((each for each in evolved if not self._are_named(each, families)), None)

    def _are_named(self, version: int, families: Mapping[str, int]) -> bool:
        """Returns whether all families from a version of `versions` on are certainly among some."""
        path = self.versions[version].path
        if path not in self._names:
            try:
                named = schema.parse_families(self.storage.read(path))
                self._names[path] = frozenset(family.name for family in named)
            except (CodecError, NotFoundError):
                self._names[path] = None
        names = self._names[path]
        return names is not None and names <= families.keys()


@dataclass(frozen=True)
class RocksReading:
    """The reading of the zips and changelogs of RocksDB stores."""

    storage: Storage
    ids: Mapping[int, UniqueIds]  # in the commit of each batch
    expected: tuple[StoreId, ...]
    counts: Mapping[int, int]  # the partitions of each batch, if a repartition has changed them
    compression: Compression
    row_checksums: bool
    schemas: Mapping[tuple[int, str], FamilySchemas]  # by operator and name of the store
    settled: bool  # whether its Spark has one format of a zip's metadata

    def all(self, stores: Iterable[Store]) -> Iterator[Store]:
        jobs = (partial(self._of, replace(store, rocks=Rocks())) for store in stores)
        return in_order(jobs, threads=self.storage.parallel)

    def _of(self, store: Store) -> Store:
        return store if store.unread else unless_refused(store, partial(self._readable, store))

    def _readable(self, store: Store) -> Store:
        # Reads every zip, which is small, and only as many changelogs as the lineage and the column
        # families require.
        committed = self._committed(store.id)
        settled = self.settled or bool(spark_checksums(store.files))  # since Spark 4.1
        read = _Reading(self.storage, store, committed, self.compression, settled).done()
        schemas = self.schemas.get((store.id.operator, store.id.store))
        if schemas is None or read.rocks is None:
            return read
        used: dict[str, frozenset[int]] = {}
        for named, deltas in schemas.unsure(read, min(committed, default=1)):
            for delta in deltas:
                used[delta.entry.path] = self._used_by(delta)
                if not used[delta.entry.path] <= named:
                    break
        rocks = replace(read.rocks, evolved=frozenset(schemas.versions), used=used)
        return replace(read, rocks=rocks)

    def _committed(self, store: StoreId) -> Committed:
        # A commit lists an operator's stores in the order of their names.
        place = sorted(self._names[store.operator]).index(store.store)
        number, counts = store.partition, self.counts
        batches = (batch for batch in self.ids if number < counts.get(batch, number + 1))
        return {version_of(batch): _id(self.ids[batch], store, place) for batch in batches}

    @cached_property
    def _names(self) -> Mapping[int, set[str]]:
        names: dict[int, set[str]] = defaultdict(set)
        for store in self.expected:
            names[store.operator].add(store.store)
        return names

    def _used_by(self, delta: Delta) -> frozenset[int]:
        try:
            with self.storage.open(delta.entry.path) as stream:
                payload = decode(self.compression, stream)
                changes = changelog.decode(payload, row_checksums=self.row_checksums)
                return changelog.families_used(*changes)
        except (CodecError, NotFoundError):
            return frozenset()  # `verify` reports what cannot be read


@dataclass(slots=True)
class _Reading:
    storage: Storage
    store: Store
    committed: Committed
    compression: Compression
    settled: bool
    ours: set[str] = field(default_factory=set)
    formats: dict[str, str] = field(default_factory=dict)
    families: dict[str, Mapping[str, int]] = field(default_factory=dict)
    lineages: dict[Item, tuple[Item, ...]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def done(self) -> Store:
        parts = self._parts()
        self.unreadable |= self._strange()
        ids, plain = self._ids()
        rocks = Rocks(
            ids=ids,
            plain=plain,
            parts=parts,
            ours=frozenset(self.ours),
            unsound=self.unreadable | self._missing(parts),
            unreadable=frozenset(self.unreadable),
            families=self.families,
            unsettled=bool(ids) and not self.settled,
        )
        findings = (*self.store.findings, *self.findings)
        return replace(self.store, rocks=rocks, findings=findings)

    # -- references of the zips

    def _parts(self) -> dict[str, Mapping[str, int]]:
        parts: dict[str, Mapping[str, int]] = {}
        for file in self.store.snapshots:
            path = file.entry.path
            try:
                parts[path] = self._refers_to(path)
            except NotFoundError:
                self._forget(file)
            except CodecError as error:
                self.unreadable[path] = str(error.at(path))
        return parts

    def _strange(self) -> Mapping[str, str]:
        """Returns why our zips do not load if they have another format than all of executors'."""
        theirs = {form for path, form in self.formats.items() if path not in self.ours}
        ours = self.ours & self.formats.keys() if theirs else set()
        return {
            path: f"{path} has metadata of format {self.formats[path]}, and what executors wrote "
            f"has {', '.join(sorted(theirs))}: Spark 4.0 reads only that of its sessions"
            for path in ours
            if self.formats[path] not in theirs
        }

    def _refers_to(self, path: str) -> Mapping[str, int]:
        content = self.storage.read(path)
        if snapshot_zip.marked(content):
            self.ours.add(path)
        metadata = snapshot_zip.parse_metadata(content)
        if self.settled and metadata.format != snapshot_zip.PLAIN_FORMAT:
            detail = f"zip metadata of format {metadata.format}, which only Spark 4.0 reads"
            raise CodecError(detail, offset=0)
        self.formats[path] = metadata.format
        self.families[path] = metadata.families
        return shared_paths(self.store.id.directory, metadata)

    def _missing(self, parts: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
        files = (file.entry for file in self.store.files if isinstance(file, SstFile))
        sizes = {entry.path: entry.size for entry in files}
        unsound = {}
        for path, wanted in parts.items():
            missing = sorted(part for part, size in wanted.items() if sizes.get(part) != size)
            if missing:
                state = "has another size" if missing[0] in sizes else "does not exist"
                more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
                unsound[path] = f"{path} needs {missing[0]}, which {state}{more}{self._swept(path)}"
        return unsound

    def _swept(self, path: str) -> str:
        """Returns the likely cause if Spark's own clean-up deletes a zip; empty otherwise.

        `RocksDBFileManager.deleteOldVersions` deletes the SST files before the zips that name them,
        and keeps one version less than the commit log has batches. An executor that is killed in
        between leaves its oldest zips without SST files until the next clean-up.
        """
        zips = [file.version for file in self.store.snapshots]
        retain = max(self.committed, default=0) - min(self.committed, default=0)
        first = oldest_kept(zips, max(zips), retain)
        version = snapshot_version(path)
        if version is None or version >= first or retain < 1:
            return ""
        return (
            f" (Spark keeps nothing below version {first}: an executor that is killed in the middle"
            " of its clean-up leaves this, and its next clean-up ends it)"
        )

    def _forget(self, file: Snapshot | Delta) -> None:
        kept = tuple(each for each in self.store.files if each is not file)
        self.store = replace(self.store, files=kept)

    # -- the attempt that counts at each version

    def _ids(self) -> tuple[dict[int, str], int]:
        named = {version: unique for version, unique in self.committed.items() if unique}
        if not named:
            return {}, 0
        items: dict[int, str] = {}
        lowest = max(named) + 1
        # A partition that some batches did not have begins again with the next batch that has it.
        while top := max((version for version in named if version < lowest), default=0):
            trace = self._trace((top, named[top]), named)
            self._compare(trace, {version: named[version] for version in named if version <= top})
            items |= dict(trace.items)
            lowest = trace.lowest[0]
            if lowest - 1 in self.committed:
                break
        plain = lowest - 1 if self.committed.get(lowest - 1, "unknown") is None else 0
        return items, plain

    def _trace(self, item: Item, named: Mapping[int, str]) -> Trace:
        while True:
            trace = Attempts(self.store.files, self.lineages, named).trace(item)
            if trace.unread is None:
                return trace
            self._read(trace.unread)

    def _read(self, file: Delta) -> None:
        item, path = (file.version, file.id or ""), file.entry.path
        try:
            with self.storage.open(path) as stream:
                header = changelog.read_header(decode(self.compression, stream))
        except NotFoundError:
            self._forget(file)
            return
        except CodecError as error:
            self._broken(Lost(item, f"{error.at(path)}"))
            header = changelog.Header(0, ())
        self.lineages[item] = header.lineage

    def _compare(self, trace: Trace, named: Mapping[int, str]) -> None:
        attempts = Attempts(self.store.files, self.lineages, named)
        loads = trace.lost or attempts.chain(trace)
        if isinstance(loads, Lost):
            self._broken(loads)
        lineage = dict(trace.items)
        for version, unique in sorted(named.items()):
            other = lineage.get(version, unique)
            if other != unique:
                detail = f"its commit names it, and the newest commit's lineage names {other}"
                self._broken(Lost((version, unique), detail))

    def _broken(self, lost: Lost) -> None:
        version, unique = lost.item
        directory = self.store.id.directory
        commit = f"commits/{batch_of(version)}" if self.committed.get(version) == unique else None
        named = f", which {commit} names" if commit else ""
        detail = (
            f"{directory}: the lineage breaks at version {version}, id {unique}{named}: "
            f"{lost.detail}; nothing is deleted until it is whole again"
        )
        code = FindingCode.LINEAGE_BROKEN
        self.findings.append(Finding(code, detail, self.store.id, version, path=commit))


def shared_paths(directory: str, metadata: snapshot_zip.ZipMetadata) -> dict[str, int]:
    tables = {f"{directory}/SSTs/{table.stored}": table.size for table in metadata.ssts}
    logs = {f"{directory}/logs/{log.stored}": log.size for log in metadata.logs}
    return tables | logs
