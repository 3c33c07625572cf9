"""Checkpoints whose keys and values are numbers, so that a test can say every row by hand."""

import struct
from collections.abc import Collection, Iterable, Sequence

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Header
from statemaint.codec.rows.types import AtomicType, Field, StructType
from statemaint.model.ids import StoreId
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import COMMIT, delta_bytes, offsets_bytes, snapshot_bytes
from tests.support.rocks import PROVIDER
from tests.support.unsafe_rows import row

Change = tuple[int, int | None]
"""A key and its new value; `None` removes it."""

KIND = StructType((Field("n", AtomicType("long")),))
ROW_BYTES = 16


def schema(*names: str) -> bytes:
    """Returns a schema file of columns that are numbers."""
    text = b"".join(
        struct.pack(">iH", 1, len(one)) + one
        for one in (
            f'{{"type":"struct","fields":[{{"name":"{name}","type":"long"}}]}}'.encode()
            for name in names
        )
    )
    return b"\0\2v2" + text


def state_of(versions: Iterable[Iterable[Change]]) -> dict[int, int]:
    state: dict[int, int] = {}
    for key, value in (change for changes in versions for change in changes):
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


def write_longs(
    partitions: Sequence[Sequence[Sequence[Change]]],
    *,
    rocks: bool = False,
    snapshots: Collection[int] = (),
) -> MemoryStorage:
    """Returns a checkpoint of one operator, each version of which is still to be loaded.

    Args:
        partitions: the changes of each partition's versions, from the first.
        rocks: whether it is one of RocksDB: changelogs of format 1.
        snapshots: the versions that have a snapshot, in an HDFS-backed store.
    """
    storage = MemoryStorage()
    conf = {"shuffle.partitions": str(len(partitions))}
    pinned = offsets_bytes({**conf, "providerClass": PROVIDER} if rocks else conf)
    storage.write("metadata", [b'{"id":"11111111-2222-3333-4444-555555555555"}'])
    storage.write("state/0/0/_metadata/schema", [schema("k", "v")])
    for batch in range(len(partitions[0])):
        storage.write(f"commits/{batch}", [COMMIT])
        storage.write(f"offsets/{batch}", [pinned])
    for number, versions in enumerate(partitions):
        directory = StoreId(0, number).directory
        for version, changes in enumerate(versions, 1):
            kind = "changelog" if rocks else "delta"
            content = _changelog(changes) if rocks else _delta(changes)
            storage.write(f"{directory}/{version}.{kind}", [content])
        for version in snapshots:
            state = {long(key): long(one) for key, one in state_of(versions[:version]).items()}
            storage.write(f"{directory}/{version}.snapshot", [snapshot_bytes(state)])
    return storage


def long(number: int) -> bytes:
    return row(KIND, [number])


def _delta(changes: Iterable[Change]) -> bytes:
    return delta_bytes((long(key), None if one is None else long(one)) for key, one in changes)


def _changelog(changes: Iterable[Change]) -> bytes:
    found = (
        (int(DELETE), b"\0" + long(key), None)
        if one is None
        else (int(PUT), b"\0" + long(key), b"\0" + long(one))
        for key, one in changes
    )
    return b"".join(encode(COMPRESSIONS["lz4"], changelog.encode(Header(1), found)))
