"""Keys and values as Spark writes them: rows of one binary column, keys in their hash's partition.

The hash is Spark's `Murmur3_x86_32.hashUnsafeBytes`, written anew: nothing here is of `statemaint`.
"""

import struct
from collections.abc import Iterator
from functools import cache
from itertools import count, islice

_SEED, _BITS = 42, 0xFFFFFFFF
_HEAD = struct.Struct("<qII")
"""The nulls of a row of one column, then the column's size and its offset from the row's start."""
_VERSION = b"\0"
"""In front of a row in RocksDB."""


@cache
def keys_of(partition: int, partitions: int, number: int, *, rocks: bool) -> tuple[bytes, ...]:
    """Returns so many keys of one of some partitions, as its store has them."""
    return tuple(islice(_keys(partition, partitions, rocks=rocks), number))


def _keys(partition: int, partitions: int, *, rocks: bool) -> Iterator[bytes]:
    for number in count():
        name = b"key-%d" % number
        if hashed(name) % partitions == partition:
            yield row_of(name, rocks=rocks)


def row_of(content: bytes, *, rocks: bool) -> bytes:
    row = _HEAD.pack(0, len(content), _HEAD.size) + content + bytes(-len(content) % 8)
    return _VERSION + row if rocks else row


def for_provider(row: bytes, *, rocks: bool) -> bytes:
    """Returns a row of one of the providers as that one, or the other, has it."""
    return (_VERSION if rocks else b"") + row[len(row) % 8 :]


def partition_of(key: bytes, partitions: int) -> int:
    """Returns the partition of a key, as one of `keys_of`'s, among so many."""
    row = key[len(key) % 8 :]
    _, size, offset = _HEAD.unpack_from(row)
    return hashed(row[offset : offset + size]) % partitions


def hashed(content: bytes) -> int:
    """Returns the hash of a binary column, signed: of whole words, then of each byte left."""
    found, words = _SEED, len(content) // 4
    for (word,) in struct.iter_unpack("<I", content[: 4 * words]):
        found = _mixed(found, word)
    for byte in content[4 * words :]:
        found = _mixed(found, (byte - 256 if byte > 127 else byte) & _BITS)
    found ^= len(content)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ found >> shift) * factor & _BITS
    return found - (1 << 32) if found >> 31 else found


def _mixed(found: int, word: int) -> int:
    word = _rotated(word * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS
    return (_rotated(found ^ word, 13) * 5 + 0xE6546B64) & _BITS


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _BITS
