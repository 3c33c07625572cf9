"""The files of one RocksDB store as the provider sees them: its versions, read and written.

Mirrors `RocksDB.load` and `RocksDBFileManager` of Spark 4.3. A version with a unique id is loaded
through the lineage in its own changelog; one without, by the numbers in file names.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain as chained
from itertools import pairwise

from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.integrity import row_checksum
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import (
    DELETE,
    DELETE_RANGE,
    MERGE,
    PUT,
    Change,
    Header,
    Lineage,
)
from statemaint.codec.rocksdb.snapshot_zip import ZipMetadata
from statemaint.codec.rows.state_row import Wrapping
from statemaint.errors import CodecError, MissingSstError, NotFoundError, StaleChecksumError
from statemaint.execute.commits import Neighbours
from statemaint.execute.publish import publish_zip
from statemaint.fold import Source
from statemaint.fold.temporary import workplace
from statemaint.model.chain import Chain
from statemaint.model.files import ROCKS_NAMES, Snapshot
from statemaint.model.ids import StoreId
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.provider.files import (
    CannotLoadStateStoreError,
    StateStoreConf,
    discard,
    newest_readable,
    write_file,
)
from statemaint.provider.store import Room, State
from statemaint.storage import Storage
from statemaint.workers import nothing

DEFAULT, FAMILY_SIZE = "default", 2
_DELIMITERS = {1: b",", 2: b""}
_MISSING = (
    "Error reading streaming state file of {} does not exist. If the stream job is restarted with "
    "a new or updated state operation, please create a new checkpoint location or clear the "
    "existing checkpoint location."
)


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
class RocksFiles:
    """Reads and writes the files of one store."""

    store: StoreId
    conf: StateStoreConf
    owner: str
    has_families: bool
    storage: Storage

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
        zips = self._zips()
        lineage = self._lineage(version, unique, zips) if unique else ()
        ids = dict(lineage)
        known = zips & {*lineage} if unique else {each for each in zips if each[1] is None}
        bases = sorted((number for number, _ in known if number <= version), reverse=True)
        if not unique or lineage[0][0] == 1:
            bases.append(0)
        if not bases:
            text = f"Cannot find a base snapshot checkpoint with lineage: {_named(lineage)}."
            raise CannotLoadStateStoreError(self.store.directory, text)
        tried = bases if self.conf.changelog_checkpointing else bases[:1]
        base, loaded = newest_readable(
            self.conf, version, tried, lambda base: self._snapshot(base, ids.get(base))
        )
        room = self._room(version, loaded.rows)
        for number in range(base + 1, version + 1):
            self._replay(loaded, room, self.path(number, ids.get(number), "changelog"))
        repaired = base != bases[0]
        return replace(loaded, version=version, lineage=lineage, repaired=repaired)

    def _zips(self) -> set[tuple[int, str | None]]:
        entries = self.storage.list(self.store.directory)
        files = (ROCKS_NAMES.classify(entry) for entry in entries)
        inside = f"{self.store.directory}/"
        return {
            (file.version, file.id)
            for file in files
            if isinstance(file, Snapshot) and file.entry.path == inside + file.entry.name
        }

    def _lineage(self, version: int, unique: str, zips: set[tuple[int, str | None]]) -> Lineage:
        """Returns the attempts from a snapshot, or version 1, up to this one."""
        own = ((version, unique),)
        if own[0] in zips:
            return own
        path = self.path(version, unique, "changelog")
        with self._readable("changelog", path):
            lineage = (*changelog.read_header(self._payload(path)).lineage, *own)
        if any(newer[0] != older[0] + 1 for older, newer in pairwise(lineage)):
            why = "Lineage versions are not increasing by one."
            text = f"Invalid checkpoint lineage: {_named(lineage)}. {why}"
            raise CannotLoadStateStoreError(self.store.directory, text)
        return lineage

    def _snapshot(self, version: int, unique: str | None) -> LoadedVersion:
        families = ZipMetadata(())
        rows: State = {}
        if version:
            from statemaint.fold.rocksdb.write import folded  # noqa: PLC0415 -- RocksDB is large

            path = self.path(version, unique, "zip")
            with self._readable("snapshot", path):
                snapshot = Snapshot(version, self.storage.stat(path), unique)
                with folded(self._source(path), Chain(version, snapshot, ())) as fold:
                    found = chained.from_iterable(fold.database.rows())
                    puts = self.applied(rows, ((PUT, key, value) for key, value in found))
                    deque(self._room(version, rows).take(puts), maxlen=0)
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
        with self._readable("changelog", path):
            checksums = self.conf.row_checksum_enabled
            header, changes = changelog.decode(self._payload(path), row_checksums=checksums)
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

    def _room(self, version: int, rows: State) -> Room:
        return Room(self.owner, version, self.conf.max_bytes_in_memory, rows)

    def _source(self, path: str) -> Source:
        codec, checksums = COMPRESSIONS[self.conf.compression_codec], self.conf.row_checksum_enabled
        return Source(self.storage, codec, checksums, bytes(16)).beside(path)

    def _payload(self, path: str) -> Iterator[bytes]:
        return (bytes(block.payload) for block in self._source(path).blocks(path))

    @contextmanager
    def _readable(self, kind: str, path: str) -> Iterator[None]:
        place = f"{self.storage.root}/{path}"
        text = f"Error reading {kind} file {place} of {self.owner}: "
        try:
            yield
        except NotFoundError as error:
            text = (
                _MISSING.format(place) if kind == "changelog" else f"{text}{place} does not exist."
            )
            raise CannotLoadStateStoreError(path, text) from error
        except (CodecError, MissingSstError, StaleChecksumError) as error:
            raise CannotLoadStateStoreError(path, f"{text}{error.detail}.") from error

    # -- writing

    def write_changelog(
        self, version: int, changes: Iterable[Change], unique: str | None, lineage: Lineage
    ) -> None:
        """Writes a changelog in one step; its lineage ends below its own version."""
        header = Header(1 + self.has_families + 2 * bool(unique), lineage)
        payload = changelog.encode(header, map(self._logged, changes))
        path = self.path(version, unique, "changelog")
        write_file(Neighbours(self.storage), self.conf, path, payload)

    def _logged(self, change: Change) -> Change:
        """Returns a change with its row checksum, which values have already."""
        kind, key, value = change
        sealed = self.conf.row_checksum_enabled and kind == DELETE
        return (kind, row_checksum.seal_key(key), value) if sealed else change

    def write_snapshot(self, loaded: LoadedVersion) -> None:
        """Writes a version's SST file, then the zip that names it, in place of another zip."""
        from statemaint.fold.rocksdb import build_rows  # noqa: PLC0415 -- RocksDB is large
        from statemaint.fold.rocksdb.fetch import Zip  # noqa: PLC0415

        path = self.path(loaded.version, loaded.id, "zip")
        chain = Chain(loaded.version, None, ())
        checksum = self.conf.file_checksum_enabled
        action = WriteSnapshot(self.store, path, chain, SnapshotReason.FORCED, checksum, loaded.id)
        like = Zip(path, loaded.families, {}, self._delimiter)
        rows = iter(sorted(loaded.rows.items()))
        with workplace() as place:
            made = build_rows(
                rows, loaded.version, self._source(path), like, workdir=place, path=path
            )
            self.discard_snapshot(loaded.version, loaded.id)
            readers = Neighbours(self.storage).of(path)
            publish_zip(self.storage, action, made, like=readers, before=nothing)

    def discard_snapshot(self, version: int, unique: str | None) -> None:
        """Deletes a zip that an earlier attempt left: it would hide a new changelog."""
        discard(self.storage, self.path(version, unique, "zip"))


def _named(lineage: Lineage) -> str:
    return " ".join(f"{version}:{unique}" for version, unique in lineage)
