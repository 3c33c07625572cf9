"""The files of one RocksDB store as the provider sees them: its versions, read and written.

Mirrors `RocksDB.load` and `RocksDBFileManager` of Spark 4.3. A version with a unique id is loaded
through the lineage in its own changelog; one without, by the numbers in file names.
"""

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain as chained
from itertools import pairwise

from statemaint.codec.integrity import row_checksum
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, DELETE_RANGE, MERGE, PUT, Change, Lineage
from statemaint.codec.rocksdb.snapshot_zip import ZipMetadata, parse_metadata
from statemaint.codec.rows.state_row import Wrapping
from statemaint.errors import CodecError, in_file
from statemaint.execute.fence import Neighbours
from statemaint.execute.publish import publish_zip
from statemaint.fold.temporary import workplace
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import ROCKS_NAMES, Delta, Snapshot
from statemaint.model.rocks import oldest_kept
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.provider.files import (
    CannotLoadStateStoreError,
    Room,
    State,
    StoreFiles,
    newest_readable,
)
from statemaint.scan.rocks import shared_paths
from statemaint.workers import nothing

DEFAULT, FAMILY_SIZE = "default", 2
Attempt = tuple[int, str | None]
_DELIMITERS = {1: b",", 2: b""}


@dataclass(slots=True)
class LoadedVersion:
    """A version in memory.

    Attributes:
        rows: as they are in the database.
        families: the column families, as a zip records them; without any in a store that has none.
        lineage: the attempts since the last snapshot and at last this version's own, with ids.
        snapshot: the version of the last snapshot, at or below this one.
        renamed: whether families were created or removed since, which only a zip records.
        repaired: whether a newer snapshot could not be read.
    """

    version: int
    rows: State
    families: ZipMetadata
    lineage: Lineage = ()
    snapshot: int = 0
    renamed: bool = False
    repaired: bool = False

    @property
    def id(self) -> str | None:
        return self.lineage[-1][1] if self.lineage else None

    def copy(self) -> "LoadedVersion":
        return replace(self, rows=dict(self.rows))

    def counts(self) -> tuple[int, int]:
        """Returns the number of keys outside and in internal families."""
        numbers = self.families.families.items()
        internal = tuple(front(number) for name, number in numbers if self.families.internal[name])
        inside = sum(key.startswith(internal) for key in self.rows)  # none are of no family
        return len(self.rows) - inside, inside


def front(number: int) -> bytes:
    """Returns the bytes with which the keys of a column family begin."""
    return number.to_bytes(FAMILY_SIZE, "little", signed=True)


def with_family(families: ZipMetadata, name: str, *, internal: bool) -> ZipMetadata:
    number = families.last_family + 1
    return replace(
        families,
        families={**families.families, name: number},
        internal={**families.internal, name: internal},
        last_family=number,
    )


@dataclass(frozen=True, slots=True)
class RocksFiles(StoreFiles):
    """Reads and writes the files of one store."""

    has_families: bool

    @property
    def wrapping(self) -> Wrapping:
        families = FAMILY_SIZE if self.has_families else 0
        return Wrapping(families, self.conf.row_checksum_enabled, self._delimiter)

    @property
    def _delimiter(self) -> bytes:
        return _DELIMITERS[self.conf.merge_operator_version]

    def path(self, version: int, unique: str | None, kind: str) -> str:
        suffix = f"_{unique}" if unique else ""
        return f"{self.store.directory}/{version}{suffix}.{kind}"

    # -- reading

    def load(self, version: int, unique: str | None = None) -> LoadedVersion:
        files = self._versions(self.storage.list(self.store.directory))
        zips = {(file.version, file.id) for file in files if isinstance(file, Snapshot)}
        lineage = self._lineage(version, unique, zips) if unique else ()
        bases = _bases(version, lineage, zips)
        try:
            return self._load(version, lineage, bases)
        except CannotLoadStateStoreError as error:
            if not unique or not self.conf.changelog_checkpointing:
                raise
            try:
                whole = self._whole_lineage(version, unique)
            except CannotLoadStateStoreError:
                raise error from None
            older = (base for base in _bases(version, whole, zips) if base != bases[0])
            return self._load(version, whole, [bases[0], *older], failed=error)

    def _load(
        self,
        version: int,
        lineage: Lineage,
        bases: Sequence[int],
        failed: CannotLoadStateStoreError | None = None,
    ) -> LoadedVersion:
        """Loads a version from the first of its bases that loads; the first may have `failed`."""
        ids = dict(lineage)

        def load(base: int) -> LoadedVersion:
            if failed and base == bases[0]:
                raise failed
            if not base and lineage and lineage[0][0] != 1:
                text = f"Cannot find a base snapshot checkpoint with lineage: {_named(lineage)}."
                raise CannotLoadStateStoreError(self.store.directory, text)
            return self._snapshot(base, ids.get(base))

        tried = bases if self.conf.changelog_checkpointing else bases[:1]
        base, loaded = newest_readable(self.conf, version, tried, load)
        room = self.room(version, loaded.rows)
        for number in range(base + 1, version + 1):
            self._replay(loaded, room, self.path(number, ids.get(number), "changelog"))
        since = tuple(each for each in lineage if each[0] >= base)
        return replace(loaded, version=version, lineage=since, repaired=base != bases[0])

    def _versions(self, entries: Iterable[Entry]) -> Iterator[Delta | Snapshot]:
        for entry in entries:
            file = ROCKS_NAMES.classify(entry)
            inside = entry.path == f"{self.store.directory}/{entry.name}"
            if inside and isinstance(file, Delta | Snapshot):
                yield file

    def _lineage(self, version: int, unique: str, zips: Container[Attempt]) -> Lineage:
        """Returns the attempts from a snapshot, or version 1, up to this one."""
        own: Lineage = ((version, unique),)
        if own[0] in zips:
            return own
        path = self.path(version, unique, "changelog")
        with self.readable("changelog", path):
            lineage = (*changelog.read_header(self.payload(path)).lineage, *own)
        if any(newer[0] != older[0] + 1 for older, newer in pairwise(lineage)):
            why = "Lineage versions are not increasing by one."
            text = f"Invalid checkpoint lineage: {_named(lineage)}. {why}"
            raise CannotLoadStateStoreError(self.store.directory, text)
        return lineage

    def _whole_lineage(self, version: int, unique: str) -> Lineage:
        """Returns the attempts from version 1 on; each changelog has those since a snapshot."""
        lineage = self._lineage(version, unique, frozenset())
        while lineage[0][0] > 1:
            longer = self._lineage(*lineage[0], frozenset())
            if len(longer) == 1:
                raise CannotLoadStateStoreError(self.store.directory, f"cut: {_named(lineage)}")
            lineage = (*longer, *lineage[1:])
        return lineage

    def _snapshot(self, version: int, unique: str | None) -> LoadedVersion:
        families = ZipMetadata(())
        rows: State = {}
        if version:
            from statemaint.fold.rocksdb.write import folded  # noqa: PLC0415 -- RocksDB is large

            path = self.path(version, unique, "zip")
            with self.readable("snapshot", path):
                snapshot = Snapshot(version, self.storage.stat(path), unique)
                with folded(self.source(path), Chain(version, snapshot, ())) as fold:
                    found = chained.from_iterable(fold.database.rows())
                    puts = self.applied(rows, ((PUT, key, value) for key, value in found))
                    deque(self.room(version, rows).take(puts), maxlen=0)
                    families = replace(fold.families, ssts=(), logs=())
                if bool(families.families) != self.has_families:
                    text = "it and the provider do not both have column families"
                    raise CodecError(text, offset=0)
        missing = self.has_families and DEFAULT not in families.families
        if missing:
            families = with_family(families, DEFAULT, internal=False)
        return LoadedVersion(version, rows, families, snapshot=version, renamed=missing)

    def _replay(self, loaded: LoadedVersion, room: Room, path: str) -> None:
        known = frozenset(map(front, loaded.families.families.values()))
        with self.readable("changelog", path):
            checksums = self.conf.row_checksum_enabled
            header, changes = changelog.decode(self.payload(path), row_checksums=checksums)
            if header.column_families != self.has_families:
                raise CodecError(f"it has format {header.format}", offset=0)
            deque(room.take(self.applied(loaded.rows, changes, known)), maxlen=0)

    def applied(
        self, rows: State, changes: Iterable[Change], known: frozenset[bytes] = frozenset()
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Applies changes one at a time, and yields each; all must be of a known family, if any."""
        for kind, key, value in changes:
            if known and kind in (PUT, MERGE) and key[:FAMILY_SIZE] not in known:
                text = f"it has a key of the unknown column family {key[:FAMILY_SIZE].hex()}"
                raise CodecError(text, offset=0)
            if kind == DELETE_RANGE and value is not None:
                for old in [old for old in rows if key <= old < value]:
                    del rows[old]
            elif kind == MERGE and value is not None and key in rows:
                rows[key] += self._delimiter + value
            elif value is not None:
                rows[key] = value
            else:
                rows.pop(key, None)
            yield key, value

    # -- writing

    def write_changelog(
        self, version: int, changes: Iterable[Change], unique: str | None, lineage: Lineage
    ) -> None:
        """Writes a changelog in one step; its lineage ends below its own version."""
        header = changelog.Header(1 + self.has_families + 2 * bool(unique), lineage)
        payload = changelog.encode(header, map(self._logged, changes))
        path = self.path(version, unique, "changelog")
        self.write(path, payload, Neighbours(self.storage).of(path))

    def _logged(self, change: Change) -> Change:
        """Returns a change with its row checksum, which values have already."""
        kind, key, value = change
        sealed = self.conf.row_checksum_enabled and kind == DELETE
        return (kind, row_checksum.seal_key(key), value) if sealed else change

    def write_snapshot(self, loaded: LoadedVersion) -> None:
        """Writes a version's SST file, then the zip that names it, in place of another zip."""
        from statemaint.fold.compiled.rows import Sums  # noqa: PLC0415 -- numba is large
        from statemaint.fold.rocksdb import build_rows  # noqa: PLC0415 -- RocksDB is large
        from statemaint.fold.rocksdb.fetch import Zip  # noqa: PLC0415

        path = self.path(loaded.version, loaded.id, "zip")
        chain = Chain(loaded.version, None, ())
        checksum = self.conf.file_checksum_enabled
        action = WriteSnapshot(self.store, path, chain, SnapshotReason.FORCED, checksum, loaded.id)
        like = Zip(path, loaded.families, {}, self._delimiter)
        rows, source = sorted(loaded.rows.items()), self.source(path)
        sums = Sums(source.key)
        sums.add_all(rows)
        with workplace() as place:
            made = build_rows(
                iter(rows), loaded.version, source, like, sums.digest(), workdir=place, path=path
            )
            self.discard_snapshot(loaded.version, loaded.id)
            readers = Neighbours(self.storage).of(path)
            publish_zip(self.storage, action, made, like=readers, before=nothing)

    def discard_snapshot(self, version: int, unique: str | None) -> None:
        """Deletes a zip that an earlier attempt left: it would hide a new changelog."""
        self.discard(self.path(version, unique, "zip"))

    # -- deleting

    def delete_old_versions(self) -> int:
        """Deletes what no version needs that is retained or pinned, and returns the oldest kept.

        That is 0 if all are kept. Mirrors `RocksDBFileManager.deleteOldVersions`, and keeps more:
        SST files that no zip names, and with unique ids what any attempt at a retained version
        needs (Spark counts the zips of attempts that are not in its lineage).
        """
        entries = [*self.storage.list(self.store.directory)]
        files = sorted(self._versions(entries), key=lambda file: (file.version, file.id or ""))
        zips = {file: self._parts(file) for file in files if isinstance(file, Snapshot)}
        sizes = {entry.path: entry.size for entry in entries}
        sound = {
            (file.version, file.id)
            for file, parts in zips.items()
            if all(sizes.get(path) == size for path, size in parts.items())
        }
        oldest = self._oldest_kept(files, sound)
        if all(file.version >= oldest for file in zips):
            return 0  # as in Spark: one zip may be all that a running task knows
        uses = Counter(part for parts in zips.values() for part in parts)
        for file in files:
            if file.version < oldest and file not in zips:
                self.discard(file.entry.path)
        # Zips last: while there is an old one, the next maintenance goes on.
        for file, parts in zips.items():
            if file.version >= oldest:
                break
            self.discard(file.entry.path)
            uses.subtract([*parts])
            for part in parts:
                if not uses[part]:
                    self.discard(part)
        return oldest

    def _oldest_kept(self, files: Sequence[Delta | Snapshot], sound: set[Attempt]) -> int:
        retained = self.conf.min_versions_to_retain
        versions = [version for version, _ in sound]
        gathered = files[-1].version - files[0].version + 1 - retained if files else 0
        if not versions or gathered < self.conf.min_versions_to_delete:
            return 0
        limits = [(max(versions), retained)]
        limits += [(pinned, 1) for pinned in self.pinned_versions()]
        if (most := self.conf.max_versions_to_delete_per_maintenance) != -1:
            limits.append((min(versions) + most, 1))
        oldest = min(oldest_kept(versions, *limit) for limit in limits)
        kept = (file for file in files if 0 < oldest <= file.version)
        return min((self._base(file, sound) for file in kept), default=0)

    def _base(self, file: Delta | Snapshot, zips: set[Attempt]) -> int:
        lineage = self._lineage(file.version, file.id, zips) if file.id else ()
        return _bases(file.version, lineage, zips)[0]

    def _parts(self, file: Snapshot) -> Mapping[str, int]:
        with in_file(file.entry.path):
            metadata = parse_metadata(self.storage.read(file.entry.path))
        return shared_paths(self.store.directory, metadata)


def _bases(version: int, lineage: Lineage, zips: set[Attempt]) -> list[int]:
    """Returns the snapshots in the lineage of a version, newest first, and 0: the empty state.

    Without a lineage they are those without an id.
    """
    known = zips & {*lineage} if lineage else {each for each in zips if each[1] is None}
    return [*sorted((number for number, _ in known if number <= version), reverse=True), 0]


def _named(lineage: Lineage) -> str:
    return " ".join(f"{version}:{unique}" for version, unique in lineage)
