"""States as dictionaries, read by the plainest means."""

from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.fold import Source
from statemaint.model.chain import Chain
from statemaint.storage import Storage


def source(storage: Storage, codec: str = "lz4", *, row_checksums: bool = False) -> Source:
    """Returns a source of files of some codec, with a key of its own."""
    return Source(storage, COMPRESSIONS[codec], row_checksums, bytes(range(16)))


def state_of(
    storage: Storage, chain: Chain, codec: str = "lz4", *, row_checksums: bool = False
) -> dict[bytes, bytes]:
    """Returns the state at a chain's version."""
    files = source(storage, codec, row_checksums=row_checksums)
    state = dict(files.rows(chain.base.entry.path)) if chain.base else {}
    for delta in chain.deltas:
        records.apply(state, files.records(delta.entry.path))
    return state
