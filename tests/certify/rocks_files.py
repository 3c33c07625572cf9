"""Snapshots of RocksDB: made as executors make them, and read without any code of `statemaint`.

    zip       = RocksDB's own small files, and `metadata`, a line `v1` and JSON
    tables    = beside the zips, in `SSTs/`
    families  = the zip alone says which number each column family has; a changelog has only numbers

Databases are tiny, and each is built or read only once.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Checkpoint,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from tests.certify.files import State, family_of

_LEFT_OUT = ("rocksdict-config.json", "LOCK", "LOG")
# A snapshot on a database of so many tables is made of one new table.
_MOST_TABLES = 3
_EPOCH = (1980, 1, 1, 0, 0, 0)
_BLOCK_FORMAT = 5
_OPERATOR = re.compile(rb"merge_operator=[^\n]*")
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Families:
    """The column families of a store, as its zips name them.

    Attributes:
        ids: name and number of each.
        internal: the names of those that are Spark's own.
        last: the highest number that one ever had.
    """

    ids: tuple[tuple[str, int], ...] = ()
    internal: frozenset[str] = frozenset()
    last: int = 0

    @property
    def names(self) -> Mapping[str, int]:
        """Returns the number of each family by its name."""
        return dict(self.ids)

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(number for _, number in self.ids)

    def with_one(self, name: str, *, internal: bool = False) -> "Families":
        """Returns the families after `createColFamilyIfAbsent`."""
        if name in self.names:
            return self
        ids, number = self.ids, self.last + 1
        marked = self.internal | {name} if internal else self.internal
        return Families((*ids, (name, number)), marked, number)

    def without(self, name: str) -> "Families":
        """Returns the families after `removeColFamilyIfExists`: no number is used again."""
        left = tuple(one for one in self.ids if one[0] != name)
        return Families(left, self.internal - {name}, self.last)


NO_FAMILIES = Families()


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
        removed = {one for one, _ in base.state} - set(state) if base else set()
        database = Rdict(str(place / "db"), _options())
        batch, unlogged = WriteBatch(raw_mode=True), WriteOptions()
        unlogged.disable_wal = True  # type: ignore[method-assign, assignment]
        for one, value in state.items():
            batch.put(one, value)
        for one in removed:
            batch.delete(one)
        database.write(batch, unlogged)
        database.flush()
        Checkpoint(database).create_checkpoint(str(place / "made"))
        database.close()
        files = {file.name: file.read_bytes() for file in sorted((place / "made").iterdir())}
    tables = {name: one for name, one in files.items() if name.endswith(".sst")}
    members = {
        name: _as_spark(name, one)
        for name, one in files.items()
        if name not in (*tables, *_LEFT_OUT)
    }
    return Image(key, members, tables, frozenset(state.items()))


def _options() -> Options:
    options, blocks = Options(raw_mode=True), BlockBasedOptions()
    options.create_if_missing(True)
    blocks.set_format_version(_BLOCK_FORMAT)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_disable_auto_compactions(True)
    options.set_max_file_opening_threads(1)  # sixteen take longer to start
    options.set_stats_persist_period_sec(0)
    options.set_stats_dump_period_sec(0)
    return options


def _as_spark(name: str, content: bytes) -> bytes:
    """Returns the options with Spark's merge operator, which concatenates (version 2)."""
    if not name.startswith("OPTIONS-"):
        return content
    return _OPERATOR.sub(b"merge_operator=StringAppendOperator", content)


def _lay_out(image: Image, place: Path) -> None:
    place.mkdir()
    for name, content in (*image.members.items(), *image.tables.items()):
        (place / name).write_bytes(content)


def render(image: Image, stored: Mapping[str, str], families: Families = NO_FAMILIES) -> bytes:
    """Returns the zip of a database."""
    internal = {number for name, number in families.ids if name in families.internal}
    hidden = sum(family_of(key) in internal for key, _ in image.state) if internal else 0
    fields = {
        "sstFiles": [
            {"localFileName": local, "dfsSstFileName": stored[local], "sizeBytes": len(content)}
            for local, content in image.tables.items()
        ],
        "numKeys": len(image.state) - hidden,
        "numInternalKeys": hidden,
        "columnFamilyMapping": families.names,
        "columnFamilyTypeMap": {name: name in families.internal for name, _ in families.ids},
        "maxColumnFamilyId": families.last,
    }
    metadata = f"v1\n{json.dumps(fields, separators=(',', ':'))}".encode()
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted({**image.members, "metadata": metadata}.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    content = target.getvalue()
    _STATES[_key(content, image.tables)] = dict(image.state)
    return content


def _key(content: bytes, tables: Mapping[str, bytes]) -> int:
    return hash((content, tuple(sorted(tables.items()))))


@dataclass(frozen=True, slots=True)
class _Zip:
    """What is in a zip: its members, and local name, stored name and size of each table."""

    members: Mapping[str, bytes]
    tables: tuple[tuple[str, str, int], ...]
    families: Families
    keys: tuple[int, int]


@lru_cache(maxsize=1 << 14)
def _opened(content: bytes) -> _Zip | None:
    try:
        with zipfile.ZipFile(BytesIO(content)) as found:
            members = {name: found.read(name) for name in found.namelist()}
        fields: dict[str, Any] = json.loads(members.pop("metadata").partition(b"\n")[2])
        tables = tuple(
            (one["localFileName"], one["dfsSstFileName"], one["sizeBytes"])
            for one in fields["sstFiles"]
        )
        keys = fields["numKeys"], fields.get("numInternalKeys", 0)
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError):
        return None
    return _Zip(members, tables, _families(fields), keys)


def _families(fields: Mapping[str, Any]) -> Families:
    ids = tuple(sorted(fields.get("columnFamilyMapping", {}).items(), key=lambda one: int(one[1])))
    kinds = fields.get("columnFamilyTypeMap", {})
    internal = frozenset(name for name, _ in ids if kinds.get(name))
    return Families(ids, internal, fields.get("maxColumnFamilyId", 0))


def families_of(content: bytes) -> Families:
    """Returns the column families that a zip names."""
    found = _opened(content)
    return found.families if found else NO_FAMILIES


def counts_right(content: bytes, state: State) -> bool:
    """Returns whether a zip says how many rows it has: Spark goes by that."""
    found = _opened(content)
    if found is None:
        return False
    internal = {number for name, number in found.families.ids if name in found.families.internal}
    hidden = sum(family_of(key) in internal for key in state)
    return found.keys == (len(state) - hidden, hidden)


def tables_of(content: bytes) -> tuple[str, ...]:
    """Returns the stored names of the tables that a zip refers to; none where it is no zip."""
    found = _opened(content)
    return tuple(stored for _, stored, _ in found.tables) if found else ()


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
    for name, stored, size in found.tables:
        table = tables.get(stored)
        if table is None or len(table) != size:
            return None
        local[name] = table
    return found.members, local


def _rows(members: Mapping[str, bytes], tables: Mapping[str, bytes]) -> State | None:
    with TemporaryDirectory() as name:
        _lay_out(Image(0, members, tables, frozenset()), Path(name, "db"))
        try:
            database = Rdict(str(Path(name, "db")), _options(), access_type=AccessType.read_only())
            rows: State = dict(database.items())  # type: ignore[arg-type]
            database.close()
        except Exception:  # noqa: BLE001 -- `rocksdict` raises nothing else
            return None
    return rows


def unzipped(content: bytes, tables: Mapping[str, bytes | None]) -> Zipped | None:
    """Returns the database in a zip, as an executor has it that has loaded it."""
    found, state, zipped = _image(content, tables), state_of(content, tables), _opened(content)
    if found is None or state is None or zipped is None:
        return None
    stored = {local: name for local, name, _ in zipped.tables}
    key = hash((_key(content, found[1]), "loaded"))
    return Zipped(Image(key, found[0], found[1], frozenset(state.items())), stored)
