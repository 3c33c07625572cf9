"""One snapshot file while it is written: kept records in, compressed blocks out."""

from collections.abc import Callable

import numpy as np

from statemaint.codec.compression.base import Buffer, Compression, Encoder
from statemaint.codec.compression.lz4 import HEADER_SIZE, Lz4Block
from statemaint.fold.compiled.kernels import lz4
from statemaint.fold.compiled.kernels import records as kernels
from statemaint.fold.compiled.kernels.records import Runs
from statemaint.fold.compiled.window import SLACK, Bytes, PayloadWindow, Placed

_END = (-1).to_bytes(4, "big", signed=True)
_PIECE = 1 << 20

Picked = tuple[Runs, int]
"""The places of the picked records in a window: runs of begin and end, in order; their number."""


class Output:
    """Collects payload up to a block, and passes whole blocks on as stored."""

    def __init__(self, compression: Compression) -> None:
        self._encoder = compression.encoder()
        self._compressor = compressor_for(compression, self._encoder)
        self._block = compression.block_size
        self._buffer: Bytes = np.empty(self._block + _PIECE + SLACK, np.uint8)
        self._at = 0
        self._ready: list[Buffer] = [self._encoder.begin()]

    def take(self, window: PayloadWindow, picked: Picked, begin: int, end: int) -> None:
        """Takes the picked records in a range of the window; whole blocks of it pass as stored."""
        for block in self._whole(window, picked, begin, end):
            self._copy(window, picked, begin, block[0])
            self._cut(self._at)
            self._ready.append(block[2] or b"")
            begin = block[1]
        self._copy(window, picked, begin, end)

    def _copy(self, window: PayloadWindow, picked: Picked, begin: int, end: int) -> None:
        runs, count = picked
        run = 0
        for start in range(begin, end, _PIECE):
            stop = min(start + _PIECE, end)
            self._at, run = kernels.gather(
                window.buffer, runs, count, run, start, stop, self._buffer, self._at
            )
            self._cut(self._at - self._at % self._block)

    def _whole(self, window: PayloadWindow, picked: Picked, begin: int, end: int) -> list[Placed]:
        """Returns the blocks of a range that are picked whole and may pass as stored.

        Each block that passes ends the one before it early. Short blocks are merged again;
        otherwise the blocks of a state that is snapshotted often would become ever shorter.
        """
        blocks = [
            block
            for block in window.blocks
            if begin <= block[0] and block[1] <= end
            if block[2] is not None and 2 * (block[1] - block[0]) >= self._block
        ]
        begins = np.array([block[0] for block in blocks], np.int64)
        ends = np.array([block[1] for block in blocks], np.int64)
        covered = np.zeros(len(blocks), np.bool_)
        kernels.covered(*picked, begins, ends, covered)
        return [block for block, whole in zip(blocks, covered, strict=True) if whole]

    def _cut(self, upto: int) -> None:
        """Compresses everything below a position and moves the rest to the front."""
        if not upto:
            return
        self._ready.append(self._compressor(self._buffer, upto))
        rest = self._at - upto
        self._buffer[:rest] = self._buffer[upto : self._at].copy()
        self._at = rest

    def end(self) -> None:
        """Writes the end of the records and of the stream."""
        self._buffer[self._at : self._at + len(_END)] = np.frombuffer(_END, np.uint8)
        self._at += len(_END)
        self._cut(self._at)
        self._ready.append(self._encoder.end())

    def drain(self) -> bytes:
        ready = b"".join(self._ready)
        self._ready.clear()
        return ready


Compressor = Callable[[Bytes, int], Buffer]
"""Returns the blocks of the payload below a position; only the last may be short.

The buffer continues for at least `SLACK` bytes after that position.
"""


def compressor_for(compression: Compression, encoder: Encoder) -> Compressor:
    """Returns the fastest maker of one stream's blocks."""
    size = compression.block_size
    if isinstance(compression, Lz4Block) and size <= lz4.MOST:
        level, table = compression.level, np.empty(lz4.TABLE, np.uint8)

        def stretches(payload: Bytes, upto: int) -> Buffer:
            stored = np.empty(upto + -(-upto // size) * HEADER_SIZE + SLACK, np.uint8)
            return stored.data[: lz4.pack(payload, upto, size, level, stored, table)]

        return stretches

    def blocks(payload: Bytes, upto: int) -> Buffer:
        pieces = (payload[start : min(start + size, upto)] for start in range(0, upto, size))
        return b"".join(encoder.block(piece.data) for piece in pieces)

    return blocks
