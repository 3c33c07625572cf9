"""Snapshots of RocksDB: made as executors make them, and read without any code of `statemaint`.

Databases are tiny, and what was built or read once is never built or read again.
"""

import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rocksdict import AccessType, Options, Rdict

from statemaint.codec.rocksdb import snapshot_zip
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata
from statemaint.fold.rocksdb.database import opened
from tests.certify.files import State
from tests.certify.loading import EMPTY, Loader, Read

_LEFT_OUT = ("rocksdict-config.json", "LOCK", "LOG")
# Where a database has so many tables, a snapshot is made of one new table.
_MOST_TABLES = 3


@dataclass(frozen=True, slots=True)
class Image:
    """A database on a local disk.

    Attributes:
        key: what it is made of; equal images have equal keys.
        members: RocksDB's own small files.
        tables: its tables, by their local names.
        state: what it holds.
    """

    key: int
    members: Mapping[str, bytes]
    tables: Mapping[str, bytes]
    state: frozenset[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Zipped:
    """A database, and the names under which its tables are in storage."""

    image: Image
    stored: Mapping[str, str]


_IMAGES: dict[tuple[int, frozenset[tuple[bytes, bytes]]], Image] = {}
_STATES: dict[int, State | None] = {}


def snapshot(base: Zipped | None, state: State) -> Image:
    """Returns a database with a state, built on another one where that has few tables."""
    small = base if base and len(base.image.tables) < _MOST_TABLES else None
    key = small.image.key if small else 0, frozenset(state.items())
    if key not in _IMAGES:
        _IMAGES[key] = _built(small.image if small else None, state, hash(key))
    return _IMAGES[key]


def _built(base: Image | None, state: State, key: int) -> Image:
    with TemporaryDirectory() as name:
        place = Path(name)
        if base:
            _lay_out(base, place / "db")
        with opened("", place, None, create=base is None) as database:
            gone = {one for one, _ in base.state} - set(state) if base else set()
            database.write([*state.items(), *((one, None) for one in gone)])
            database.flush()
            database.checkpoint(place / "made")
        files = {file.name: file.read_bytes() for file in sorted((place / "made").iterdir())}
    tables = {name: one for name, one in files.items() if name.endswith(".sst")}
    members = {name: one for name, one in files.items() if name not in (*tables, *_LEFT_OUT)}
    return Image(key, members, tables, frozenset(state.items()))


def _lay_out(image: Image, place: Path) -> None:
    place.mkdir()
    for name, content in (*image.members.items(), *image.tables.items()):
        (place / name).write_bytes(content)


def render(image: Image, stored: Mapping[str, str]) -> bytes:
    """Returns the zip of a database."""
    ssts = tuple(
        ImmutableFile(local, stored[local], len(content)) for local, content in image.tables.items()
    )
    content = snapshot_zip.render(image.members, ZipMetadata(ssts, keys=len(image.state)))
    _STATES[_key(content, image.tables)] = dict(image.state)
    return content


def _key(content: bytes, tables: Mapping[str, bytes]) -> int:
    return hash((content, tuple(sorted(tables.items()))))


@lru_cache(maxsize=4096)
def _opened(content: bytes) -> tuple[Mapping[str, bytes], tuple[tuple[str, str, int], ...]] | None:
    """Returns a zip's members, and local name, stored name and size of each of its tables."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as found:
            members = {name: found.read(name) for name in found.namelist()}
        fields: dict[str, Any] = json.loads(members.pop("metadata").partition(b"\n")[2])
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError):
        return None
    return members, tuple(
        (one["localFileName"], one["dfsSstFileName"], one["sizeBytes"])
        for one in fields["sstFiles"]
    )


def tables_of(content: bytes) -> tuple[str, ...]:
    """Returns the stored names of the tables that a zip refers to; none where it is no zip."""
    found = _opened(content)
    return tuple(stored for _, stored, _ in found[1]) if found else ()


def state_of(content: bytes, tables: Mapping[str, bytes | None]) -> State | None:
    """Returns what a zip holds; `None` where Spark could not load it."""
    found = _image(content, tables)
    if found is None:
        return None
    members, local = found
    key = _key(content, local)
    if key not in _STATES:
        _STATES[key] = _rows(members, local)
    return _STATES[key]


def _image(
    content: bytes, tables: Mapping[str, bytes | None]
) -> tuple[Mapping[str, bytes], Mapping[str, bytes]] | None:
    found = _opened(content)
    if found is None:
        return None
    local: dict[str, bytes] = {}
    for name, stored, size in found[1]:
        table = tables.get(stored)
        if table is None or len(table) != size:
            return None
        local[name] = table
    return found[0], local


def _rows(members: Mapping[str, bytes], tables: Mapping[str, bytes]) -> State | None:
    with TemporaryDirectory() as name:
        _lay_out(Image(0, members, tables, frozenset()), Path(name, "db"))
        options = Options(raw_mode=True)
        options.set_max_file_opening_threads(1)  # sixteen take longer to start
        try:
            database = Rdict(str(Path(name, "db")), options, access_type=AccessType.read_only())
            rows: State = dict(database.items())  # type: ignore[arg-type]
            database.close()
        except Exception:  # noqa: BLE001 -- `rocksdict` raises nothing else
            return None
    return rows


def unzipped(content: bytes, tables: Mapping[str, bytes | None]) -> Zipped | None:
    """Returns the database in a zip, as an executor has it that has loaded it."""
    found, state = _image(content, tables), state_of(content, tables)
    if found is None or state is None:
        return None
    stored = {local: name for local, name, _ in (_opened(content) or ({}, ()))[1]}
    key = hash((_key(content, found[1]), "loaded"))
    return Zipped(Image(key, found[0], found[1], frozenset(state.items())), stored)


class RocksLoader(Loader):
    """Spark's rules for RocksDB: the newest zip at or below, or on the lineage, then changelogs."""

    kinds = ("changelog", "zip")

    def whole(self, path: str) -> State | None:
        """Returns the state that Spark loads from a zip; `None` where it does not load."""
        content = self.world.files[path].content
        folder = f"{path.rpartition('/')[0]}/SSTs/"
        tables = {one: self.world.files.get(folder + one) for one in tables_of(content)}
        return state_of(
            content, {one: file.content if file else None for one, file in tables.items()}
        )

    def bare(self, path: str) -> State | None:
        """Returns the state in a zip, with tables from anywhere."""
        content = self.world.files[path].content
        return state_of(content, {one: self._anywhere(one) for one in tables_of(content)})

    def _anywhere(self, name: str) -> bytes | None:
        paths = self.world.index.tables.get(name, ())
        return next((self.world.files[one].content for one in paths), None)


class LineageLoader(RocksLoader):
    """Spark's rule for versions with unique ids: the commit log names one attempt at each."""

    def load(self, store: str, versions: Iterable[int]) -> Mapping[int, Read]:
        """Returns what Spark loads for each version, ascending."""
        from tests.certify.rocks_query import committed_id  # noqa: PLC0415 -- of the same log

        live = {(one.version, one.id or "", one.kind): path
                for path, one in self.world.index.live[store].items()}  # fmt: skip
        found: dict[int, Read] = {}
        for version in versions:
            unique = committed_id(self.world, store, version)
            found[version] = self._by_id(live, version, unique) if unique else Read(None)
        return found

    def _by_id(self, live: Mapping[tuple[int, str, str], str], version: int, unique: str) -> Read:
        from tests.certify.files import UnreadableError, lineage_of  # noqa: PLC0415

        mine = (version, unique)
        if (*mine, "snapshot") in live:
            return self._whole(live[*mine, "snapshot"])
        changes = live.get((*mine, "delta"))
        if changes is None:
            return Read(None)
        try:
            before = lineage_of(self.world.files[changes].content, self.states.codec)
        except UnreadableError:
            return Read(None, None, (changes,))
        lineage = (*before, mine)
        base = max((one for one in lineage if (*one, "snapshot") in live), default=None)
        if base is None and lineage[0][0] != 1:
            return Read(None, None, (changes,))
        read = self._whole(live[*base, "snapshot"]) if base else Read(EMPTY)
        for one in lineage:
            if base is None or one > base:
                read = self._next(read, live.get((*one, "delta")))
        return read
