"""RocksDB stores for tests: listings in a tiny notation, and real files made by our own codecs.

"1c 2c 3z:a+b"    two changelogs, and a zip of version 3 that refers to the tables a and b
"sa sb@50"        the tables themselves, one of them 50 seconds old; 1e9 unless it is said
"4_xc 4_xz:a"     the same of a version with the unique id x
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID, uuid5

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rocksdb import changelog, snapshot_zip
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Change, Header
from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, StateFile
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.model.rocks import Rocks
from statemaint.plan.actions import Window
from statemaint.storage import Storage
from tests.support.checkpoints import COMMIT, NOW, OLD, STORE, AnyStorage, changes, offsets_bytes

_TOKEN = re.compile(
    r"(?P<version>\d+)(?:_(?P<id>\w))?(?P<kind>[czk])(?::(?P<parts>[a-z+]+))?(?:@(?P<age>\d+))?"
    r"|s(?P<table>[a-z])(?:@(?P<table_age>\d+))?"
)
SIZE = 10
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def window(
    required: int, target: int, newest: int = 0, *, forced: frozenset[int] = frozenset()
) -> Window:
    return Window(1, required, target, newest or target, NOW, Policy(), forced=forced)


def table(name: str, store: StoreId = STORE) -> str:
    return f"{store.directory}/SSTs/{name}.sst"


def rocks_store(  # noqa: PLR0913 -- what a test says of its store, all by name
    notation: str,
    store_id: StoreId = STORE,
    *,
    ids: Mapping[int, str] | None = None,
    plain: int = 0,
    unreadable: Iterable[str] = (),
    written: Iterable[str] = (),
    since: int | None = None,
) -> Store:
    """Returns a store that the notation describes; a table that is not in it is missing."""
    files: list[StateFile] = []
    parts: dict[str, dict[str, int]] = {}
    for found in map(_TOKEN.fullmatch, notation.split()):
        assert found, notation
        file = _file(found, store_id)
        files.append(file)
        if isinstance(file, Snapshot) and file.entry.name not in unreadable:
            named = found["parts"].split("+") if found["parts"] else []
            parts[file.entry.path] = {table(name, store_id): SIZE for name in named}
    there = {file.entry.path for file in files}
    unread = {f"{store_id.directory}/{name}": f"{name} is damaged" for name in unreadable}
    missing = {
        path: f"{path} needs {', '.join(sorted(set(wanted) - there))}, which does not exist"
        for path, wanted in parts.items()
        if set(wanted) - there
    }
    ours = tuple(f"{store_id.directory}/{name}" for name in written)
    rocks = Rocks(
        dict(ids or {}), plain, parts, frozenset(ours), unread | missing, frozenset(unread)
    )
    return Store(store_id, tuple(files), written=ours, rocks=rocks, since=since)


def _file(found: re.Match[str], store: StoreId) -> StateFile:
    age = float(found["age"] or found["table_age"] or OLD)
    if found["table"]:
        return SstFile(Entry(table(found["table"], store), SIZE, NOW - age))
    version, unique = int(found["version"]), found["id"]
    stem = f"{store.directory}/{version}{f'_{unique}' if unique else ''}"
    if found["kind"] == "k":
        owner = f"{stem}.zip"
        side = f"{store.directory}/.{owner.rpartition('/')[2]}.crc"
        return ChecksumFile(version, owner, Entry(side, 12, NOW - age))
    name = f"{stem}.changelog" if found["kind"] == "c" else f"{stem}.zip"
    kind = Delta if found["kind"] == "c" else Snapshot
    return kind(version, Entry(name, 100, NOW - age), unique)


def rocks_checkpoint(*stores: Store, batches: Iterable[int]) -> Checkpoint:
    """Returns a checkpoint of some stores, with some batches still in the commit log."""
    return Checkpoint("memory:", "query", tuple(batches), stores=stores, provider=Provider.ROCKSDB)


# -- real files

_SPACE = UUID("00000000-1111-2222-3333-444444444444")


def unique_id(store: StoreId, version: int, attempt: int = 0) -> str:
    return str(uuid5(_SPACE, f"{store.directory}/{version}/{attempt}"))


def changelog_bytes(
    found: Iterable[Change], *, lineage: changelog.Lineage | None = None, codec: str = "lz4"
) -> bytes:
    header = Header(1) if lineage is None else Header(3, lineage)
    return b"".join(compression.encode(COMPRESSIONS[codec], changelog.encode(header, found)))


def rocks_changes(version: int, partition: int = 0) -> list[Change]:
    return [
        (DELETE if value is None else PUT, key, value) for key, value in changes(version, partition)
    ]


def commit_bytes(ids: Mapping[str, list[list[str]]] | None = None) -> bytes:
    """Returns a commit log entry, with the unique ids of each operator's partitions."""
    if ids is None:
        return COMMIT
    return b"v2\n" + json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": ids}).encode()


def write_rocks_checkpoint(
    storage: AnyStorage,
    *,
    last: int = 25,
    batches: Iterable[int] | None = None,
    partitions: int = 2,
    with_ids: bool = False,
    contents: Callable[[int, int], list[Change]] = rocks_changes,
) -> AnyStorage:
    """Returns a storage with a neglected checkpoint: a changelog for each version, and no zip."""
    committed = tuple(range(last - 9, last) if batches is None else batches)
    pinned = offsets_bytes({"providerClass": PROVIDER})
    storage.write("metadata", [b'{"id":"11111111-2222-3333-4444-555555555555"}'])
    for batch in committed:
        ids = [[unique_id(StoreId(0, one), batch + 1)] for one in range(partitions)]
        storage.write(f"commits/{batch}", [commit_bytes({"0": ids} if with_ids else None)])
        storage.write(f"offsets/{batch}", [pinned])
    for partition in range(partitions):
        store = StoreId(0, partition)
        for version in range(1, last + 1):
            write_changelog(
                storage, store, version, contents(version, partition), with_ids=with_ids
            )
    return storage


def write_changelog(
    storage: Storage, store: StoreId, version: int, found: list[Change], *, with_ids: bool = False
) -> None:
    """Writes the changelog of a version, whose lineage goes back to the first."""
    if not with_ids:
        storage.write(f"{store.directory}/{version}.changelog", [changelog_bytes(found)])
        return
    lineage = tuple((one, unique_id(store, one)) for one in range(1, version))
    path = f"{store.directory}/{version}_{unique_id(store, version)}.changelog"
    storage.write(path, [changelog_bytes(found, lineage=lineage)])


def parts_of(content: bytes) -> tuple[str, ...]:
    """Returns the names of the tables that a zip refers to."""
    return tuple(one.stored for one in snapshot_zip.parse_metadata(content).ssts)
