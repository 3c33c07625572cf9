"""The batch that `bootstrap` writes: the files of each store, and the entries of both logs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from statemaint.codec.hdfs import records
from statemaint.codec.metadata import logs
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, MERGE, PUT, Change, Header
from statemaint.codec.rows.state_row import Wrapping, value_reader
from statemaint.errors import (
    AlreadyExistsError,
    CheckpointError,
    ConfigError,
    DamagedError,
    StatemaintError,
    UnsupportedError,
    in_file,
)
from statemaint.execute.fence import Fence
from statemaint.execute.ledger import Ledger
from statemaint.execute.publish import write_checksum
from statemaint.fold import Source
from statemaint.fold.state import opened_state
from statemaint.listing import Entry
from statemaint.model.checkpoint import MAINTAINED, Checkpoint, Operator, Provider, Store
from statemaint.model.files import Delta, Snapshot, spark_checksums
from statemaint.model.ids import StoreId, version_of
from statemaint.plan.findings.health import diagnose
from statemaint.provider.edits import Edits, undeclared
from statemaint.provider.files import replace_file
from statemaint.records.runs import RunNote, write_note
from statemaint.scan.query_logs import SINCE_3_5
from statemaint.scan.scanner import scan
from statemaint.state.shuffle_key import shuffles_by_all_keys
from statemaint.state.versions import chain_of, layouts_of
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """The batch that was written, or that would be.

    Attributes:
        batch: its number; `version` is the state's.
        rows: the number of given rows, by partition.
        stores: the number of stores that get a file.
        run: the id in the ledger and in the list of runs; empty for a dry run.
    """

    batch: int
    version: int
    rows: Mapping[int, int]
    stores: int = 0
    run: str = ""


@dataclass(frozen=True, slots=True)
class Surgery:
    """One batch while it is written."""

    storage: Storage
    lease: Fence
    checkpoint: Checkpoint
    operator: int
    edits: Edits
    entries: frozenset[Entry]  # of the logs
    ids: Mapping[str, str]  # the unique ids that its files get, by those of the batch before

    @classmethod
    def on(
        cls, storage: Storage, number: int, at: int | None, lease: Fence | None = None
    ) -> "Surgery":
        entries = log_entries(storage)
        checkpoint = scan(storage)
        must_stand_still(checkpoint, entries, at)
        return cls.of(storage, checkpoint, number, entries, lease)

    @classmethod
    def of(
        cls,
        storage: Storage,
        checkpoint: Checkpoint,
        number: int,
        entries: frozenset[Entry] = frozenset(),
        lease: Fence | None = None,
    ) -> "Surgery":
        declared = recorded_operator(checkpoint, number)
        must_be_sound(checkpoint)
        must_be_known(checkpoint, logs.parse_conf(storage.read(f"offsets/{checkpoint.committed}")))
        version = version_of(checkpoint.committed or 0)
        own = [store for store in checkpoint.needed(version) if store.id.operator == number]
        layouts = {store.id.store: layouts_of(storage, checkpoint, store, version) for store in own}
        there = {store.id.partition for store in own}
        count = checkpoint.pinned or (declared.partitions if declared else 0)
        if there != {*range(count)}:
            what = f"operator {number} with {len(there)} partitions of {count}"
            raise UnsupportedError(storage.root, what, "one with all of them")
        operator = declared or undeclared(number, layouts, count)
        edits = Edits(storage.root, operator, layouts, count)
        stored = logs.parse_commit(storage.read(f"commits/{checkpoint.committed}")).values()
        if not any(stored):
            must_not_be_hidden(checkpoint, version + 1)
        ids = {old: str(uuid4()) for each in stored for stores in each for old in stores}
        return cls(storage, lease or Fence(), checkpoint, number, edits, entries, ids)

    @property
    def batch(self) -> int:
        return 1 + (self.checkpoint.committed or 0)

    @property
    def stores(self) -> tuple[Store, ...]:
        return self.checkpoint.needed(self.batch)

    @property
    def planned(self) -> Bootstrapped:
        counts = dict(sorted(self.edits.counts.items()))
        return Bootstrapped(self.batch, version_of(self.batch), counts, len(self.stores))

    def written(self, run: str, changes: Mapping[StoreId, list[Change]]) -> Bootstrapped:
        started, claimed = self.storage.now(), self.claim(run)
        self.commit([self.write(store, changes) for store in self.stores], claimed)
        note = RunNote.of_nothing(self.storage, started, self.lease.number, 0)
        write_note(self.storage, run, "bootstrap", replace(note, batch=self.batch))
        return replace(self.planned, run=run)

    def changes(self) -> dict[StoreId, list[Change]]:
        """Returns the changes of each store, after a check that its keys are in their partition."""
        own = (store for store in self.stores if store.id.operator == self.operator)
        numbers = {store.id: self._read(store) for store in own}
        changes: dict[StoreId, list[Change]] = defaultdict(list)
        for partition in sorted(self.edits.counts):
            for (name, family), key, entries in self.edits.of(partition):
                store = StoreId(self.operator, partition, name)
                if family not in numbers[store]:
                    what = f"{family} in {store}, which no snapshot has a number for,"
                    raise UnsupportedError(self.storage.root, what, "another variable")
                whole = numbers[store][family] + key
                first, *others = entries or (None,)
                changes[store].append((PUT if entries else DELETE, whole, first))
                changes[store] += [(MERGE, whole, entry) for entry in others]
        return changes

    def _read(self, store: Store) -> Mapping[str | None, bytes]:
        """Passes the rows of a store to the edits; returns the numbers in front of its keys."""
        chain = chain_of(self.checkpoint, store, self.batch)
        source = Source.of(self.storage, store, self.checkpoint)
        with opened_state(source, store, chain) as state, in_file(store.id.directory):
            size, families = state.width, state.fronts
            wrapping = Wrapping(size, source.row_checksums, state.delimiter)
            readers = {
                place: value_reader(table.layout, wrapping)
                for place, table in self.edits.tables.items()
            }
            for key, value in state.rows:
                place = store.id.store, families.get(key[:size])
                if place not in readers:
                    continue
                partition = self.edits.see(place, key[size:], partial(readers[place], key, value))
                if partition != store.id.partition:
                    text = f"a key that belongs to partition {partition} by our arithmetic is here"
                    raise CheckpointError(store.id.directory, text)
        return {name: front for front, name in families.items()}

    def claim(self, run: str) -> frozenset[Entry]:
        """Claims the next batch, unless a query has it, and returns the resulting log entries."""
        self._must_be_unchanged(self.entries)
        self.lease.must_hold()
        Ledger(self.storage, run, self.lease).adding(self.batch)
        size = self._log("offsets")
        claimed = log_entries(self.storage)
        added = {(entry.path, entry.size) for entry in claimed ^ self.entries}
        if added != {(f"offsets/{self.batch}", size)}:
            raise LiveCheckpointError(f"offsets/{self.batch}", "changed as soon as it was written")
        return claimed

    def write(self, store: Store, changes: Mapping[StoreId, list[Change]]) -> Entry:
        """Writes the changes of a store in one step; a crash leaves no file, or the whole one."""
        self.lease.check()
        made, sealed = changes.get(store.id, []), self.checkpoint.row_checksums
        if store.rocks is None:
            path = f"{store.id.directory}/{version_of(self.batch)}.delta"
            payload = records.encode(((key, value) for _, key, value in made), row_checksums=sealed)
        else:
            path, header = self._changelog(store)
            payload = changelog.encode(header, made, row_checksums=sealed)
        like = beside.path if (beside := store.beside(self.batch)) else None
        _, crc32c = replace_file(self.storage, path, self.checkpoint.codec, payload, like)
        entry = self.storage.stat(path)
        if spark_checksums(store.files):
            write_checksum(self.storage, like, crc32c, entry)
        return entry

    def _changelog(self, store: Store) -> tuple[str, Header]:
        """Returns the path of a store's changelog and its header."""
        rocks, version = store.rocks, version_of(self.batch)
        zip_ = store.families_at(self.batch)
        families = bool(rocks and zip_ and rocks.families.get(zip_.entry.path))
        if not self.ids:
            return f"{store.id.directory}/{version}.changelog", Header(1 + families)
        unique = self.ids.get(rocks.id_at(self.batch) or "") if rocks else None
        chain = chain_of(self.checkpoint, store, self.batch)
        files = (chain.base, *chain.deltas) if chain.base else chain.deltas
        lineage = tuple((file.version, file.id) for file in files if file.id)
        if unique is None or len(lineage) < len(files):
            what = f"{store.id}, of which not every version has a unique id,"
            raise UnsupportedError(self.storage.root, what, "ids of all of them")
        path = f"{store.id.directory}/{version}_{unique}.changelog"
        return path, Header(3 + families, lineage)

    def commit(self, written: Iterable[Entry], claimed: frozenset[Entry]) -> None:
        """Commits the batch, after a check that no other writer has changed its files."""
        self.lease.must_hold()
        for entry in written:
            if self.storage.stat(entry.path) != entry:
                raise LiveCheckpointError(entry.path, "was replaced while the batch was written")
        self._must_be_unchanged(claimed)
        self._log("commits")

    def _must_be_unchanged(self, entries: frozenset[Entry]) -> None:
        if changed := sorted(entry.path for entry in log_entries(self.storage) ^ entries):
            raise LiveCheckpointError(changed[0], "was added, changed or removed meanwhile")

    def _log(self, folder: str) -> int:
        """Copies the newest entry of a log to the batch, and returns its size in bytes."""
        newest, path = f"{folder}/{self.batch - 1}", f"{folder}/{self.batch}"
        content = self.storage.read(newest)
        for old, new in self.ids.items() if folder == "commits" else ():
            content = content.replace(f'"{old}"'.encode(), f'"{new}"'.encode())
        # A batch that was rewound may have left this file: Hadoop would compare it with ours.
        self.storage.delete(f"{folder}/.{self.batch}.crc")
        try:
            return self.storage.write(path, [content], like=newest).size
        except AlreadyExistsError as error:
            raise LiveCheckpointError(path, "a query wrote it first") from error


# -- what is refused before anything is written


class LiveCheckpointError(StatemaintError):
    """The checkpoint is in use, or a batch of it is unfinished."""

    code = "LIVE_CHECKPOINT"
    exit_code = 6

    def __init__(
        self, path: str, detail: str, advice: str = "stop the query once its batch is committed"
    ) -> None:
        super().__init__(path, detail, advice)
        self.path, self.detail, self.advice = path, detail, advice

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}; {self.advice}"


def log_entries(storage: Storage) -> frozenset[Entry]:
    entries = (entry for folder in ("offsets", "commits") for entry in storage.list(folder))
    return frozenset(entry for entry in entries if entry.name.isdecimal())


def must_stand_still(checkpoint: Checkpoint, entries: frozenset[Entry], at: int | None) -> None:
    newest = checkpoint.committed
    if at is not None and newest is not None and at != newest + 1:
        text = f"batch {newest} is the newest now, and rows at batch {at} are to follow {at - 1}"
        raise LiveCheckpointError(checkpoint.root, text, "show and edit the rows again")
    offsets = (int(entry.name) for entry in entries if entry.path.startswith("offsets/"))
    begun = max(offsets, default=newest)
    if begun != newest:
        text = f"batch {begun} has begun, and the newest committed one is {newest}"
        raise LiveCheckpointError(f"offsets/{begun}", text)
    if newest is None:
        text = "no batch is committed; let the query run once, so that it has a state to add to"
        raise ConfigError(f"{checkpoint.root}: {text}")


def must_be_sound(checkpoint: Checkpoint) -> None:
    of_stores = (finding for store in checkpoint.stores for finding in diagnose(store, checkpoint))
    for finding in (*checkpoint.findings, *of_stores):
        if finding.damage:
            place = finding.store.directory if finding.store else checkpoint.root
            raise DamagedError(place, finding.detail, code=finding.code)


def must_not_be_hidden(checkpoint: Checkpoint, version: int) -> None:
    """Checks that no attempt at the batch has left a snapshot, which Spark would load instead."""
    for store in checkpoint.stores:
        for file in store.files:
            if isinstance(file, Snapshot) and file.version == version:
                text = "a snapshot of a batch that is not committed would hide what is written here"
                raise LiveCheckpointError(file.entry.path, text)


def recorded_operator(checkpoint: Checkpoint, number: int) -> Operator | None:
    """Returns the operator of a number; `None` if it has no metadata (before Spark 4.0)."""
    if checkpoint.provider not in MAINTAINED:
        raise UnsupportedError(checkpoint.root, checkpoint.provider, " and ".join(MAINTAINED))
    if all(store.id.operator != number for store in checkpoint.stores):
        raise ConfigError(f"{checkpoint.root}: operator {number} is not there")
    return {operator.id: operator for operator in checkpoint.operators}.get(number)


def must_be_known(checkpoint: Checkpoint, conf: Mapping[str, str]) -> None:
    """Checks that the query shuffles by all keys, and that its Spark reads what is written here."""
    if not shuffles_by_all_keys(conf):
        what = "state of a query that began before Spark 3.3"
        raise UnsupportedError(checkpoint.root, what, "that of one that began since")
    files = (file for store in checkpoint.stores for file in store.files)
    recent = checkpoint.operators or SINCE_3_5 in conf or any(isinstance(it, Delta) for it in files)
    if checkpoint.provider is Provider.ROCKSDB and not recent:
        what = "RocksDB without changelogs, after a batch of a Spark that may not read any,"
        raise UnsupportedError(checkpoint.root, what, f"an offset log with {SINCE_3_5}")
