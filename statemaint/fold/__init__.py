"""Folding: from the files of a chain to the state of its version, and from that to a snapshot.

HDFS-backed stores have two equivalent engines: `reference` in plain Python, which also serves small
states, and `compiled`, whose memory does not grow with the state. RocksDB stores are folded by
RocksDB itself (`rocksdb`). A fold reads a storage and never writes to it.
"""

from statemaint.codec.integrity.digest import StateDigest
from statemaint.errors import SnapshotMismatchError
from statemaint.fold.reference import ClearEngine
from statemaint.fold.source import COMPILED_FROM, Engine, Folding, Pieces, Source
from statemaint.model.checkpoint import Provider

__all__ = ["ClearEngine", "Engine", "Folding", "Pieces", "Source", "engine_for", "must_equal"]


def engine_for(stored: int, provider: Provider = Provider.HDFS_BACKED) -> Engine:
    """Returns the engine for a run that reads `stored` stored bytes in all."""
    if provider is Provider.ROCKSDB:
        from statemaint.fold.rocksdb.write import RocksEngine  # noqa: PLC0415 -- RocksDB is large

        return RocksEngine()
    if stored < COMPILED_FROM:
        return ClearEngine()
    from statemaint.fold.compiled.engine import FastEngine  # noqa: PLC0415 -- small runs never pay for it

    return FastEngine()


def must_equal(path: str, found: StateDigest, expected: StateDigest) -> None:
    if found != expected:
        raise SnapshotMismatchError(path, found=str(found), expected=str(expected))
