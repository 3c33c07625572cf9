"""A checkpoint as one scan saw it: what `scan` makes, and all that `plan` may look at."""

from dataclasses import dataclass, field

from statemaint.listing import Entry
from statemaint.model.files import Snapshot, StateFile, snapshot_version
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId, version_of


@dataclass(frozen=True, slots=True)
class Attestation:
    """Proof that a snapshot was read back whole and equals the fold of what it replaces (S6).

    It holds only for the very file that was read: `size` and `modified` must still be the same.

    Attributes:
        path: of the snapshot, relative to the checkpoint.
        version: the state version it holds.
        size: bytes of the stored file.
        modified: the storage's time of the stored file.
        digest: 32 hexadecimal digits, order-free over all rows.
        rows: how many keys the state has.
        bytes: key and value bytes of all rows.
        files: how many files it was compared with; 0 when nothing below it was left.
        start: the version that their chain starts from, 0 for the empty state.
    """

    path: str
    version: int
    size: int
    modified: float | None
    digest: str
    rows: int
    bytes: int
    files: int = 0
    start: int = 0

    def covers(self, entry: Entry) -> bool:
        """Tells whether the listed file is still the one that was attested."""
        return (entry.path, entry.size, entry.modified) == (self.path, self.size, self.modified)


@dataclass(frozen=True, slots=True)
class Store:
    """One store.

    Attributes:
        id: which one.
        files: what lies in its directory.
        attestations: what the ledger says of its snapshots.
        findings: what the scan found wrong.
        written: the paths of the newest snapshots that we wrote, or were about to write.
    """

    id: StoreId
    files: tuple[StateFile, ...] = ()
    attestations: tuple[Attestation, ...] = ()
    findings: tuple[Finding, ...] = ()
    written: tuple[str, ...] = ()

    @property
    def foreign(self) -> tuple[Snapshot, ...]:
        """Returns the snapshots that somebody else wrote since we first wrote one, ascending."""
        ours = [found for path in self.written if (found := snapshot_version(path)) is not None]
        if not ours:
            return ()
        theirs = (
            file for file in self.files if isinstance(file, Snapshot) and file.version > min(ours)
        )
        unknown = (one for one in theirs if one.entry.path not in self.written)
        return tuple(sorted(unknown, key=lambda one: one.version))


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator as its metadata describes it (Spark 4.0+ writes it).

    Attributes:
        id: the operator's number.
        name: Spark's name for its kind, such as `stateStoreSave`.
        stores: the names of its stores.
        partitions: how many partitions its metadata declares.
    """

    id: int
    name: str
    stores: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that one scan learned.

    Attributes:
        root: the address it was read from.
        query_id: from `metadata`; empty when that file is missing.
        batches: the committed batches still in `commits/`, ascending.
        provider: the state store provider's class name, without its package.
        codec: the compression of every state file, by Spark's short name.
        row_checksums: whether every record in them carries a checksum.
        operators: what the operators' metadata say.
        stores: every store, ascending by id.
        findings: what concerns the whole checkpoint.
        unclassified: files under `state/` that belong to no store: kept, never touched.
    """

    root: str
    query_id: str = ""
    batches: tuple[int, ...] = ()
    provider: str = "HDFSBackedStateStoreProvider"
    codec: str = "lz4"
    row_checksums: bool = False
    operators: tuple[Operator, ...] = ()
    stores: tuple[Store, ...] = ()
    findings: tuple[Finding, ...] = ()
    unclassified: tuple[Entry, ...] = field(default=())

    @property
    def committed(self) -> int | None:
        """Returns the newest committed batch, `None` when there is none."""
        return self.batches[-1] if self.batches else None

    @property
    def target(self) -> int | None:
        """Returns the newest state version that a committed batch wrote (S2)."""
        return None if self.committed is None else version_of(self.committed)

    @property
    def required(self) -> int | None:
        """Returns the oldest version that somebody can still ask for by its batch (S3)."""
        return version_of(self.batches[0]) if self.batches else None
