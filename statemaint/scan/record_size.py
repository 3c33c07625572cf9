"""The stored size of a record, read from a file of changes where no proof of a snapshot has it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from statemaint.codec.compression.base import decode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.rocksdb import changelog
from statemaint.errors import StatemaintError
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.model.restart_time import record_size
from statemaint.storage import Storage

# Large enough that the file's frame does not count, small enough to be read beside a scan.
_LIKED, _MOST = 256 * 1024, 16 * 1024 * 1024


def with_record_size(storage: Storage, checkpoint: Checkpoint) -> Checkpoint:
    """Returns the checkpoint with the size of its records, as far as one readable change shows."""
    sizes = (entry for entry in _changes(checkpoint) if entry.size <= _MOST)
    entry = max(sizes, key=lambda entry: (-max(0, entry.size - _LIKED), entry.size), default=None)
    if entry is None or record_size(checkpoint.stores):
        return checkpoint
    try:
        with storage.open(entry.path) as stream:
            payload = decode(COMPRESSIONS[checkpoint.codec], stream)
            found: Iterable[object] = (
                changelog.decode(payload, row_checksums=checkpoint.row_checksums)[1]
                if checkpoint.provider is Provider.ROCKSDB
                else records.decode(payload, row_checksums=checkpoint.row_checksums)
            )
            count = sum(1 for _ in found)
    except StatemaintError:
        return checkpoint  # whoever needs the file reports it
    return replace(checkpoint, record_size=entry.size / count if count else None)


def _changes(checkpoint: Checkpoint) -> Iterator[Entry]:
    version = checkpoint.target
    for store in checkpoint.stores:
        chain = store.versions.chain(version) if version else None
        if isinstance(chain, Chain):
            yield from (delta.entry for delta in chain.deltas)
