"""Digests of rows in Python objects, by the compiled loop."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from threading import local

import numpy as np
import numpy.typing as npt

from statemaint.codec.integrity.digest import StateDigest
from statemaint.fold.compiled.kernels import records as kernels
from statemaint.fold.compiled.kernels.records import AT, SNAPSHOT, WORK
from statemaint.fold.compiled.window import SLACK, Bytes

Row = tuple[bytes, bytes]
_LENGTH, _BATCH = 4, 512  # rows at a time: one may have 60,000 bytes


# What each thread keeps: the memory of a new window is cleared before it is used.
_SCRATCH, _EMPTY = local(), np.empty(0, np.uint8)


def _window(size: int) -> Bytes:
    window: Bytes = getattr(_SCRATCH, "window", _EMPTY)
    if len(window) < size:
        window = _SCRATCH.window = np.empty(size + size // 4, np.uint8)
    return window


class Sums:
    """The sum of the hashes of rows that are added in large batches."""

    def __init__(self, key: bytes) -> None:
        self._key = np.frombuffer(key, "<u8")
        self._work = np.zeros(WORK, np.int64)
        self._work[SNAPSHOT] = 1
        self._sums: npt.NDArray[np.uint64] = np.zeros((2, 4), np.uint64)

    def add(self, rows: Sequence[Row]) -> None:
        """Adds rows, each key once."""
        parts = [*chain.from_iterable(rows)]
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        # Joined to a bytearray: the loops are compiled for writable buffers.
        joined = np.frombuffer(bytearray().join((*parts, bytes(SLACK))), np.uint8)
        end = len(joined) - SLACK + _LENGTH * len(parts)
        window = _window(end + SLACK)
        kernels.lay_out(joined, sizes, window)
        self._work[AT] = 0
        kernels.pick_all(window, end, self._work, self._sums, self._key)

    def add_all(self, rows: Iterable[Row]) -> None:
        """Adds all rows, each key once."""
        rows = iter(rows)
        while some := [*islice(rows, _BATCH)]:
            self.add(some)

    def digest(self) -> StateDigest:
        return StateDigest.of_words(self._sums[0])
