"""Digests of rows in Python objects, by the compiled loop."""

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from statemaint.codec.integrity.digest import StateDigest
from statemaint.fold.compiled.kernels import records as kernels
from statemaint.fold.compiled.kernels.records import AT, CHECKED, SNAPSHOT, WORK
from statemaint.fold.compiled.window import SLACK

_pack = struct.Struct(">I").pack


class Sums:
    """The sum of the hashes of rows that are added in large batches."""

    def __init__(self, key: bytes) -> None:
        self._key = np.frombuffer(key, "<u8")
        self._work = np.zeros(WORK, np.int64)
        self._work[SNAPSHOT], self._work[CHECKED] = 1, 0
        self._sums: npt.NDArray[np.uint64] = np.zeros((2, 4), np.uint64)

    def add(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Adds rows, each key once."""
        parts = [part for key, value in rows
                 for part in (_pack(len(key)), key, _pack(len(value)), value)]  # fmt: skip
        parts.append(bytes(SLACK))
        # Joined to a bytearray: the loop is compiled for writable buffers.
        joined = np.frombuffer(bytearray().join(parts), np.uint8)
        self._work[AT] = 0
        kernels.pick_all(joined, len(joined) - SLACK, self._work, self._sums, self._key)

    def digest(self) -> StateDigest:
        """Returns the digest of all rows so far."""
        return StateDigest.of_words(self._sums[0])
