"""A piece of a file's payload, in one buffer that slides over it."""

import numpy as np
import numpy.typing as npt

from statemaint.codec.compression.base import Block, Buffer

Bytes = npt.NDArray[np.uint8]

Placed = tuple[int, int, Buffer | None]
"""A block in a window: begin, end, and its stored form if it may pass."""

# The kernels load words: they may read this far beyond their input.
SLACK = 64


class PayloadWindow:
    """Holds payload from the byte that the last `shift` left first; grows only as bytes arrive.

    Attributes:
        buffer: the bytes, with some slack after `end`.
        end: the end of the bytes.
        blocks: begin, end and stored form of the blocks whose start is in the buffer.
    """

    def __init__(self) -> None:
        self.buffer: Bytes = np.empty(SLACK, np.uint8)
        self._view = self.buffer.data
        self.end = 0
        self.blocks: list[Placed] = []

    def clear(self) -> None:
        """Drops all content, and keeps the buffer for the next file."""
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
