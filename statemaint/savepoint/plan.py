"""What a savepoint consists of, by a scan of its source as it was after the batch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from uuid import NAMESPACE_URL, uuid5

from statemaint.codec.metadata import logs
from statemaint.errors import DamagedError, UnsupportedError
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import MAINTAINED, Checkpoint, Provider, Store
from statemaint.model.files import UnknownFile, classify_any, spark_checksums
from statemaint.model.findings import Finding
from statemaint.model.ids import batch_in, version_of
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.planning import chains_at, not_committed, scan_checkpoint
from statemaint.savepoint.logs import logs_of, unchecked_sources
from statemaint.scan.identity import check_links
from statemaint.storage import Storage, Without
from statemaint.storage.base import Chunks

_OPERATOR_METADATA = re.compile(r"state/[0-9]+/_metadata/v2/([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class SavepointPlan:
    """A savepoint that can be written.

    Attributes:
        storage: the source, read-only, as it was after the batch.
        checkpoint: the scan of it.
        batch: the batch after which a query continues.
        stores: the file to write for each store that a restart reads.
        logs: every other file but `metadata`, in the order of its writing; read when it is written.
        unchecked: the sources of which it is unknown whether they can go on.
        witness: the digest of the batch's entries in the logs.
    """

    storage: Storage
    checkpoint: Checkpoint
    batch: int
    stores: tuple[tuple[Store, WriteSnapshot], ...]
    logs: tuple[tuple[str, Chunks], ...]
    unchecked: tuple[str, ...]
    witness: str

    def refusal(self, finding: Finding) -> DamagedError:
        detail = f"no savepoint of batch {self.batch}: {finding.detail}"
        return DamagedError(self.checkpoint.root, detail, code=finding.code.value)


def committed_batches(storage: Storage) -> list[int]:
    """Returns the batches in the commit log, ascending."""
    entries = (batch_in(entry.path, "commits") for entry in storage.list("commits"))
    return sorted(batch for batch in entries if batch >= 0)


def plan_savepoint(storage: Storage, batch: int, *, to: str) -> SavepointPlan:
    """Returns the savepoint of a batch; writes nothing.

    Args:
        storage: the source, read-only.
        batch: a committed batch.
        to: the address of the savepoint, by which its unique ids are its own.

    Raises:
        ConfigError: when the batch is not committed.
        DamagedError: when a restart after it would fail, or load wrong rows, as far as names show.
        UnsupportedError: when the checkpoint is of a kind that cannot be read.
    """
    check_links(storage)
    view = Without(storage, partial(_is_later, batch))
    checkpoint = scan_checkpoint(view)
    if checkpoint.committed != batch:
        raise not_committed(storage.root, batch, committed_batches(storage))
    if checkpoint.stores and checkpoint.provider not in MAINTAINED:
        raise UnsupportedError(storage.root, "an unknown state store provider", str(MAINTAINED))
    ids = logs.parse_commit(view.read(f"commits/{batch}"))
    renamed = {  # in the same way whenever the savepoint is continued
        one: str(uuid5(NAMESPACE_URL, f"{to}#{one}"))
        for partitions in ids.values()
        for stores in partitions
        for one in stores
    }
    own = {
        operator: tuple(tuple(renamed[one] for one in stores) for stores in partitions)
        for operator, partitions in ids.items()
    }
    chains = chains_at(checkpoint, batch, f"no savepoint of batch {batch}")
    stores = tuple(
        (store, _snapshot_of(store, checkpoint, chain, renamed)) for store, chain in chains
    )
    files = tuple(logs_of(view, checkpoint, batch, to=to, ids=own))
    path = f"offsets/{batch}"
    unchecked = unchecked_sources(path, b"".join(dict(files)[path]))
    witness = witness_of(storage, batch)
    return SavepointPlan(view, checkpoint, batch, stores, files, unchecked, witness)


def witness_of(storage: Storage, batch: int) -> str:
    """Returns the digest of a batch's entries in the logs: another one if it is written again."""
    entries = (storage.read(f"{log}/{batch}") for log in ("offsets", "commits"))
    return sha256(b"\n".join(entries)).hexdigest()


def _is_later(batch: int, path: str) -> bool:
    """Returns whether a file is of a later batch: of the logs, of metadata, or of the state."""
    if not path.startswith("state/"):
        return max(batch_in(path, "offsets"), batch_in(path, "commits")) > batch
    if found := _OPERATOR_METADATA.fullmatch(path):
        return int(found[1]) > batch
    file = classify_any(Entry(path, 0, None))
    return not isinstance(file, UnknownFile) and file.version > version_of(batch)


def _snapshot_of(
    store: Store, checkpoint: Checkpoint, chain: Chain, ids: Mapping[str, str]
) -> WriteSnapshot:
    version = chain.version
    unique = ids.get(store.rocks.id_at(version) or "") if store.rocks else None
    name = f"{version}_{unique}" if unique else str(version)
    kind = "zip" if checkpoint.provider is Provider.ROCKSDB else "snapshot"
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
