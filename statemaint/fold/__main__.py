"""Compiles the kernels of large folds in advance: `python -m statemaint.fold`, as in an image."""

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.rocksdb import changelog
from statemaint.fold.compiled.engine import FastEngine
from statemaint.fold.rocksdb import Limits, RocksEngine
from statemaint.fold.source import Source
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot
from statemaint.storage import MemoryStorage


def main() -> None:
    """Folds a small state of each kind, which compiles every kernel and keeps the result."""
    for compression in COMPRESSIONS.values():
        storage = MemoryStorage()
        source = Source(storage, compression, row_checksums=True, key=bytes(16))
        changes = [(b"key", bytes(40)), (b"other", bytes(40)), (b"key", None)]
        payload = list(records.encode(changes, row_checksums=True))
        base = list(records.encode(changes[:2], row_checksums=True))
        entries = [
            storage.write("1.snapshot", encode(compression, base)),
            storage.write("2.delta", encode(compression, payload)),
        ]
        chain = Chain(2, Snapshot(1, entries[0]), (Delta(2, entries[1]),))
        for _ in FastEngine().fold(source, chain, (2, 1)):
            pass
        FastEngine().digest(source, "1.snapshot")
    _fold_rocks()


def _fold_rocks() -> None:
    """Folds a small RocksDB store, with and without column families."""
    for number in (1, 2):
        storage = MemoryStorage()
        source = Source(storage, COMPRESSIONS["lz4"], row_checksums=False, key=bytes(16))
        # The first eight bytes of the keys are equal, so that further bytes are compared.
        changes = [(changelog.PUT, b"\1\0a key %d" % key, bytes(40)) for key in range(30)]
        payload = changelog.encode(changelog.Header(number), changes)
        entry = storage.write("1.changelog", encode(source.compression, payload))
        chain = Chain(1, None, (Delta(1, entry),))
        RocksEngine(Limits(compiled=0)).fold(source, chain, (1,), write=False).digests  # noqa: B018


if __name__ == "__main__":
    main()
