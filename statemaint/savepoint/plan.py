"""What a savepoint consists of, by a scan of its source as it was after the batch."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from operator import attrgetter
from uuid import NAMESPACE_URL, uuid5

from statemaint.codec.metadata import logs
from statemaint.errors import DamagedError, NotFoundError, Superseded, UnsupportedError
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import MAINTAINED, Checkpoint, Provider, Store
from statemaint.model.files import UnknownFile, classify_any, spark_checksums
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId, batch_in, version_of
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason, WithheldReason
from statemaint.planning import chains_at, not_committed, scan_checkpoint
from statemaint.records.savepoints import SAME, Shape
from statemaint.savepoint.logs import logs_of, offsets_of, unchecked_sources
from statemaint.savepoint.shapes import check_changes, check_chosen, settings_of, shuffles_of
from statemaint.savepoint.shuffle import Shuffle
from statemaint.scan.identity import check_links
from statemaint.storage import Storage, Without
from statemaint.storage.base import Chunks

_OPERATOR_METADATA = re.compile(r"state/[0-9]+/_metadata/v2/([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class SavepointPlan:
    """A savepoint that can be written."""

    storage: Storage  # the source, read-only, as it was after the batch
    checkpoint: Checkpoint  # the scan of it
    batch: int
    stores: tuple[tuple[Store, WriteSnapshot], ...]  # that a restart reads, and are copied whole
    logs: tuple[tuple[str, Chunks], ...]  # in the order of writing; read when they are written
    unchecked: tuple[str, ...]  # the sources that may be unable to go on
    witness: str
    shape: Shape  # whole
    shuffles: tuple[Shuffle, ...] = ()  # the other stores, which are written row by row

    @property
    def paths(self) -> dict[str, str]:
        """Returns the path of each store's file by the store's directory."""
        targets = (write for shuffle in self.shuffles for write in shuffle.targets)
        writes = sorted((*(write for _, write in self.stores), *targets), key=attrgetter("store"))
        return {write.store.directory: write.path for write in writes}

    @property
    def size(self) -> int:
        whole = sum(write.chain.size for _, write in self.stores)
        return whole + sum(shuffle.size for shuffle in self.shuffles)

    def refusal(self, finding: Finding) -> DamagedError:
        detail = f"no savepoint of batch {self.batch}: {finding.detail}"
        return DamagedError(self.checkpoint.root, detail, code=finding.code.value)


def committed_batches(storage: Storage) -> list[int]:
    entries = (batch_in(entry.path, "commits") for entry in storage.list("commits"))
    return sorted(batch for batch in entries if batch >= 0)


def plan_savepoint(storage: Storage, batch: int, *, to: str, shape: Shape = SAME) -> SavepointPlan:
    """Returns the savepoint of a committed batch at the address `to`; writes nothing.

    Refuses one of which a restart would fail, or load wrong rows, as far as names show.
    """
    check_chosen(shape)
    witness = _witness_if_committed(storage, batch)
    view, checkpoint = _after(storage, batch)
    chains = chains_at(checkpoint, batch, f"no savepoint of batch {batch}")
    conf = logs.parse_conf(offsets_of(view, checkpoint, batch))
    before = Shape.of(checkpoint)
    after = before.changed(shape)
    if shape != SAME:
        check_changes(before, after, storage.root, stateful=bool(chains))
    settings = settings_of(before, after, conf, storage.root)
    if after.ids == "v2" and (lone := next((s for s, _ in chains if s.unsettled), None)):
        what = f"{lone.id.directory}, whose {WithheldReason.UNSETTLED.meaning},"
        raise UnsupportedError(storage.root, what, "a store with a zip of an executor")
    ids = logs.parse_commit(view.read(f"commits/{batch}"))
    if after.ids != before.ids:
        ids = _places(store.id for store, _ in chains) if after.ids == "v2" else {}
    id_of = partial(_own_id, to)
    renamed = {id_: id_of(id_) for each in ids.values() for stores in each for id_ in stores}
    stores = [(store, _snapshot_of(store, after, chain, renamed)) for store, chain in chains]
    shuffles = tuple(shuffles_of(view, checkpoint, stores, (before, after), conf, id_of))
    moved = {shuffle.operator: len(shuffle.targets) for shuffle in shuffles if shuffle.keys}
    own = _own_ids(to, ids, moved)
    files = dict(logs_of(view, checkpoint, batch, to=to, ids=own, partitions=moved, conf=settings))
    path = f"offsets/{batch}"
    apart = {shuffle.operator for shuffle in shuffles}
    # The state files are those of the scan, the logs were read after it: both are of one attempt.
    if witness is None or _witness_if_committed(storage, batch) != witness:
        raise _written_again(storage, batch, "planned")
    return SavepointPlan(
        view,
        checkpoint,
        batch,
        stores=tuple(each for each in stores if each[0].id.operator not in apart),
        logs=tuple(files.items()),
        unchecked=unchecked_sources(path, b"".join(files[path])),
        witness=witness,
        shape=after,
        shuffles=shuffles,
    )


def _after(storage: Storage, batch: int) -> tuple[Storage, Checkpoint]:
    """Returns a checkpoint as it was after a batch: its storage, and its scan."""
    check_links(storage)
    view = Without(storage, partial(_is_later, batch))
    checkpoint = scan_checkpoint(view)
    if checkpoint.committed != batch:
        raise not_committed(storage.root, batch, committed_batches(storage))
    if checkpoint.stores and checkpoint.provider not in MAINTAINED:
        raise UnsupportedError(storage.root, "an unknown state store provider", str(MAINTAINED))
    return view, checkpoint


def _places(stores: Iterable[StoreId]) -> logs.UniqueIds:
    """Returns the place of each store, in the order in which Spark writes unique ids."""
    places: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for store in sorted(stores):
        places[store.operator][store.partition].append(store.directory)
    return {operator: tuple(map(tuple, each.values())) for operator, each in places.items()}


def _own_ids(to: str, ids: logs.UniqueIds, moved: Mapping[int, int]) -> logs.UniqueIds:
    """Returns the ids of a savepoint, where some operators get another number of partitions."""
    own = {
        operator: tuple(tuple(_own_id(to, unique) for unique in stores) for stores in partitions)
        for operator, partitions in ids.items()
    }
    for operator in moved.keys() & own.keys():
        first, count = own[operator][0], moved[operator]
        own[operator] = tuple(
            tuple(_own_id(to, unique, number) for unique in first) for number in range(count)
        )
    return own


def _own_id(to: str, unique: str, partition: int | None = None) -> str:
    """Returns the id of a savepoint's file: the same whenever the savepoint is continued."""
    place = "" if partition is None else f"/{partition}"
    return str(uuid5(NAMESPACE_URL, f"{to}#{unique}{place}"))


def check_not_rewound(storage: Storage, batch: int, witness: str) -> None:
    """Raises `Superseded` unless a batch is as it was planned, or its entries are purged since."""
    found = _witness_if_committed(storage, batch)
    purged = found is None and batch < max(committed_batches(storage), default=-1)
    if not purged and found != witness:
        raise _written_again(storage, batch, "written")


def _written_again(storage: Storage, batch: int, during: str) -> Superseded:
    what = f"was written again or deleted while the savepoint was {during}"
    return Superseded(f"{storage.root}/commits/{batch}", what)


def witness_of(storage: Storage, batch: int) -> str:
    """Returns the digest of a batch's entries in the logs: another one if it is written again."""
    entries = (storage.read(f"{log}/{batch}") for log in ("offsets", "commits"))
    return sha256(b"\n".join(entries)).hexdigest()


def _witness_if_committed(storage: Storage, batch: int) -> str | None:
    with suppress(NotFoundError):
        return witness_of(storage, batch)
    return None


def _is_later(batch: int, path: str) -> bool:
    """Returns whether a file is of a later batch: of the logs, of metadata, or of the state."""
    if not path.startswith("state/"):
        return max(batch_in(path, "offsets"), batch_in(path, "commits")) > batch
    if match := _OPERATOR_METADATA.fullmatch(path):
        return int(match[1]) > batch
    file = classify_any(Entry(path, 0, None))
    return not isinstance(file, UnknownFile) and file.version > version_of(batch)


def _snapshot_of(store: Store, shape: Shape, chain: Chain, ids: Mapping[str, str]) -> WriteSnapshot:
    version = chain.version
    before = store.rocks.id_at(version) if store.rocks else None
    unique = ids.get(before or store.id.directory)
    name = f"{version}_{unique}" if unique else str(version)
    kind = "zip" if shape.provider is Provider.ROCKSDB else "snapshot"
    newest = chain.paths[-1] if chain.paths else ""
    return WriteSnapshot(
        store.id,
        f"{store.id.directory}/{name}.{kind}",
        chain,
        SnapshotReason.FORCED,
        checksum=newest in spark_checksums(store.files),
        id=unique,
        families=store.families_at(version),
    )
