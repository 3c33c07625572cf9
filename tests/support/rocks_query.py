"""A model of a live query whose state RocksDB keeps, by `formats.md` section 5.

What it knows beside its files is the truth: the rows of every committed version.

batch       purge the commit log, write a changelog, write commits/b
executor    has a database on its local disk, which came from the newest zip that it loaded; makes
            a snapshot of it every few versions, holds that for a while, and uploads it late: new
            tables, and a zip that also names tables of the zip it had begun from
restart     another executor; what the one before still held may be uploaded all the same
clean-up    of the executors, by Spark's rule
structure   V1: names are versions; V2: every attempt has an id, and the commit log names one
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID, uuid5

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.integrity.digest import StateDigest, digest, digest_key
from statemaint.codec.rocksdb import changelog, snapshot_zip
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Change, Header
from statemaint.fold import Source
from statemaint.fold.rocksdb import Built, RocksEngine, build
from statemaint.model.chain import Chain
from statemaint.model.files import ROCKS_NAMES, Delta, Snapshot, StateFile
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import STORE, offsets_bytes
from tests.support.rocks import PROVIDER, commit_bytes

State = Mapping[bytes, bytes]
Item = tuple[int, str]

HOME = STORE.directory
QUERY = "11111111-2222-3333-4444-555555555555"
_OFFSETS = offsets_bytes({"providerClass": PROVIDER, "shuffle.partitions": "1"})
_LZ4 = COMPRESSIONS["lz4"]
_REMOVES = 2
_SPACE = UUID("00000000-5555-6666-7777-888888888888")
# Executors snapshot every ten versions, and upload within a minute. One that has loaded, or has
# uploaded, uploads its next snapshot before so many versions are over, or never.
LATEST = 19


class LostError(AssertionError):
    """A version that Spark could not load any more."""


# -- what Spark reads


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files that Spark reads for a version: a zip, if there is one, and changelogs above it.

    `lineage` is what an executor knows of ids once it has loaded it.
    """

    version: int
    zip: str | None
    changelogs: tuple[str, ...]
    lineage: tuple[Item, ...] = ()


def path_of(version: int, unique: str | None, kind: str) -> str:
    return f"{HOME}/{version}{f'_{unique}' if unique else ''}.{kind}"


def loaded(files: Mapping[str, bytes], version: int, unique: str | None) -> Loaded:
    """Mirrors `RocksDB.load` of both structures."""
    found = _by_id(files, version, unique) if unique else _by_version(files, version)
    for path in found.changelogs:
        if path not in files:
            raise LostError(f"version {version} does not load: {path} is not there")
    return found


def _by_version(files: Mapping[str, bytes], version: int) -> Loaded:
    zips = [one for one in range(1, version + 1) if path_of(one, None, "zip") in files]
    base = max(zips, default=0)
    above = (path_of(one, None, "changelog") for one in range(base + 1, version + 1))
    return Loaded(version, path_of(base, None, "zip") if base else None, tuple(above))


def _by_id(files: Mapping[str, bytes], version: int, unique: str) -> Loaded:
    mine = (version, unique)
    if path_of(*mine, "zip") in files:
        return Loaded(version, path_of(*mine, "zip"), (), (mine,))
    changes = path_of(*mine, "changelog")
    if changes not in files:
        raise LostError(f"version {version} does not load: {changes} is not there")
    lineage = (*lineage_of(files[changes]), mine)
    zips = [one for one in lineage if path_of(*one, "zip") in files]
    if not zips and lineage[0][0] != 1:
        raise LostError(f"version {version} does not load: no zip lies on {lineage}")
    base = max(zips, default=(0, ""))
    above = tuple(path_of(*one, "changelog") for one in lineage if one > base)
    return Loaded(version, path_of(*base, "zip") if zips else None, above, lineage)


@lru_cache(maxsize=4096)  # of files that are read for every version above them
def lineage_of(content: bytes) -> tuple[Item, ...]:
    return changelog.read_header(_decoded(content)).lineage


@lru_cache(maxsize=4096)
def changes_of(content: bytes) -> tuple[Change, ...]:
    return tuple(changelog.decode(_decoded(content))[1])


def _decoded(content: bytes) -> Iterable[bytes]:
    return compression.decode(_LZ4, BytesIO(content))


def tables_of(content: bytes) -> dict[str, int]:
    """Returns the tables that a zip refers to, with their sizes."""
    found = snapshot_zip.parse_metadata(content).ssts
    return {f"{HOME}/SSTs/{one.stored}": one.size for one in found}


def applied(state: State, changes: Iterable[Change]) -> State:
    """Returns what changes make of a state."""
    rows = dict(state)
    for _, key, value in changes:
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
    return rows


# -- an executor


@dataclass(frozen=True, slots=True)
class Held:
    """A snapshot that an executor has on its disk, and nobody else has seen.

    Attributes:
        version: of which version.
        id: of the attempt that made it.
        zip: its file.
        new: the tables to upload with it, by path.
        begun: the version at which its executor had loaded, or that it had last uploaded.
    """

    version: int
    id: str | None
    zip: bytes
    new: Mapping[str, bytes]
    begun: int

    @property
    def path(self) -> str:
        return path_of(self.version, self.id, "zip")

    @property
    def old(self) -> frozenset[str]:
        """Returns the tables that it needs, and that are in storage already."""
        return frozenset(tables_of(self.zip)) - frozenset(self.new)


@dataclass(slots=True)
class Executor:
    """A database on a local disk: a zip and the changes since.

    Attributes:
        every: after how many versions it makes a snapshot; `None`: never.
        disk: copies of the files that it has read or written.
        found: what the database is made of; `None` when it has to be loaded again.
        last: the version of its last snapshot, uploaded or not.
        begun: the version at which it loaded, or that it last uploaded.
        held: the snapshot that it has not uploaded yet.
    """

    every: int | None
    disk: MemoryStorage = field(default_factory=MemoryStorage)
    found: Loaded | None = None
    last: int = 0
    begun: int = 0
    held: Held | None = None

    def load(self, files: Mapping[str, bytes], version: int, unique: str | None) -> None:
        """Loads a version, unless it is what the database holds already."""
        if self.found and self.found.version == version and self._id() == unique:
            return
        found = loaded(files, version, unique)
        self.disk = MemoryStorage({path: files[path] for path in found.changelogs})
        if found.zip:
            tables = tables_of(files[found.zip])
            for path in (found.zip, *tables):
                if path not in files:
                    raise LostError(f"version {version} does not load: {path} is not there")
                self.disk.write(path, [files[path]])
        self.found, self.begun, self.last = found, version, _version_of(found.zip)

    def _id(self) -> str | None:
        return self.found.lineage[-1][1] if self.found and self.found.lineage else None

    def take(self, unique: str | None, content: bytes) -> None:
        """Carries out the changes of the next version."""
        assert self.found
        version = self.found.version + 1
        path = path_of(version, unique, "changelog")
        self.disk.write(path, [content], overwrite=True)
        lineage = (*self.found.lineage, (version, unique)) if unique else ()
        self.found = Loaded(version, self.found.zip, (*self.found.changelogs, path), lineage)

    def due(self) -> bool:
        assert self.found
        return self.every is not None and self.found.version - self.last >= self.every

    def snapshot(self) -> Held:
        """Makes a snapshot of the database, and holds it; one that was held before is dropped."""
        assert self.found
        version = self.found.version
        with TemporaryDirectory() as place:
            (made,) = build(
                Source(self.disk, _LZ4, row_checksums=False, key=bytes(16)),
                [self._chain(self.found)],
                workdir=Path(place),
                families_from=None,
                reuse=True,
            )
            self.held = _held(made, version, self._id(), self.begun)
        self.last = version
        return self.held

    def _chain(self, found: Loaded) -> Chain:
        files = [_classified(self.disk, path) for path in found.changelogs]
        deltas = tuple(one for one in files if isinstance(one, Delta))
        base = _classified(self.disk, found.zip) if found.zip else None
        return Chain(found.version, base if isinstance(base, Snapshot) else None, deltas)

    def uploaded(self) -> None:
        """Goes on from the snapshot that it held."""
        held, found = self.held, self.found
        assert held
        self.held = None
        for path, content in held.new.items():
            self.disk.write(path, [content], overwrite=True)
        self.disk.write(held.path, [held.zip], overwrite=True)
        if found and (held.version, held.id) in _items(found):
            above = tuple(path for path in found.changelogs if _version_of(path) > held.version)
            lineage = tuple(one for one in found.lineage if one[0] >= held.version)
            self.found = Loaded(found.version, held.path, above, lineage)
            self.begun = held.version


def _items(found: Loaded) -> set[tuple[int, str | None]]:
    plain = ((_version_of(path), None) for path in found.changelogs)
    return {*found.lineage, *(() if found.lineage else plain)}


def _version_of(path: str | None) -> int:
    return int(path.rpartition("/")[2].partition(".")[0].partition("_")[0]) if path else 0


def _classified(storage: Storage, path: str) -> StateFile:
    return ROCKS_NAMES.classify(storage.stat(path))


def _held(made: Built, version: int, unique: str | None, begun: int) -> Held:
    new = {f"{HOME}/SSTs/{one.stored}": one.local.read_bytes() for one in made.new}
    return Held(version, unique, snapshot_zip.render(made.members, made.metadata), new, begun)


# -- the query


@dataclass(frozen=True, slots=True)
class Habits:
    """How a query is set up.

    Attributes:
        window: how many commits are kept beside the newest.
        ids: whether it begins with unique ids.
        latest: within how many versions an executor uploads its next snapshot.
    """

    window: int = 2
    ids: bool = False
    latest: int = LATEST


class Query:
    """The query, and what is true of it."""

    def __init__(self, storage: MemoryStorage, habits: Habits) -> None:
        self.storage, self.habits = storage, habits
        self.truth: list[State] = [{}]
        self.ever: dict[int, str | None] = {}
        self.executor = Executor(None)
        self.late: list[Held] = []
        self.purged = 0
        self._numbers = count(1)
        storage.write("metadata", [b'{"id":"%s"}' % QUERY.encode()])

    @property
    def target(self) -> int:
        """Returns the newest committed version."""
        return len(self.truth) - 1

    @property
    def committed(self) -> dict[int, str | None]:
        """Returns the id of each version whose commit is still in the log."""
        first = max(1, self.target - self.habits.window)
        return {version: self.ever[version] for version in range(first, self.target + 1)}

    @property
    def required(self) -> int:
        """Returns the oldest version whose commit is still in the log."""
        return min(self.committed, default=1)

    @property
    def retained(self) -> dict[int, str | None]:
        """Returns the id of each version that somebody can ask for: executors keep one less."""
        return {one: unique for one, unique in self.committed.items() if one >= self.purged}

    def needed(self) -> set[str]:
        """Returns the tables in storage that a zip may name that is not there yet."""
        mine = self.executor
        held = [mine.held] if mine.held else []
        builds_on = mine.found.zip if mine.found and mine.every is not None else None
        tables = set(tables_of(mine.disk.read(builds_on))) if builds_on else set[str]()
        return tables.union(*(one.old for one in (*held, *self.late)))

    # -- batches

    def commit(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Runs a batch to its commit."""
        self._keep_up()
        changes = self._changes(wanted)
        unique = self._attempt(changes)
        self._note(unique, changes)

    def _note(self, unique: str | None, changes: list[Change]) -> None:
        version = self.target + 1
        self.truth.append(applied(self.truth[-1], changes))
        self.ever[version] = unique
        ids = {"0": [[unique]]} if unique else None
        self.storage.write(f"offsets/{version - 1}", [_OFFSETS], overwrite=True)
        self.storage.write(f"commits/{version - 1}", [commit_bytes(ids)])
        for log in ("offsets", "commits"):
            self.storage.delete(f"{log}/{self.required - 2}")

    def _keep_up(self) -> None:
        """Lets nobody hold a snapshot for longer than anybody does."""
        self.late = [one for one in self.late if self.target - one.begun < self.habits.latest]
        mine = self.executor
        if mine.every is not None and mine.found and self.target - mine.begun >= self.habits.latest:
            if mine.held is None:
                mine.snapshot()
            self.upload()

    def _changes(self, wanted: Iterable[tuple[int, int]]) -> list[Change]:
        """Returns changes with values that nothing ever had before."""
        found: list[Change] = []
        for kind, key in wanted:
            value = None if kind == _REMOVES else b"value %d;" % next(self._numbers)
            found.append((DELETE if value is None else PUT, b"key %d" % key, value))
        return found

    def _attempt(self, changes: list[Change]) -> str | None:
        """Does a batch's work, as far as its commit."""
        version, mine = self.target + 1, self.executor
        unique = self.unique() if self.habits.ids else None
        if self.target:
            mine.load(self.storage.files, self.target, self.ever[self.target])
        else:
            mine.found = Loaded(0, None, ())
        assert mine.found
        content = self.content(changes, mine.found.lineage)
        mine.take(unique, content)
        self.storage.write(path_of(version, unique, "changelog"), [content], overwrite=True)
        if mine.due():
            mine.snapshot()
        return unique

    def content(self, changes: list[Change], lineage: tuple[Item, ...]) -> bytes:
        number = 1 + 2 * self.habits.ids
        payload = changelog.encode(Header(number, lineage), changes)
        return b"".join(compression.encode(_LZ4, payload))

    def unique(self) -> str:
        return str(uuid5(_SPACE, str(next(self._numbers))))

    def restart(self, every: int | None) -> None:
        """Begins anew on another executor; what the one before holds may come late."""
        if self.executor.held:
            self.late.append(self.executor.held)
        self.executor = Executor(every)
        if self.target:
            self.executor.load(self.storage.files, self.target, self.ever[self.target])

    # -- maintenance in the executors

    def upload(self) -> None:
        if self.executor.held:
            self._put(self.executor.held)
            self.executor.uploaded()

    def come_late(self, number: int) -> None:
        """Uploads the snapshot of an executor that the query has left."""
        if self.late:
            self._put(self.late.pop(number % len(self.late)))

    def _put(self, held: Held) -> None:
        for path, content in held.new.items():
            self.storage.write(path, [content], overwrite=True)
        self.storage.write(held.path, [held.zip], overwrite=True)

    def clean_up(self, retain: int) -> bool:
        """Cleans up as executors do; returns whether anything was to be deleted."""
        doomed = self.doomed(retain)
        for path in doomed:
            self.storage.delete(path)
        return bool(doomed)

    def doomed(self, retain: int) -> list[str]:
        """Returns what a clean-up deletes that lists the store now, in its order.

        Mirrors `RocksDBFileManager.deleteOldVersions`, but for what would harm without us too.
        That is: tables that a snapshot on some disk needs (SPARK-55892), and whatever lies below
        the zip of an attempt that failed.
        """
        files = self.storage.files
        zips = self._zips()
        least, gone = self._below(zips, retain)
        if not gone or not self._counts(least):
            return []
        tables = self.swept(retain)
        if tables & self.needed():
            return []
        self.purged = max(self.purged, least)
        old = (path for path in files if path.endswith(".changelog") and _version_of(path) < least)
        return [*tables, *gone, *old]

    def swept(self, retain: int) -> set[str]:
        """Returns the tables that Spark's clean-up would delete, whoever needs them."""
        zips = self._zips()
        _, gone = self._below(zips, retain)
        tracked = {one for few in zips.values() for one in few}
        return self._last_used(zips, gone) | self._orphans(tracked) if gone else set()

    def _zips(self) -> dict[str, dict[str, int]]:
        files = self.storage.files
        return {path: tables_of(content) for path, content in files.items() if _is_zip(path)}

    @staticmethod
    def _below(zips: Iterable[str], retain: int) -> tuple[int, list[str]]:
        """Returns the oldest zip that stays, and those that do not."""
        versions = [*map(_version_of, zips)]
        newest = max(versions, default=0)
        least = max((one for one in versions if one <= newest - retain + 1), default=0)
        return least, [path for path in zips if _version_of(path) < least]

    def _counts(self, version: int) -> bool:
        return path_of(version, self.ever.get(version), "zip") in self.storage.files

    @staticmethod
    def _last_used(zips: Mapping[str, Mapping[str, int]], gone: list[str]) -> set[str]:
        kept = {table for path, few in zips.items() if path not in gone for table in few}
        return {table for path in gone for table in zips[path]} - kept

    def _orphans(self, tracked: set[str]) -> set[str]:
        there = {one.path: one.modified or 0.0 for one in self.storage.list(f"{HOME}/SSTs")}
        if not tracked or len(there) <= len(tracked):
            return set()
        oldest = min((there[path] for path in tracked if path in there), default=0.0)
        return {path for path, modified in there.items() if modified < oldest}


def _is_zip(path: str) -> bool:
    return path.startswith(HOME) and path.endswith(".zip")


# -- the judge

KEY = digest_key(QUERY)


class Judge:
    """Compares what is left of a checkpoint with what is true of its query.

    What it has found equal is found so by the bytes of the files, and never read again.
    """

    def __init__(self, storage: MemoryStorage, query: Query) -> None:
        self._storage, self._query = storage, query
        self._digests: dict[object, StateDigest] = {}

    def look(self) -> None:
        """Every retained version loads its rows, and no zip that it may load from dangles."""
        files = self._storage.files
        least = min(self._query.retained, default=1)
        for version, unique in self._query.retained.items() if self._query.target else ():
            found = loaded(files, version, unique)
            least = min(least, _version_of(found.zip))
            self._rows(files, found)
        self._whole(files, least)

    def _rows(self, files: Mapping[str, bytes], found: Loaded) -> None:
        """The zip by RocksDB, the changelogs above it by a dictionary."""
        base, truth = _version_of(found.zip), self._query.truth
        if found.zip:
            assert self._digest(files, replace(found, changelogs=())) == _digest(truth[base])
        rows: State = truth[base]
        for path in found.changelogs:
            rows = applied(rows, changes_of(files[path]))
        assert rows == truth[found.version], f"version {found.version} holds other rows"

    def fold(self, every: int = 1) -> None:
        """The retained versions as the product folds them: the newest, and each so many below."""
        files = self._storage.files
        retained = sorted(self._query.retained.items(), reverse=True)[::every]
        for version, unique in retained if self._query.target else ():
            found = self._digest(files, loaded(files, version, unique))
            assert found == _digest(self._query.truth[version])

    def _digest(self, files: Mapping[str, bytes], found: Loaded) -> StateDigest:
        tables = tables_of(files[found.zip]) if found.zip else ()
        read = (*([found.zip] if found.zip else ()), *tables, *found.changelogs)
        key = tuple((path, hash(files.get(path))) for path in read)
        if key not in self._digests:
            self._digests[key] = self._folded(found)
        return self._digests[key]

    def _folded(self, found: Loaded) -> StateDigest:
        source = Source(self._storage, COMPRESSIONS["lz4"], row_checksums=False, key=KEY)
        if found.zip and not found.changelogs:
            return RocksEngine().digest(source, found.zip)
        files = [ROCKS_NAMES.classify(self._storage.stat(path)) for path in found.changelogs]
        base = ROCKS_NAMES.classify(self._storage.stat(found.zip)) if found.zip else None
        deltas = tuple(one for one in files if isinstance(one, Delta))
        chain = Chain(found.version, base if isinstance(base, Snapshot) else None, deltas)
        folding = RocksEngine().fold(source, chain, (found.version,), write=False)
        return folding.digests[found.version]

    def _whole(self, files: Mapping[str, bytes], least: int) -> None:
        for path, content in files.items():
            if _is_zip(path) and _version_of(path) >= least:
                for table, size in tables_of(content).items():
                    assert len(files.get(table, b"")) == size, f"{path} lacks {table}"


def _digest(state: State) -> StateDigest:
    return digest(state.items(), KEY)
