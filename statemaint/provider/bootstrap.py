"""State that no query has computed: the caller's rows, as one more committed batch.

The query must have run to its first commit and be stopped: then its checkpoint contains the
metadata, schemas, offsets and commits, so none is invented. Committed files are never
rewritten. Instead the next batch is written, in the order in which Spark writes one:

    offsets/<b+1>      a copy of offsets/<b>: the batch reads no input. The first writer of this
                       file owns the batch, in Spark's `HDFSMetadataLog` too
    state/.../<b+2>.delta    of every partition of every store, empty if nothing is edited
    commits/<b+1>      a copy of commits/<b>, so that the watermark is unchanged

A restarted query finds the batch committed, skips no input, and begins with batch b+2, which sees
the watermarks that batch b+1 would have seen. After a crash before the commit the query runs batch
b+1 itself, over no input, and replaces our deltas: the state is then the same as before.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import uuid4

from statemaint.codec.hdfs.records import Record
from statemaint.codec.metadata.schema import StateSchema, parse_schema
from statemaint.codec.rows.murmur3 import hash_row, pmod
from statemaint.codec.rows.unsafe_write import RowWriter, Values
from statemaint.errors import (
    AlreadyExistsError,
    CheckpointError,
    ConfigError,
    DamagedError,
    NotFoundError,
    StatemaintError,
    UnsupportedError,
)
from statemaint.execute.lease import Lease, leased
from statemaint.execute.ledger import Ledger
from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Operator, Provider, Store
from statemaint.model.files import spark_checksums
from statemaint.model.ids import DEFAULT_STORE, StoreId, version_of
from statemaint.plan.findings.health import diagnose
from statemaint.provider.files import StateStoreConf
from statemaint.provider.hdfs import HDFSBackedStateStoreProvider
from statemaint.records.claims import Holder
from statemaint.scan.scanner import scan
from statemaint.storage import Storage

KeyValue = tuple[Values, Values | None]
"""The columns of a key and of its value; `None` removes the key."""

# The state of these operators is shuffled by the whole key. A session's key has one more column
# than it is shuffled by, and the four stores of a join must agree with each other.
_WHOLE_KEY = ("stateStoreSave", "dedupe", "dedupeWithinWatermark")


class LiveCheckpointError(StatemaintError):
    """The checkpoint is in use, or a batch of it is unfinished."""

    code = "LIVE_CHECKPOINT"
    exit_code = 6

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(path, detail)
        self.path, self.detail = path, detail

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}; stop the query once its batch is committed"


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """The batch that was written; `rows` is the number of its changes, by partition."""

    batch: int
    version: int
    rows: Mapping[int, int]


def bootstrap(
    storage: Storage, rows: Iterable[KeyValue], *, operator: int = 0, run: str | None = None
) -> Bootstrapped:
    """Commits one more batch that puts some rows into an operator's state and removes others.

    All rows are held in memory; the state of the operator is read one partition at a time. Each key
    that is already in the state is hashed to its partition, as a check of our arithmetic.

    The lease of the checkpoint is held meanwhile, which only other statemaint runs respect. This
    function cannot check the following; the caller must ensure:

    * that no query runs. A query that only waits for input looks like a stopped one. It finds its
      next batch taken and fails (CONCURRENT_STREAM_LOG_UPDATE). A query that starts meanwhile is
      detected if it has written anything before the commit.
    * that the facts in the rows are not in input that the query has yet to read: they would be
      counted twice.
    * that the values have the meaning that the query expects; only their types are compared.
    * that the rows are not older than the watermark: the next batch drops such rows, as any state.

    Args:
        storage: where the checkpoint lives.
        rows: keys and values, by the schemas of the operator's state; of equal keys the last one
            counts.
        operator: a streaming aggregation or a deduplication.
        run: the run's id in the lease and the ledger; a new one by default.

    Raises:
        ConfigError: naming the row that does not fit the schema; or when nothing is committed.
        UnsupportedError: for state of another provider or kind of operator.
        LiveCheckpointError: when a batch is unfinished, or a file changes meanwhile.
        CheckpointError: when the state is damaged, or shuffled in an unknown way.
        LeaseHeldError: when another run maintains the checkpoint.
        StorageError: when the storage fails.
    """
    name = run or f"bootstrap-{uuid4().hex[:8]}"
    with leased(storage, Holder(name)) as lease:
        surgery = _Surgery.on(storage, operator, lease)
        changes = surgery.changes(rows)
        surgery.check_partitions()
        claimed = surgery.claim(name)
        written = [surgery.write(store, changes) for store in surgery.checkpoint.stores]
        surgery.commit(written, claimed)
        counts = {partition: len(records) for partition, records in sorted(changes.items())}
        return Bootstrapped(surgery.batch, version_of(surgery.batch), counts)


@dataclass(frozen=True, slots=True)
class _Surgery:
    """One batch while it is written."""

    storage: Storage
    lease: Lease
    checkpoint: Checkpoint
    operator: Operator
    schema: StateSchema
    logs: frozenset[Entry]

    @classmethod
    def on(cls, storage: Storage, number: int, lease: Lease) -> "_Surgery":
        logs = _logs(storage)
        checkpoint = scan(storage)
        _must_stand_still(checkpoint, logs)
        operator = _supported(checkpoint, number)
        _must_be_sound(checkpoint)
        return cls(storage, lease, checkpoint, operator, _schema(storage, number), logs)

    @property
    def batch(self) -> int:
        return 1 + (self.checkpoint.committed or 0)

    def changes(self, rows: Iterable[KeyValue]) -> dict[int, list[Record]]:
        keys = RowWriter(self.schema.key, normalize=True)
        values = RowWriter(self.schema.value)
        changes: dict[int, list[Record]] = defaultdict(list)
        for number, (key, value) in enumerate(rows):
            try:
                written = keys.write(key)
                record = written, None if value is None else values.write(value)
            except ConfigError as error:
                raise ConfigError(f"row {number}: {error}") from error
            changes[pmod(hash_row(written, keys.struct), self.operator.partitions)].append(record)
        return changes

    def check_partitions(self) -> None:
        """Checks that every existing key is in the partition that our arithmetic gives it."""
        struct = RowWriter(self.schema.key).struct
        for store in self.checkpoint.stores:
            if store.id.operator != self.operator.id:
                continue
            for key, _ in self._provider(store).get_read_store(self.batch).iterator():
                place = pmod(hash_row(key, struct), self.operator.partitions)
                if place != store.id.partition:
                    text = f"a key that belongs to partition {place} by our arithmetic is here"
                    raise CheckpointError(store.id.directory, text)

    def claim(self, run: str) -> frozenset[Entry]:
        """Claims the next batch, unless a query has it, and returns the resulting log entries."""
        self._must_be_unchanged(self.logs)
        self.lease.must_hold()
        Ledger(self.storage, run, self.lease).adding(self.batch)
        size = self._log("offsets")
        claimed = _logs(self.storage)
        added = {(entry.path, entry.size) for entry in claimed ^ self.logs}
        if added != {(f"offsets/{self.batch}", size)}:
            raise LiveCheckpointError(f"offsets/{self.batch}", "changed as soon as it was written")
        return claimed

    def write(self, store: Store, changes: Mapping[int, list[Record]]) -> Entry:
        self.lease.check()
        provider = self._provider(store)
        edits = changes.get(store.id.partition) if store.id.operator == self.operator.id else None
        if edits:
            target = provider.get_store(self.batch)
            for key, value in edits:
                if value is None:
                    target.remove(key)
                else:
                    target.put(key, value)
            target.commit()
        else:
            provider.write_empty(version_of(self.batch))
        return self.storage.stat(f"{store.id.directory}/{version_of(self.batch)}.delta")

    def commit(self, written: Iterable[Entry], claimed: frozenset[Entry]) -> None:
        """Commits the batch, after a check that no other writer has changed its files."""
        self.lease.must_hold()
        for entry in written:
            if self.storage.stat(entry.path) != entry:
                raise LiveCheckpointError(entry.path, "was replaced while the batch was written")
        self._must_be_unchanged(claimed)
        self._log("commits")

    def _must_be_unchanged(self, logs: frozenset[Entry]) -> None:
        if changed := sorted(entry.path for entry in _logs(self.storage) ^ logs):
            raise LiveCheckpointError(changed[0], "was added, changed or removed meanwhile")

    def _log(self, folder: str) -> int:
        """Copies the newest entry of a log to the batch, and returns its size in bytes."""
        newest, path = f"{folder}/{self.batch - 1}", f"{folder}/{self.batch}"
        content = self.storage.read(newest)
        # A batch that was rewound may have left this file: Hadoop would compare it with ours.
        self.storage.delete(f"{folder}/.{self.batch}.crc")
        try:
            return self.storage.write(path, [content], like=newest).size
        except AlreadyExistsError as error:
            raise LiveCheckpointError(path, "a query wrote it first") from error

    def _provider(self, store: Store) -> HDFSBackedStateStoreProvider:
        conf = StateStoreConf(
            compression_codec=self.checkpoint.codec,
            row_checksum_enabled=self.checkpoint.row_checksums,
            file_checksum_enabled=bool(spark_checksums(store.files)),
            max_versions_to_retain_in_memory=0,
        )
        return HDFSBackedStateStoreProvider(store.id, self.storage, conf)


def _logs(storage: Storage) -> frozenset[Entry]:
    entries = (entry for folder in ("offsets", "commits") for entry in storage.list(folder))
    return frozenset(entry for entry in entries if entry.name.isdecimal())


def _must_stand_still(checkpoint: Checkpoint, logs: frozenset[Entry]) -> None:
    offsets = [int(entry.name) for entry in logs if entry.path.startswith("offsets/")]
    newest = max(offsets, default=None)
    if newest is not None and newest != checkpoint.committed:
        text = f"batch {newest} has begun, and the newest committed one is {checkpoint.committed}"
        raise LiveCheckpointError(f"offsets/{newest}", text)
    if checkpoint.committed is None:
        text = "no batch is committed; let the query run once, so that it has a state to add to"
        raise ConfigError(f"{checkpoint.root}: {text}")


def _must_be_sound(checkpoint: Checkpoint) -> None:
    of_stores = (finding for store in checkpoint.stores for finding in diagnose(store, checkpoint))
    for finding in (*checkpoint.findings, *of_stores):
        if finding.damage:
            place = finding.store.directory if finding.store else checkpoint.root
            raise DamagedError(place, finding.detail, code=finding.code)


def _supported(checkpoint: Checkpoint, number: int) -> Operator:
    """Returns the operator, after a check that the layout of its state is known."""
    if checkpoint.provider is not Provider.HDFS_BACKED:
        raise UnsupportedError(checkpoint.root, checkpoint.provider, Provider.HDFS_BACKED)
    operators = {operator.id: operator for operator in checkpoint.operators}
    if number not in operators:
        text = "has no metadata (Spark 4.0 and later write it)" if not operators else "is not there"
        raise ConfigError(f"{checkpoint.root}: operator {number} {text}")
    operator = operators[number]
    if operator.name not in _WHOLE_KEY or operator.stores != (DEFAULT_STORE,):
        what = f"operator {number} ({operator.name})"
        raise UnsupportedError(checkpoint.root, what, ", ".join(_WHOLE_KEY))
    return operator


def _schema(storage: Storage, operator: int) -> StateSchema:
    path = f"{StoreId(operator, 0).directory}/_metadata/schema"
    try:
        schema = parse_schema(storage.read(path))
    except NotFoundError as error:
        raise UnsupportedError(storage.root, f"state without {path}", "state with it") from error
    if not schema.key["fields"]:
        raise UnsupportedError(storage.root, "state without a key", "grouped state")
    return schema
