"""RocksDB stores in memory: changelogs and zips as Spark has them, and a dictionary beside them."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rocksdb import changelog, snapshot_zip
from statemaint.codec.rocksdb.changelog import DELETE, MERGE, PUT, Change, Header
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata, ZipShape
from statemaint.fold import Source
from statemaint.fold.rocksdb import Built, Limits
from statemaint.fold.rocksdb.database import opened
from statemaint.fold.rocksdb.write import folded
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot
from statemaint.storage import MemoryStorage, Storage

KEY = bytes(range(16))
STORE = "state/0/0"
FAMILIES = {"default": 1, "list": 2, "$count": 3}
INTERNAL = {"default": False, "list": False, "$count": True}

State = dict[bytes, bytes]


def source_of(storage: Storage, codec: str = "lz4") -> Source:
    """Returns the source of a store's files."""
    return Source(storage, COMPRESSIONS[codec], row_checksums=False, key=KEY)


def key_of(family: str, name: bytes) -> bytes:
    """Returns a key as it lies in a store with column families."""
    return struct.pack("<h", FAMILIES[family]) + name


def apply(state: State, changes: Iterable[Change], delimiter: bytes) -> None:
    """Carries changes out, one after the other."""
    for kind, key, value in changes:
        if kind == DELETE:
            state.pop(key, None)
        elif kind == PUT and value is not None:
            state[key] = value
        elif kind == MERGE and value is not None:
            state[key] = state[key] + delimiter + value if key in state else value
        elif value is not None:
            for gone in [one for one in state if key <= one < value]:
                del state[gone]


def put_changelog(
    source: Source, version: int, changes: Sequence[Change], *, tagged: bool
) -> Delta:
    payload = changelog.encode(Header(2 if tagged else 1), changes)
    path = f"{STORE}/{version}.changelog"
    return Delta(version, source.storage.write(path, encode(source.compression, payload)))


def put_first(
    source: Source, version: int, rows: Mapping[bytes, bytes], delimiter: bytes | None
) -> Snapshot:
    """Writes a snapshot as Spark begins a store with column families; it has few rows."""
    with TemporaryDirectory() as place:
        with opened("new", Path(place), delimiter, create=True) as database:
            database.write(rows.items())
            database.flush()
            database.checkpoint(Path(place, "checkpoint"))
        return _put_directory(source, version, Path(place, "checkpoint"), rows)


def _put_directory(
    source: Source, version: int, place: Path, rows: Mapping[bytes, bytes]
) -> Snapshot:
    ssts, members = [], {}
    for file in place.iterdir():
        if file.suffix == ".sst":
            ssts.append(ImmutableFile(file.name, f"{file.stem}-{uuid4()}.sst", file.stat().st_size))
            source.storage.write(f"{STORE}/SSTs/{ssts[-1].stored}", [file.read_bytes()])
        elif file.suffix != ".json":
            members[file.name] = file.read_bytes()
    internal = sum(key.startswith(key_of("$count", b"")) for key in rows)
    metadata = ZipMetadata(
        tuple(ssts),
        keys=len(rows) - internal,
        internal_keys=internal,
        families=FAMILIES,
        internal=INTERNAL,
        last_family=3,
        shape=ZipShape.FAMILIES,
    )
    return _put_zip(source, version, snapshot_zip.render(members, metadata))


def _put_zip(source: Source, version: int, content: bytes) -> Snapshot:
    path = f"{STORE}/{version}.zip"
    return Snapshot(version, source.storage.write(path, [content], overwrite=True))


def store(source: Source, built: Built) -> Snapshot:
    for fresh in built.new:
        source.storage.write(f"{STORE}/SSTs/{fresh.stored}", [fresh.local.read_bytes()])
    return _put_zip(source, built.version, snapshot_zip.render(built.members, built.metadata))


def rows_of(source: Source, chain: Chain, limits: Limits | None = None) -> State:
    with folded(source, chain, limits=limits or Limits()) as fold:
        return dict(row for batch in fold.database.rows() for row in batch)


def in_memory(codec: str = "lz4") -> Source:
    return source_of(MemoryStorage(), codec)
