"""Reading state back: a chain's files folded into the rows they stand for.

This is the clear version, which holds the whole state in one dictionary; faster ones must equal it.
"""

from collections.abc import Iterable, Iterator

from statemaint.codec import lz4_block, records
from statemaint.codec.digest import StateDigest, digest
from statemaint.codec.records import Record
from statemaint.errors import CodecError, SnapshotMismatchError
from statemaint.model.chain import Chain
from statemaint.storage import Storage

State = dict[bytes, bytes]


def read_delta(storage: Storage, path: str) -> Iterator[Record]:
    """Yields a delta's records in order.

    Raises:
        CodecError: naming the file, when its bytes do not follow the format.
        StorageError: when it cannot be read.
    """
    try:
        with storage.open(path) as stream:
            yield from records.decode(lz4_block.decode(stream))
    except CodecError as error:
        raise error.at(path) from error


def read_snapshot(storage: Storage, path: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields a snapshot's rows in the order they are stored.

    Raises:
        CodecError: naming the file, when its bytes do not follow the format.
        StorageError: when it cannot be read.
    """
    try:
        yield from records.snapshot_rows(read_delta(storage, path))
    except CodecError as error:
        raise error.at(path) from error


def fold(storage: Storage, chain: Chain) -> State:
    """Returns the state at a chain's version.

    Raises:
        CodecError: naming the file, when one does not follow the format.
        StorageError: when one cannot be read.
    """
    state = dict(read_snapshot(storage, chain.base.entry.path)) if chain.base else {}
    for delta in chain.deltas:
        records.apply(state, read_delta(storage, delta.entry.path))
    return state


def encode_snapshot(state: State) -> Iterable[bytes]:
    """Yields the file that holds a state, as Spark's `writeSnapshotFile` would."""
    return lz4_block.encode(records.encode(state.items()))


def snapshot_digest(storage: Storage, path: str) -> StateDigest:
    """Returns the digest of a stored snapshot, read back whole."""
    return digest(read_snapshot(storage, path))


def state_digest(state: State) -> StateDigest:
    """Returns the digest of a state in memory."""
    return digest(state.items())


def must_equal(path: str, found: StateDigest, expected: StateDigest) -> None:
    """Compares what a snapshot holds with what the files below it fold to.

    Raises:
        SnapshotMismatchError: when the two states differ.
    """
    if found != expected:
        raise SnapshotMismatchError(path, found=str(found), expected=str(expected))
