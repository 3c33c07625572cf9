"""Digests and counts of all rows of a database, as stored in RocksDB.

A row's key begins with the number of its column family (<h) where the store has families. Keys are
counted as in Spark's zips: those of internal families separately from all others.
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
    """The thresholds between ways of working.

    Attributes:
        compiled: the stored bytes from which the compiled loops are loaded; below that, the plain
            loops end sooner.
        held: the most bytes of changes that are held before they are written to the database,
            except for a single larger change.
    """

    compiled: int = 512 * 1024
    held: int = 64 * 1024 * 1024


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The digest and counts of all rows, if they are known without reading the rows back.

    `families` is the number of keys by their first two bytes.
    """

    digest: StateDigest
    families: Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class Found:
    """The digest of all rows of a database, and its keys outside and in internal families."""

    digest: StateDigest
    keys: int
    internal: int


def digest_all(
    batches: Iterable[list[Row]], key: bytes, families: ZipMetadata, *, compiled: bool
) -> Found:
    """Digests and counts rows, each key once; only the families of the metadata are used."""
    counts: Counter[bytes] = Counter()
    seen = _counting(batches, counts) if families.families else batches
    digest = _fast(seen, key) if compiled else _clear(seen, key)
    return count_all(KnownRows(digest, counts), families)


def count_all(known: KnownRows, families: ZipMetadata) -> Found:
    internal = _internal(known.families, families) if families.families else 0
    return Found(known.digest, known.digest.rows - internal, internal)


def _counting(batches: Iterable[list[Row]], counts: Counter[bytes]) -> Iterator[list[Row]]:
    for batch in batches:
        counts.update([row[0][: _FAMILY.size] for row in batch])
        yield batch


def _internal(counts: Mapping[bytes, int], families: ZipMetadata) -> int:
    """Returns the number of keys in internal families."""
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
