"""An order-free digest of a state: equal rows give equal digests, in any order.

Each row is hashed to 128 bits by SipHash-2-4 over its record as a snapshot stores it:

    keyLength(>i) key valueLength(>i) value

and the digest is the sum of the hashes modulo 2^128. Rows are unique by key, so the sum identifies
the set. The hash is keyed: an attacker who can choose the rows of a query, but cannot read its
checkpoint, cannot make two different states whose sums agree.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

MODULUS = 1 << 128
_LENGTH = struct.Struct(">I")
_PERSON = b"statemaint row 2"
_WORD = 0xFFFFFFFFFFFFFFFF
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_ROUNDS, _FINAL_ROUNDS = 2, 4

_Lanes = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class StateDigest:
    """A state in three numbers: its keys, their bytes with their values, 32 hexadecimal digits."""

    rows: int
    bytes: int
    digest: str

    @classmethod
    def of_words(cls, words: Iterable[int]) -> "StateDigest":
        """Returns the digest of the compiled loops' sums: low and high word, rows, bytes."""
        low, high, rows, size = map(int, words)
        return cls.of_sum(rows, size, low | high << 64)

    @classmethod
    def of_sum(cls, rows: int, size: int, total: int) -> "StateDigest":
        return cls(rows, size, f"{total % MODULUS:032x}")

    def __add__(self, other: "StateDigest") -> "StateDigest":
        """The digest of the rows of two states that share no key."""
        total = int(self.digest, 16) + int(other.digest, 16)
        return self.of_sum(self.rows + other.rows, self.bytes + other.bytes, total)

    def __str__(self) -> str:
        return f"{self.rows} rows ({self.bytes} bytes, digest {self.digest})"


def digest_key(query_id: str) -> bytes:
    """Returns the key of a query's hashes; copies of a checkpoint share it and can be compared."""
    return blake2b(query_id.encode(), digest_size=16, person=_PERSON).digest()


def digest(rows: Iterable[tuple[bytes, bytes]], key: bytes) -> StateDigest:
    """Returns the digest of rows in any order, each key once."""
    total = count = size = 0
    for name, value in rows:
        record = _LENGTH.pack(len(name)) + name + _LENGTH.pack(len(value)) + value
        total += siphash128(key, record)
        count += 1
        size += len(name) + len(value)
    return StateDigest.of_sum(count, size, total)


# -- SipHash-2-4 with 128 bits of output, like its authors' reference code: simple and slow


def siphash128(key: bytes, message: bytes) -> int:
    """Returns the hash as one number, its first eight bytes being the low ones."""
    # The key is two little-endian words, the message words of eight; its last ends with the length.
    key0, key1 = struct.unpack("<2Q", key)
    v0, v1, v2, v3 = (
        word ^ part for word, part in zip(_START, (key0, key1, key0, key1), strict=True)
    )
    v1 ^= 0xEE
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v0, v1, v2, v3 = _rounds((v0, v1, v2, v3 ^ word), _ROUNDS)
        v0 ^= word
    v0, v1, v2, v3 = _rounds((v0, v1, v2 ^ 0xEE, v3), _FINAL_ROUNDS)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _rounds((v0, v1 ^ 0xDD, v2, v3), _FINAL_ROUNDS)
    return low | (v0 ^ v1 ^ v2 ^ v3) << 64


def _rounds(lanes: _Lanes, count: int) -> _Lanes:
    v0, v1, v2, v3 = lanes
    for _ in range(count):
        v0 = (v0 + v1) & _WORD
        v2 = (v2 + v3) & _WORD
        v1 = (v1 << 13 & _WORD | v1 >> 51) ^ v0
        v3 = (v3 << 16 & _WORD | v3 >> 48) ^ v2
        v0 = v0 << 32 & _WORD | v0 >> 32
        v2 = (v2 + v1) & _WORD
        v0 = (v0 + v3) & _WORD
        v1 = (v1 << 17 & _WORD | v1 >> 47) ^ v2
        v3 = (v3 << 21 & _WORD | v3 >> 43) ^ v0
        v2 = v2 << 32 & _WORD | v2 >> 32
    return v0, v1, v2, v3
