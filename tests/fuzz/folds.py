"""Both engines on the same hostile files: the same state or an error, and no look beyond a buffer.

input = flags(1) length(>H) length(>H) base first second      three payloads of records
flags = 1 with row checksums | 2 with a base
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.snappy import Snappy
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.errors import CodecError
from statemaint.fold import ClearEngine, Engine, Source
from statemaint.fold.compiled.engine import FastEngine
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot
from statemaint.storage import MemoryStorage
from tests.fuzz.mutate import mutated, seal_rows
from tests.fuzz.targets import Target
from tests.support.checkpoints import changes, state_at

# As if small files were large: windows that records do not fit in, each delta decoded twice.
_ENGINES = (FastEngine(window=2000, runs=300), FastEngine(window=100, held=1))
_SNAPPY = Snappy(block_size=64)
_KEY = bytes(range(16))
_LENGTHS = struct.Struct(">BHH")


@dataclass(frozen=True)
class _Input:
    row_checksums: bool
    has_base: bool
    payloads: tuple[bytes, bytes, bytes]

    @classmethod
    def of(cls, data: bytes) -> "_Input":
        padded = data.ljust(_LENGTHS.size, b"\0")
        flags, first, second = _LENGTHS.unpack_from(padded)
        rest = padded[_LENGTHS.size :]
        parts = rest[:first], rest[first : first + second], rest[first + second :]
        return cls(bool(flags & 1), bool(flags & 2), parts)

    def packed(self) -> bytes:
        base, first, second = self.payloads
        flags = self.row_checksums + 2 * self.has_base
        return _LENGTHS.pack(flags, len(base) & 0xFFFF, len(first) & 0xFFFF) + base + first + second

    def chain(self, storage: MemoryStorage) -> Chain:
        names = ("1.snapshot", "2.delta", "3.delta")
        entries = [
            storage.write(name, compression.encode(_SNAPPY, [payload]))
            for name, payload in zip(names, self.payloads, strict=True)
        ]
        deltas = Delta(2, entries[1]), Delta(3, entries[2])
        if self.has_base:
            return Chain(3, Snapshot(1, entries[0]), deltas)
        return Chain(2, None, (Delta(1, entries[1]), Delta(2, entries[2])))


def _check(data: bytes) -> None:
    asked = _Input.of(data)
    storage = MemoryStorage()
    chain = asked.chain(storage)
    source = Source(storage, _SNAPPY, asked.row_checksums, _KEY)
    expected = _outcome(ClearEngine(), source, chain)
    for engine in _ENGINES:
        found = _outcome(engine, source, chain)
        assert found == expected or _repeats(source, chain)


Outcome = tuple[dict[bytes, bytes], object] | None


def _outcome(engine: Engine, source: Source, chain: Chain) -> Outcome:
    """Returns the state in the file that an engine writes and its digest, or that it refuses."""
    folding = engine.fold(source, chain, (chain.version,))
    try:
        stored = b"".join(piece for _, piece in folding)
    except CodecError:
        return None
    payload = compression.decode(_SNAPPY, io.BytesIO(stored))
    return dict(records.snapshot_rows(records.decode(payload))), folding.digests


def _repeats(source: Source, chain: Chain) -> bool:
    """Tells whether the base has a key twice, which nobody writes: the engines may differ then."""
    if not chain.base:
        return False
    try:
        keys = [key for key, _ in source.rows(chain.base.entry.path)]
    except CodecError:
        return False
    return len(keys) != len(set(keys))


def _seeds() -> Iterator[bytes]:
    for row_checksums in (False, True):
        base, first, second = (
            b"".join(records.encode(rows, row_checksums=row_checksums))
            for rows in (state_at(6).items(), changes(7), [*changes(8), *changes(9)])
        )
        for has_base in (False, True):
            yield _Input(row_checksums, has_base, (base, first, second)).packed()
            yield _Input(row_checksums, has_base, (base, second * 3, first)).packed()


def _sealed(data: bytes) -> bytes:
    asked = _Input.of(data)
    base, first, second = (seal_rows(payload) for payload in asked.payloads)
    return _Input(asked.row_checksums, asked.has_base, (base, first, second)).packed()


def _change(data: bytes, random: Random) -> bytes:
    """Changes bytes, or whole records, which leaves more for the engines to agree about."""
    if random.random() < 0.5:
        return mutated(data, random)
    asked = _Input.of(data)
    base, first, second = (_rearranged(payload, random) for payload in asked.payloads)
    return _Input(asked.row_checksums, asked.has_base, (base, first, second)).packed()


def _rearranged(payload: bytes, random: Random) -> bytes:
    try:
        rows = list(records.decode([payload]))
    except CodecError:
        return payload
    for _ in range(random.randint(0, 3)):
        key, value = rows.pop(random.randrange(len(rows))) if rows else (b"new", b"row")
        at = random.randint(0, len(rows))
        rows[at:at] = random.choice(_variants(key, value))
    return b"".join(records.encode(rows))


def _variants(key: bytes, value: bytes | None) -> tuple[list[Record], ...]:
    again: Record = (key, value)
    return [], [again] * 3, [(key, None)], [(key, b"1234" + key)], [(key[1:], value), again]


FOLDS = {"fold": Target(_check, _seeds, _sealed, _change)}
"""The one target that is no decoder by itself."""
