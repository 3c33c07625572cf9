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

from statemaint.codec.integrity.siphash import siphash128

MODULUS = 1 << 128
_LENGTH = struct.Struct(">I")
_PERSON = b"statemaint row 2"


@dataclass(frozen=True, slots=True)
class StateDigest:
    """A state in three numbers.

    Attributes:
        rows: the number of keys.
        bytes: key and value bytes together.
        digest: 32 hexadecimal digits.
    """

    rows: int
    bytes: int
    digest: str

    @classmethod
    def of_sum(cls, rows: int, size: int, total: int) -> "StateDigest":
        """Returns the digest of `rows` rows of `size` bytes whose hashes sum to `total`."""
        return cls(rows, size, f"{total % MODULUS:032x}")

    def __str__(self) -> str:
        return f"{self.rows} rows ({self.bytes} bytes, digest {self.digest})"


def digest_key(query_id: str) -> bytes:
    """Returns the 16-byte key that a query's states are hashed with.

    Copies of a checkpoint have the same query id, so their digests can be compared.
    """
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
