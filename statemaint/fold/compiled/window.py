"""A piece of a file's payload, in one buffer that slides over it."""

import numpy as np
import numpy.typing as npt

from statemaint.codec.compression.base import Block, Buffer

Bytes = npt.NDArray[np.uint8]

Placed = tuple[int, int, Buffer | None]
"""A block in a window: begin, end, and its stored form where it may pass."""

# The kernels load words: they may look this far beyond what they were given.
SLACK = 64


class PayloadWindow:
    """Holds payload from `settled` on; grows only as far as bytes really arrive.

    Attributes:
        buffer: the bytes, with some slack behind `end`.
        end: where they end.
        blocks: begin, end and stored form of the blocks that lie in the buffer from their start.
    """

    def __init__(self) -> None:
        self.buffer: Bytes = np.empty(SLACK, np.uint8)
        self._view = self.buffer.data
        self.end = 0
        self.blocks: list[Placed] = []

    def clear(self) -> None:
        """Forgets everything, and keeps the buffer for the next file."""
        self.end = 0
        self.blocks = []

    @property
    def room(self) -> int:
        """Returns up to where the buffer may be filled."""
        return len(self.buffer) - SLACK

    def append(self, block: Block, wish: int) -> None:
        """Adds a block, on the way to so many bytes in all."""
        begin, end = self.end, self.end + len(block.payload)
        if end > self.room:
            self.reserve(len(block.payload), wish)
        self._view[begin:end] = block.payload
        self.blocks.append((begin, end, block.stored))
        self.end = end

    def take(self, places: list[list[int]], stored: memoryview) -> None:
        """Adds blocks that are in the buffer: begin and end here, then in what is stored."""
        for begin, end, start, stop in places:
            self.blocks.append((begin, end, stored[start:stop]))
            self.end = end

    def reserve(self, more: int, wish: int) -> None:
        """Makes room for so many bytes, and for as many as it will hold if they are wished for."""
        size = min(wish, 2 * (self.end + more)) + more + SLACK
        buffer = np.empty(size, np.uint8)
        buffer[: self.end] = self.buffer[: self.end]
        self.buffer, self._view = buffer, buffer.data

    def shift(self, settled: int) -> None:
        """Drops what lies below a position; positions move down by as much."""
        left = self.end - settled
        self.buffer[:left] = self.buffer[settled : self.end].copy()
        self.end = left
        self.blocks = [
            (begin - settled, end - settled, stored)
            for begin, end, stored in self.blocks
            if begin >= settled
        ]
