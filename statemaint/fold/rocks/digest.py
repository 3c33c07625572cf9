"""Digests and counts of all rows of a database, as they stand in RocksDB.

A row's key begins with the number of its column family (<h) where the store has families, and
counts as Spark's zips count: those of internal families apart from all others.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from statemaint.codec.digest import StateDigest
from statemaint.codec.digest import digest as clear_digest
from statemaint.codec.rocks_zip import ZipMetadata
from statemaint.errors import CodecError
from statemaint.fold.rocks.database import Row

_FAMILY = struct.Struct("<h")
# Below so many stored bytes the plain loops end before the compiled ones would have been loaded.
_FAST_FROM = 512 * 1024


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
    batches: Iterable[list[Row]], key: bytes, families: ZipMetadata, *, stored: int
) -> Found:
    """Digests and counts rows.

    Args:
        batches: the rows, each key once.
        key: what digests are keyed by, 16 bytes.
        families: whose column families count; the rest of it is not looked at.
        stored: about how many bytes the rows take in files.

    Raises:
        CodecError: when a row belongs to no column family.
    """
    counts: Counter[bytes] = Counter()
    counted = _counted(batches, counts) if families.families else batches
    digest = _fast(counted, key) if stored >= _FAST_FROM else _clear(counted, key)
    internal = _internal(counts, families)
    return Found(digest, digest.rows - internal, internal)


def _counted(batches: Iterable[list[Row]], counts: Counter[bytes]) -> Iterator[list[Row]]:
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
    from statemaint.fold.rows import Sums  # noqa: PLC0415 -- small states never pay for it

    sums = Sums(key)
    for batch in batches:
        sums.add(batch)
    return sums.digest()
