"""An order-free digest of a state: equal rows give equal digests, in whatever order they come.

Each row is hashed to 128 bits (BLAKE2b over key length, key and value); the digest is the sum of
the hashes modulo 2^128. Rows are unique by key, so the sum stands for the set.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

_MODULUS = 1 << 128
_LENGTH = struct.Struct(">I")
_PERSON = b"statemaint row 1"


@dataclass(frozen=True, slots=True)
class StateDigest:
    """What a state is, in three numbers.

    Attributes:
        rows: how many keys.
        bytes: key and value bytes together.
        digest: 32 hexadecimal digits.
    """

    rows: int
    bytes: int
    digest: str

    def __str__(self) -> str:
        return f"{self.rows} rows ({self.bytes} bytes, digest {self.digest})"


def digest(rows: Iterable[tuple[bytes, bytes]]) -> StateDigest:
    """Returns the digest of rows that come in any order, each key once."""
    total = count = size = 0
    for key, value in rows:
        row = blake2b(_LENGTH.pack(len(key)), digest_size=16, person=_PERSON)
        row.update(key)
        row.update(value)
        total += int.from_bytes(row.digest())
        count += 1
        size += len(key) + len(value)
    return StateDigest(count, size, f"{total % _MODULUS:032x}")
