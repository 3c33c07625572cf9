"""A piece of a file's payload, in one buffer that slides over it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from statemaint.codec.compression import Block

Bytes = npt.NDArray[np.uint8]

Placed = tuple[int, int, bytes | None]
"""A block in a window: begin, end, and its stored form where it may pass."""

# The kernels load words: they may look this far beyond what they were given.
SLACK = 64


class Window:
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

    def fill(self, blocks: Iterator[Block], wish: int) -> bool:
        """Appends blocks until there are `wish` bytes; tells whether the file may have more."""
        while self.end < wish:
            block = next(blocks, None)
            if block is None:
                return False
            self._append(block, wish)
        return True

    def _append(self, block: Block, wish: int) -> None:
        begin, end = self.end, self.end + len(block.payload)
        if end + SLACK > len(self.buffer):
            self._grow(min(wish, 2 * end) + len(block.payload) + SLACK)
        self._view[begin:end] = block.payload
        self.blocks.append((begin, end, block.stored))
        self.end = end

    def _grow(self, size: int) -> None:
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
