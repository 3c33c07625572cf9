"""Checkpoints for tests: listings in a tiny notation, and real files made by our own codecs.

"1d 2d 3s 4d"     3 deltas and a snapshot; "3d3s" is a delta and a snapshot of version 3
"2d@50"           its age in seconds; 1e9 unless it is said
"4c 4k 5t"        Hadoop's side file of 4.delta and of 4.snapshot, a temp file of 5.delta
"x:foo.bar"       any other name
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import StateFile, classify
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.storage import Storage

AnyStorage = TypeVar("AnyStorage", bound=Storage)

NOW = 2_000_000_000.0
OLD = 1_000_000_000.0
UUID = "0f6d2b1c-5a3e-4c7d-9b8a-112233445566"

_TOKEN = re.compile(r"(\d+)([dsckt])(?:@(\d+))?|x:([^@ ]+)(?:@(\d+))?")
_NAMES = {
    "d": "{}.delta",
    "s": "{}.snapshot",
    "c": ".{}.delta.crc",
    "k": ".{}.snapshot.crc",
    "t": ".{}.delta." + UUID + ".tmp",
}
STORE = StoreId(0, 0)
JOIN = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
"""The names of a join's stores."""


TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
"""A policy by which most of a neglected checkpoint goes."""


def paths(storage: Storage, prefix: str = "") -> list[str]:
    return sorted(entry.path for entry in storage.list(prefix))


def drop(storage: Storage, folder: str) -> None:
    """Deletes all files below a folder."""
    storage.delete_all(paths(storage, folder))


def state(storage: Storage) -> dict[str, bytes]:
    """Returns the contents of all files of the state."""
    return {entry.path: storage.read(entry.path) for entry in storage.list("state")}


def of_the_query(storage: Storage) -> dict[str, bytes]:
    """Returns the contents of all files but those of maintainers."""
    found = (entry.path for entry in storage.list(""))
    return {path: storage.read(path) for path in found if not path.startswith("_")}


def put_files(root: Path, files: Mapping[str, bytes]) -> Path:
    """Writes files below a folder of this machine, and returns it."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return root


def files(notation: str, store: StoreId = STORE) -> tuple[StateFile, ...]:
    """Returns the files that the notation names, 100 bytes each."""
    found = []
    for version, kind, age, name, name_age in _TOKEN.findall(notation):
        file = _NAMES[kind].format(version) if kind else name
        years = float(age or name_age or OLD)
        found.append(classify(Entry(f"{store.directory}/{file}", 100, NOW - years)))
    return tuple(found)


def versions(kind: str, first: int, last: int) -> str:
    """Returns the notation of one file for each version of a closed range."""
    return " ".join(f"{number}{kind}" for number in range(first, last + 1))


def store(notation: str, store_id: StoreId = STORE) -> Store:
    return Store(store_id, files(notation, store_id))


def checkpoint(*stores: Store, batches: Iterable[int]) -> Checkpoint:
    """Returns a checkpoint of some stores, with some batches still in the commit log."""
    return Checkpoint("memory:", "query", tuple(batches), stores=stores)


def names(paths: Iterable[str]) -> list[str]:
    return [path.rpartition("/")[2] for path in paths]


# -- real files


def delta_bytes(
    changes: Iterable[Record], *, codec: str = "lz4", row_checksums: bool = False
) -> bytes:
    """Returns a delta file; with row checksums it gets them here, the changes come without."""
    payload = records.encode(changes, row_checksums=row_checksums)
    return b"".join(compression.encode(COMPRESSIONS[codec], payload))


def snapshot_bytes(
    state: Mapping[bytes, bytes], *, codec: str = "lz4", row_checksums: bool = False
) -> bytes:
    """Returns a snapshot file; with row checksums it gets them here, the state comes without."""
    return delta_bytes(list(state.items()), codec=codec, row_checksums=row_checksums)


def changes(version: int, partition: int = 0) -> list[Record]:
    """Returns what one version changes: a new key, a counter, and now and then a removal."""
    new = f"key-{partition}-{version:04d}".encode()
    counter: Record = (b"counter", version.to_bytes(8))
    gone: list[Record] = [(f"key-{partition}-{version - 2:04d}".encode(), None)]
    return [(new, bytes(8)), (b"counter", bytes(8)), counter, *(gone if version % 3 == 0 else [])]


def state_at(version: int, partition: int = 0) -> dict[bytes, bytes]:
    """Returns the state that `changes` add up to."""
    state: dict[bytes, bytes] = {}
    for number in range(1, version + 1):
        records.apply(state, changes(number, partition))
    return state


ROW_CHECKSUMS = "spark.sql.streaming.stateStore.rowChecksum.enabled"
OFFSETS_CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
    "spark.sql.shuffle.partitions": "2",
}


def offsets_bytes(
    changes: Mapping[str, str] | None = None,
    *,
    codec: str = "lz4",
    row_checksums: bool = False,
    planned: int = 0,
) -> bytes:
    """Returns an offset log entry that pins the given settings, by their last name.

    Args:
        changes: the settings that are not Spark's own.
        codec: of the state.
        row_checksums: whether each row has one.
        planned: when, in milliseconds.
    """
    conf = dict(OFFSETS_CONF)
    if row_checksums:
        conf[ROW_CHECKSUMS] = "true"
    for name, value in {"codec": codec, **(changes or {})}.items():
        key = next((key for key in conf if key.endswith(name)), name)
        conf[key] = value
    head = {"batchWatermarkMs": 0, "batchTimestampMs": planned, "conf": conf}
    return f"v1\n{json.dumps(head)}\n-".encode()


COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'


def write_checkpoint(  # noqa: PLR0913 -- what a test says of its checkpoint, all by name
    storage: AnyStorage,
    *,
    last: int = 25,
    batches: Iterable[int] | None = None,
    partitions: int = 2,
    stores: Sequence[str] = ("default",),
    codec: str = "lz4",
    row_checksums: bool = False,
) -> AnyStorage:
    """Returns a storage with a neglected checkpoint: a delta for each version, and no snapshot.

    `batches` are those still in the commit log; the last nine by default.
    """
    committed = tuple(range(last - 9, last) if batches is None else batches)
    conf = {"shuffle.partitions": str(partitions)}
    pinned = offsets_bytes(conf, codec=codec, row_checksums=row_checksums)
    storage.write("metadata", [b'{"id":"11111111-2222-3333-4444-555555555555"}'])
    for batch in committed:
        storage.write(f"commits/{batch}", [COMMIT])
        storage.write(f"offsets/{batch}", [pinned])
    for partition in range(partitions):
        for name in stores:
            directory = StoreId(0, partition, name).directory
            for version in range(1, last + 1):
                rows = changes(version, partition)
                content = delta_bytes(rows, codec=codec, row_checksums=row_checksums)
                storage.write(f"{directory}/{version}.delta", [content])
    return storage
