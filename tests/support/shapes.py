"""Healthy checkpoints of random shape, for whatever must find nothing in them.

operators   one or two: a sum by key, a stream-stream join of four stores, or rows of no known kind
files       a delta for each version, snapshots at random ones; below one of them Spark's clean-up
            may have been, which leaves the delta of that version and may leave one far below
logs        purged from below, the offsets one batch later than the commits; a batch may be running
beside      Hadoop's side files, Spark's checksum files, the metadata and schemas of Spark 4 or 3.5

Those of RocksDB have a changelog for each version, with unique ids or without; who writes them
leaves it to maintenance to make zips between two stretches of versions.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import google_crc32c

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs.records import Record, apply
from statemaint.codec.integrity import checksum_file
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Header
from statemaint.codec.rows.murmur3 import partition_of
from statemaint.codec.rows.types import StructType, parse_struct
from statemaint.model.ids import StoreId
from statemaint.storage import Storage
from tests.support.checkpoints import COMMIT, delta_bytes, offsets_bytes, snapshot_bytes
from tests.support.rocks import PROVIDER, commit_bytes, unique_id
from tests.support.unsafe_rows import row

SUM, JOIN, OPAQUE = "sum", "join", "opaque"
_NAMES = {SUM: "stateStoreSave", JOIN: "symmetricHashJoin"}
_COUNTS, _ENTRIES = "keyToNumValues", "keyWithIndexToValue"
_STORES = {
    SUM: ("default",),
    OPAQUE: ("default",),
    JOIN: tuple(f"{side}-{kind}" for side in ("left", "right") for kind in (_COUNTS, _ENTRIES)),
}
_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"
_CHECKPOINT = "11111111-2222-3333-4444-555555555555"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a checkpoint is like.

    Attributes:
        operators: the kind of each.
        partitions: how many each of them has.
        last: the newest committed version.
        required: the oldest one whose commit is still in the log.
        codec: of all files.
        row_checksums: whether rows carry a checksum.
        snapshots: the share of versions that have one.
        cleaned: whether Spark's clean-up has been below the retained versions.
        running: whether a batch is under way.
        side_files: whether Hadoop writes `.NAME.crc`.
        checksums: whether Spark writes `NAME.crc`.
        metadata: whether operators have metadata, which Spark writes from 4.0 on.
    """

    operators: tuple[str, ...]
    partitions: int
    last: int
    required: int
    codec: str
    row_checksums: bool
    snapshots: float
    cleaned: bool
    running: bool
    side_files: bool
    checksums: bool
    metadata: bool

    @property
    def stores(self) -> Iterator[StoreId]:
        for number, kind in enumerate(self.operators):
            for partition in range(self.partitions):
                yield from (StoreId(number, partition, name) for name in _STORES[kind])


def shape(random: Random) -> Shape:
    last = random.randint(1, 12)
    kinds = random.choices((SUM, JOIN, OPAQUE), weights=(4, 3, 3), k=random.choice((1, 1, 2)))
    return Shape(
        operators=tuple(kinds),
        partitions=random.choice((1, 2, 2, 3)),
        last=last,
        required=random.randint(1, last),
        codec=random.choice(sorted(COMPRESSIONS)),
        row_checksums=random.random() < 0.3,
        snapshots=random.choice((0.0, 0.2, 0.6)),
        cleaned=random.random() < 0.6,
        running=random.random() < 0.4,
        side_files=random.random() < 0.3,
        checksums=random.random() < 0.3,
        metadata=random.random() < 0.6,
    )


def write(found: Shape, random: Random, storage: Storage) -> None:
    _Writing(found, random, storage).all()


@dataclass(frozen=True, slots=True)
class _Writing:
    shape: Shape
    random: Random
    storage: Storage

    def all(self) -> None:
        self.put("metadata", b'{"id":"%s"}' % _CHECKPOINT.encode())
        self._logs()
        for number, kind in enumerate(self.shape.operators):
            self.describe(number, kind)
            for partition in range(self.shape.partitions):
                changes = _changes(self.shape, kind, partition, self.random)
                for name in _STORES[kind]:
                    self._store(StoreId(number, partition, name), changes[name])

    def _logs(self) -> None:
        shape = self.shape
        conf = {"shuffle.partitions": str(shape.partitions), _STRICT: "true"}
        pinned = offsets_bytes(conf, codec=shape.codec, row_checksums=shape.row_checksums)
        for batch in range(shape.required - 1, shape.last):
            self.put(f"commits/{batch}", COMMIT)
        # The newest two must be there; the offsets are purged first.
        first = min(shape.required - self.random.randint(0, 1), max(0, shape.last - 2))
        for batch in range(max(0, first), shape.last + shape.running):
            self.put(f"offsets/{batch}", pinned)

    def describe(self, number: int, kind: str) -> None:
        if kind == OPAQUE:
            return
        if self.shape.metadata:
            self.put(f"state/{number}/_metadata/metadata", self._operator(number, kind))
        for name in _STORES[kind]:
            place = StoreId(number, 0, name).directory
            self.put(f"{place}/_metadata/schema", _schema(*_SCHEMAS[name.partition("-")[2]]))

    def _operator(self, number: int, kind: str) -> bytes:
        stores = [
            {"storeName": name, "numColsPrefixKey": 0, "numPartitions": self.shape.partitions}
            for name in _STORES[kind]
        ]
        about = {"operatorId": number, "operatorName": _NAMES[kind]}
        return b"v1\n" + json.dumps({"operatorInfo": about, "stateStoreInfo": stores}).encode()

    def _store(self, store: StoreId, changes: list[list[Record]]) -> None:
        shape, home = self.shape, store.directory
        state: dict[bytes, bytes] = {}
        kept = self._kept()
        for version in range(1, shape.last + 1):
            apply(state, changes[version - 1])
            if version in kept.deltas:
                self.state_file(f"{home}/{version}.delta", changes[version - 1])
            if version in kept.snapshots:
                snapshot = snapshot_bytes(
                    state, codec=shape.codec, row_checksums=shape.row_checksums
                )
                self.state_file(f"{home}/{version}.snapshot", content=snapshot)
        if shape.running and self.random.random() < 0.5:
            self.state_file(f"{home}/{shape.last + 1}.delta", [(b"half done", b"by a batch")])

    def _kept(self) -> "_Kept":
        """Returns what is left in a store, of versions from 1 to the last."""
        shape, random = self.shape, self.random
        deltas = set(range(1, shape.last + 1))
        snapshots = {one for one in sorted(deltas) if random.random() < shape.snapshots}
        bases = [one for one in sorted(snapshots) if one <= shape.required]
        if shape.cleaned and bases:
            base = random.choice(bases)
            hidden = {one for one in snapshots if one <= base and random.random() < 0.5}
            deltas = {one for one in deltas if one > base} | hidden
            snapshots = {one for one in snapshots if one >= base}
        return _Kept(deltas, snapshots)

    def state_file(
        self, path: str, changes: list[Record] | None = None, *, content: bytes = b""
    ) -> None:
        shape = self.shape
        if changes is not None:
            content = delta_bytes(changes, codec=shape.codec, row_checksums=shape.row_checksums)
        self.put(path, content)
        if shape.checksums:
            summed = checksum_file.spark(google_crc32c.value(content), len(content), 1.0)
            self.put(f"{path}.crc", summed)

    def put(self, path: str, content: bytes) -> None:
        self.storage.write(path, [content])
        if self.shape.side_files:
            folder, _, name = path.rpartition("/")
            self.storage.write(f"{folder}/.{name}.crc".lstrip("/"), [checksum_file.hadoop(content)])


# -- RocksDB


@dataclass(slots=True)
class RocksShape:
    """A checkpoint of RocksDB that grows.

    Attributes:
        shape: what it is like; of its files there are only changelogs.
        ids: whether versions have unique ids.
        writing: what writes it.
    """

    shape: Shape
    ids: bool
    writing: "_Writing"
    changes: dict[StoreId, list[list[Record]]] = field(default_factory=dict)

    @classmethod
    def of(cls, shape: Shape, random: Random, storage: Storage) -> "RocksShape":
        """Begins with the metadata alone."""
        found = cls(shape, random.random() < 0.5, _Writing(shape, random, storage))
        found.writing.put("metadata", b'{"id":"%s"}' % _CHECKPOINT.encode())
        for number, kind in enumerate(shape.operators):
            found.writing.describe(number, kind)
            for partition in range(shape.partitions):
                changes = _changes(shape, kind, partition, random)
                stores = {StoreId(number, partition, name): one for name, one in changes.items()}
                found.changes |= stores
        return found

    def grow(self, first: int, last: int) -> None:
        """Writes the changelogs of a stretch of versions, and their batches into the logs."""
        for version in range(first, last + 1):
            for store, changes in self.changes.items():
                path = f"{store.directory}/{self._name(store, version)}.changelog"
                self.writing.state_file(path, content=self._changelog(store, version, changes))
            self.writing.put(f"offsets/{version - 1}", self._offsets())
            self.writing.put(f"commits/{version - 1}", commit_bytes(self._ids(version)))

    def purge(self) -> None:
        """Takes from the logs what is below the shape's required version."""
        first = self.shape.required - 1
        for log, kept in (("commits", first), ("offsets", min(first, self.shape.last - 2))):
            for batch in range(kept):
                self.writing.storage.delete(f"{log}/{batch}")

    def _offsets(self) -> bytes:
        shape = self.shape
        conf = {
            "providerClass": PROVIDER,
            "shuffle.partitions": str(shape.partitions),
            _STRICT: "true",
        }
        return offsets_bytes(conf, codec=shape.codec, row_checksums=shape.row_checksums)

    def _name(self, store: StoreId, version: int) -> str:
        return f"{version}_{unique_id(store, version)}" if self.ids else f"{version}"

    def _changelog(self, store: StoreId, version: int, changes: list[list[Record]]) -> bytes:
        lineage = tuple((one, unique_id(store, one)) for one in range(1, version))
        header = Header(3, lineage) if self.ids else Header(1)
        found = [
            (
                DELETE if value is None else PUT,
                b"\0" + key,
                None if value is None else b"\0" + value,
            )
            for key, value in changes[version - 1]
        ]
        payload = changelog.encode(header, found, row_checksums=self.shape.row_checksums)
        return b"".join(compression.encode(COMPRESSIONS[self.shape.codec], payload))

    def _ids(self, version: int) -> dict[str, list[list[str]]] | None:
        """Returns the ids of a version as a commit has them: stores in the order of their names."""
        if not self.ids:
            return None
        found: dict[str, list[list[str]]] = {}
        for store in sorted(self.changes):
            partitions = found.setdefault(str(store.operator), [])
            partitions += [[] for _ in range(store.partition + 1 - len(partitions))]
            partitions[store.partition].append(unique_id(store, version))
        return found


@dataclass(frozen=True, slots=True)
class _Kept:
    deltas: set[int]
    snapshots: set[int]


# -- what batches change

_Changes = dict[str, list[list[Record]]]


def _struct(**columns: str) -> dict[str, object]:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return {"type": "struct", "fields": fields}


_KEY = _struct(field0="string", field1="long")
_INDEXED = _struct(field0="string", field1="long", index="long")
_COUNT = _struct(value="long")
_INPUT = _struct(name="string", amount="double", matched="boolean")
# By what follows the side of a join in a store's name.
_SCHEMAS = {"": (_KEY, _COUNT), _COUNTS: (_KEY, _COUNT), _ENTRIES: (_INDEXED, _INPUT)}
_ROWS = {id(one): parse_struct(one) for one in (_KEY, _INDEXED, _COUNT, _INPUT)}


def _of(schema: dict[str, object]) -> StructType:
    return _ROWS[id(schema)]


def _schema(key: dict[str, object], value: dict[str, object]) -> bytes:
    texts = (json.dumps(one).encode() for one in (key, value))
    return _utf(b"v2") + b"".join((1).to_bytes(4) + _utf(text) for text in texts)


def _utf(text: bytes) -> bytes:
    return len(text).to_bytes(2) + text


def _changes(shape: Shape, kind: str, partition: int, random: Random) -> _Changes:
    """Returns what each version changes in each store of a partition."""
    batch = {SUM: _sum, JOIN: _join, OPAQUE: _opaque}[kind]
    keys = [f"key {number}" for number in range(24)]
    mine = [key for key in keys if partition_of([key, 7], _KEY, shape.partitions) == partition]
    found: _Changes = {name: [] for name in _STORES[kind]}
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for _ in range(shape.last):
        touched = random.sample(mine, min(len(mine), random.choice((0, 1, 3))))
        for name, changed in batch(touched, counts, random).items():
            found[name].append(changed)
    return found


_Batch = dict[str, list[Record]]


def _opaque(touched: list[str], counts: dict[str, dict[str, int]], random: Random) -> _Batch:
    del touched, counts
    keys = [random.randbytes(random.choice((1, 1, 2, 30))) for _ in range(random.randrange(5))]
    return {
        "default": [(key, _value(random)) for key in keys for _ in range(random.choice((1, 2)))]
    }


def _value(random: Random) -> bytes | None:
    return None if random.random() < 0.2 else random.randbytes(random.choice((0, 8, 200)))


def _sum(touched: list[str], counts: dict[str, dict[str, int]], random: Random) -> _Batch:
    del counts
    rows = [(row(_of(_KEY), [key, 7]), row(_of(_COUNT), [random.randrange(9)])) for key in touched]
    return {"default": [(key, None if random.random() < 0.3 else value) for key, value in rows]}


def _join(touched: list[str], counts: dict[str, dict[str, int]], random: Random) -> _Batch:
    """Adds entries to the end of their keys' lists, and takes them from there."""
    found: _Batch = {name: [] for name in _STORES[JOIN]}
    for key in touched:
        side = random.choice(("left", "right"))
        count = counts[side].get(key, 0)
        adds = count == 0 or random.random() < 0.6
        index = count if adds else count - 1
        now = count + 1 if adds else count - 1
        entry = row(_of(_INPUT), [key, 0.5 * index, random.random() < 0.5]) if adds else None
        found[f"{side}-{_ENTRIES}"].append((row(_of(_INDEXED), [key, 7, index]), entry))
        total = row(_of(_COUNT), [now]) if now else None
        found[f"{side}-{_COUNTS}"].append((row(_of(_KEY), [key, 7]), total))
        counts[side][key] = now
    return found
