"""Estimates of memory, each made before its work begins: a fold, a file read, the program itself.

They are upper estimates for what states usually hold; `make bench` compares them with the peaks of
real folds, and a table of docs/benchmarks.md has the result.

    HDFS-backed   the table of the keys in all deltas, as if no key came twice (`compiled.window`);
                  a window over the largest delta; the outputs. The base streams past.
    RocksDB       the changes that are held before they are written (`changes.LIMITS`), twice, with
                  their places and their table; RocksDB's own buffer; the indexes of the SST files.

File sizes are a poor measure: a row takes 4 stored bytes or 60,000. So for a chain of some size the
beginning of one delta is read. Spilled and streamed data does not count.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import BinaryIO, cast

from statemaint.codec.compression.base import Compression
from statemaint.codec.hdfs import records
from statemaint.codec.rocksdb import changelog
from statemaint.errors import CodecError, StatemaintError
from statemaint.fold.source import COMPILED_FROM, Source
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider, Store
from statemaint.model.files import Delta
from statemaint.storage import MOST_AHEAD

_MIB = 1024 * 1024

# The program, once.
_NUMBA, _LOOPS, _ROCKSDB = 76 * _MIB, 58 * _MIB, 16 * _MIB

# A fold by the compiled engine.
_FOLD = 6 * _MIB
_PER_SNAPSHOT = 6 * _MIB  # its output, and the data that waits to be written
_PER_KEY = 45  # of the table while it grows: 20 for an entry, a load of 0.7, old and new together
_WINDOW, _MOST_WINDOW = 2.5, 8 * _MIB  # it grows by doubling, up to the held part of a delta
_PER_RECORD = 3  # of the largest delta: their fates

_OBJECTS = 30  # a fold in plain Python: every row is an object

# A fold by RocksDB.
_DATABASE = 16 * _MIB
_HELD = 65 * _MIB  # `changes.LIMITS.held`, plus one step
_PER_CHANGE = 85  # its place, its entry in the table, its rank
_MOST_BUFFER = 128 * _MIB  # two of RocksDB's write buffers
_OF_TABLES = 0.06  # of SST files: their indexes and filters

_PARTS = 6 * 8 * _MIB  # files in transit from and to a far storage

# A look into a delta.
_WORTH_A_LOOK = 2 * _MIB
_ENOUGH = 64 * 1024
_LOOKED_AT, _MOST_RECORDS, _PIECE = 256 * 1024, 4096, 16 * 1024


@dataclass(frozen=True, slots=True)
class Density:
    """The content of a store's deltas."""

    payload: float  # uncompressed bytes for each stored byte
    record: float  # the mean size of a record in the payload

    def records(self, stored: int) -> int:
        return int(stored * self.payload / self.record)


UNKNOWN = Density(payload=8.0, record=48.0)
"""The density of deltas that were not read: more than most states have."""


def loading(stored: int, provider: Provider) -> int:
    """Returns the bytes that the program itself grows by when it loads the code that folds.

    The compiled loops count even if they are loaded already: nothing shows that. `stored` is the
    stored bytes that the whole run folds.
    """
    rocks = _ROCKSDB * (provider is Provider.ROCKSDB and "rocksdict" not in sys.modules)
    if stored < COMPILED_FROM:
        return rocks
    return rocks + _LOOPS + _NUMBA * ("numba" not in sys.modules)


def density(source: Source, deltas: Iterable[Delta], provider: Provider) -> Density:
    """Returns the density of some deltas, from the beginning of one of them if they are large.

    It never fails: the fold reports files that cannot be read.
    """
    listed = tuple(deltas)
    if sum(delta.entry.size for delta in listed) < _WORTH_A_LOOK:
        return UNKNOWN
    large = [delta for delta in listed if delta.entry.size >= _ENOUGH] or listed
    path = min(large, key=lambda delta: delta.entry.size).entry.path
    try:
        with source.storage.open(path) as stream:
            counted, sizes = _Counted(stream), list[int]()
            payload = counted.payload_of(source.compression)
            with suppress(CodecError):  # a record beyond the part that is read, or damage
                sizes += islice(_sizes(source, payload, provider), _MOST_RECORDS)
    except StatemaintError:
        return UNKNOWN
    if not counted.payload:
        return UNKNOWN
    record = sum(sizes) / len(sizes) if sizes else counted.payload
    return Density(max(1.0, counted.payload / counted.stored), record)


def _sizes(source: Source, payload: Iterator[bytes], provider: Provider) -> Iterator[int]:
    checked = source.row_checksums
    if provider is Provider.ROCKSDB:
        changes = changelog.decode(payload, row_checksums=checked)[1]
        yield from (9 + len(key) + len(value or b"") for _, key, value in changes)
    else:
        pairs = records.decode(payload, row_checksums=checked)
        yield from (8 + len(key) + len(value or b"") for key, value in pairs)


class _Counted:
    """A stream that counts the bytes taken from it, and their payload."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.stored = self.payload = 0

    def read(self, size: int) -> bytes:
        piece = self._stream.read(min(size, _PIECE))
        self.stored += len(piece)
        return piece

    def payload_of(self, compression: Compression) -> Iterator[bytes]:
        for block in compression.blocks(cast("BinaryIO", self)):
            self.payload += len(block.payload)
            yield bytes(block.payload)
            if self.payload >= _LOOKED_AT:
                return


def chains_need(chains: Sequence[Chain], source: Source, store: Store, *, writes: int = 0) -> int:
    """Returns an upper estimate of the memory for folding some chains of a store in succession."""
    if not chains:
        return 0
    provider = Provider.ROCKSDB if store.rocks else Provider.HDFS_BACKED
    parts = store.rocks.parts if store.rocks else {}
    content = density(source, max(chains, key=lambda chain: chain.size).deltas, provider)
    return max(
        fold_need(
            chain,
            provider,
            content,
            writes=writes,
            tables=sum(parts.get(chain.base.entry.path, {}).values()) if chain.base else 0,
            far=source.far,
        )
        for chain in chains
    )


def check_need(store: Store, source: Source, *, folds: bool = True) -> int:
    """Returns an upper estimate of the memory that checking a store takes.

    A snapshot that turns out to be wrong is compared with more of the log than this counts.
    """
    reading = read_need(max((file.entry.size for file in store.files), default=0), far=source.far)
    return max(reading, chains_need(_between_snapshots(store), source, store)) if folds else reading


def _between_snapshots(store: Store) -> list[Chain]:
    """Returns the chains between snapshots, each with the changes of the upper one's version."""
    snapshots, deltas = store.versions.snapshots, store.versions.deltas
    return [
        Chain(
            version,
            snapshots[version],
            tuple(delta for number, delta in deltas.items() if below < number <= version),
        )
        for below, version in pairwise((0, *sorted(snapshots)))
    ]


def fold_need(
    chain: Chain,
    provider: Provider,
    content: Density = UNKNOWN,
    *,
    writes: int = 0,
    tables: int = 0,
    far: bool = False,
) -> int:
    """Returns the memory for folding a chain and for writing and reading back its snapshots.

    `tables` are the bytes of the SST files that its base refers to; `far`: files come from a
    storage that holds whole parts of them.
    """
    moved = _moved(chain) if far else 0
    if provider is Provider.ROCKSDB:
        # The target of two snapshots on a base has a separate database (`rocksdb.write`).
        databases = 2 if writes > 1 and chain.base else 1
        return moved + _rocks_need(chain, content, databases) + int(databases * tables * _OF_TABLES)
    moved += writes * _PER_SNAPSHOT
    return moved + min(_hdfs_need(chain, content), _FOLD + _OBJECTS * chain.size)


def _hdfs_need(chain: Chain, content: Density) -> int:
    sizes = [delta.entry.size for delta in chain.deltas]
    largest = max(sizes, default=0)
    window = max(min(content.payload * largest, _MOST_WINDOW), content.record) * _WINDOW
    keys, fates = content.records(sum(sizes)), content.records(largest)
    return _FOLD + int(window) + _PER_KEY * keys + _PER_RECORD * fates


def _rocks_need(chain: Chain, content: Density, databases: int) -> int:
    payload = int(content.payload * sum(delta.entry.size for delta in chain.deltas))
    held = min(payload, _HELD)
    buffer = min(payload, _MOST_BUFFER) if chain.base or payload > held else 0
    changes = 2 * held + int(held / content.record * _PER_CHANGE)
    return changes + databases * (_DATABASE + buffer)


def _moved(chain: Chain) -> int:
    """Returns the bytes in transit: of the file being read, the next ones, and the snapshot."""
    largest = max((file.entry.size for file in (*chain.deltas, chain.base) if file), default=0)
    return min(2 * largest, _PARTS) + min(chain.size, _PARTS) + min(chain.size, MOST_AHEAD)


def read_need(size: int, *, far: bool) -> int:
    return _FOLD + (min(2 * size, _PARTS) if far else 0)
