"""Digests and counts of all rows of a database, as they stand in RocksDB.

A row's key begins with the number of its column family (<h) where the store has families, and
counts as Spark's zips count: those of internal families apart from all others.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.integrity.digest import digest as clear_digest
from statemaint.codec.rocksdb.snapshot_zip import ZipMetadata
from statemaint.errors import CodecError
from statemaint.fold.rocksdb.database import Row

_FAMILY = struct.Struct("<h")


@dataclass(frozen=True, slots=True)
class Limits:
    """Where one way of working gives way to another.

    Attributes:
        compiled: from so many stored bytes on the compiled loops are loaded; below it the plain
            ones have ended by then.
        held: so many bytes of changes wait at most before they go to the database, but for one
            change that is larger.
    """

    compiled: int = 512 * 1024
    held: int = 64 * 1024 * 1024


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class KnownRows:
    """What all rows are, where it was seen without reading them back.

    Attributes:
        digest: of all of them.
        families: how many keys begin with each two bytes.
    """

    digest: StateDigest
    families: Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class Found:
    """What all rows of a database are.

    Attributes:
        digest: of all of them.
        keys: how many lie outside internal families.
        internal: how many lie in them.
    """

    digest: StateDigest
    keys: int
    internal: int


def digest_all(
    batches: Iterable[list[Row]], key: bytes, families: ZipMetadata, *, compiled: bool
) -> Found:
    """Digests and counts rows.

    Args:
        batches: the rows, each key once.
        key: what digests are keyed by, 16 bytes.
        families: whose column families count; the rest of it is not looked at.
        compiled: whether there are so many that the compiled loop is worth loading.

    Raises:
        CodecError: when a row belongs to no column family.
    """
    counts: Counter[bytes] = Counter()
    seen = _counting(batches, counts) if families.families else batches
    digest = _fast(seen, key) if compiled else _clear(seen, key)
    return count_all(KnownRows(digest, counts), families)


def count_all(known: KnownRows, families: ZipMetadata) -> Found:
    """Counts rows that were seen.

    Raises:
        CodecError: when a row belongs to no column family.
    """
    internal = _internal(known.families, families) if families.families else 0
    return Found(known.digest, known.digest.rows - internal, internal)


def _counting(batches: Iterable[list[Row]], counts: Counter[bytes]) -> Iterator[list[Row]]:
    for batch in batches:
        counts.update([row[0][: _FAMILY.size] for row in batch])
        yield batch


def _internal(counts: Mapping[bytes, int], families: ZipMetadata) -> int:
    """Returns how many keys lie in internal families."""
    names = {number: name for name, number in families.families.items()}
    total = 0
    for prefix, count in counts.items():
        number = _FAMILY.unpack(prefix)[0] if len(prefix) == _FAMILY.size else None
        if number not in names:
            raise CodecError(f"{count} keys of the unknown column family {number}", offset=0)
        total += count if families.internal.get(names[number], False) else 0
    return total


def _clear(batches: Iterable[list[Row]], key: bytes) -> StateDigest:
    return clear_digest(chain.from_iterable(batches), key)


def _fast(batches: Iterable[list[Row]], key: bytes) -> StateDigest:
    from statemaint.fold.compiled.rows import Sums  # noqa: PLC0415 -- small states never pay for it

    sums = Sums(key)
    for batch in batches:
        sums.add(batch)
    return sums.digest()
