"""The buffers of the loops that grow: a window over a file's payload, and the table of its keys."""

from secrets import token_bytes

import numpy as np
import numpy.typing as npt

from statemaint.codec.compression.base import Block, Buffer
from statemaint.errors import UnsupportedError
from statemaint.fold.compiled.kernels import table as kernels
from statemaint.fold.compiled.kernels.records import BATCH

Bytes = npt.NDArray[np.uint8]

Placed = tuple[int, int, Buffer | None]
"""A block in a window: begin, end, and its stored form if it may pass."""

# The kernels load words: they may read this far beyond their input.
SLACK = 64

_SMALLEST = 4096
_LOAD = 0.7
_LEAST_GROWTH, _MARGIN = 1.25, 1.05
# Within the first delta nothing shows whether the others have the same keys.
_MOST_GROWTH_AT_FIRST, _MOST_GROWTH = 4.0, 16.0


class PayloadWindow:
    """Holds payload from the byte that the last `shift` left first; grows only as bytes arrive.

    `buffer` has the bytes up to `end` and some slack, `blocks` the blocks that begin in it.
    """

    def __init__(self) -> None:
        self.buffer: Bytes = np.empty(SLACK, np.uint8)
        self._view = self.buffer.data
        self.end = 0
        self.blocks: list[Placed] = []

    def clear(self) -> None:
        self.end = 0
        self.blocks = []

    @property
    def room(self) -> int:
        """Returns the position up to which the buffer may be filled."""
        return len(self.buffer) - SLACK

    def append(self, block: Block, wish: int) -> None:
        """Adds a block, on the way to `wish` bytes in all."""
        begin, end = self.end, self.end + len(block.payload)
        if end > self.room:
            self.reserve(len(block.payload), wish)
        self._view[begin:end] = block.payload
        self.blocks.append((begin, end, block.stored))
        self.end = end

    def take(self, places: list[list[int]], stored: memoryview) -> None:
        """Adds blocks already in the buffer: begin and end here, then begin and end in `stored`."""
        for begin, end, start, stop in places:
            self.blocks.append((begin, end, stored[start:stop]))
            self.end = end

    def reserve(self, more: int, wish: int) -> None:
        """Makes room for `more` bytes, and for up to `wish` in all without more than doubling."""
        size = min(wish, 2 * (self.end + more)) + more + SLACK
        buffer = np.empty(size, np.uint8)
        buffer[: self.end] = self.buffer[: self.end]
        self.buffer, self._view = buffer, buffer.data

    def shift(self, settled: int) -> None:
        """Drops the bytes below a position; all positions move down by that much."""
        rest = self.end - settled
        self.buffer[:rest] = self.buffer[settled : self.end].copy()
        self.end = rest
        self.blocks = [
            (begin - settled, end - settled, stored)
            for begin, end, stored in self.blocks
            if begin >= settled
        ]


class Table:
    """An open hash table of keys: `entries` is the flat buffer of `capacity` places.

    The secret key of the hashes is known only to this table.
    """

    def __init__(self) -> None:
        self.capacity = _SMALLEST
        self.entries = _empty(self.capacity)
        self.secret = np.frombuffer(token_bytes(16), np.uint64)

    @property
    def limit(self) -> int:
        return int(self.capacity * _LOAD)

    def grow(self, keys: int, share: float, *, first: bool) -> None:
        """Makes room for more than `keys`, which a `share` of all bytes has; `first`: one delta."""
        expected = keys / max(share, 0.001) * _MARGIN / _LOAD
        most = _MOST_GROWTH_AT_FIRST if first else _MOST_GROWTH
        growth = min(max(expected / self.capacity, _LEAST_GROWTH), most)
        capacity = int(self.capacity * growth) + BATCH
        entries = _empty(capacity)
        kernels.move_all(self.entries, self.capacity, entries, capacity)
        self.entries, self.capacity = entries, capacity


def _empty(capacity: int) -> Bytes:
    if capacity >= 1 << 32:
        raise UnsupportedError("a chain", "more than 4 billion changed keys", "fewer")
    # Not np.zeros: a large filled array gets huge pages, which random access needs.
    entries: Bytes = np.empty(capacity * kernels.ENTRY, np.uint8)
    entries.fill(0)
    return entries
