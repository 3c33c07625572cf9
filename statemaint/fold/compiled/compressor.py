"""How payload becomes blocks: one by one, or in stretches where that is faster."""

from typing import Protocol

import numpy as np

from statemaint.codec.compression.base import Buffer, Compression, Encoder
from statemaint.codec.compression.lz4 import HEADER_SIZE, Lz4Block
from statemaint.fold.compiled.kernels import lz4 as kernels
from statemaint.fold.compiled.window import SLACK, Bytes


class Compressor(Protocol):
    """Makes blocks of one stream."""

    def blocks(self, payload: Bytes, upto: int) -> Buffer:
        """Returns the blocks of what lies below a position; only the last may be a short one.

        Behind that position the buffer goes on for `SLACK` bytes at least.
        """
        ...


def compressor_for(compression: Compression, encoder: Encoder) -> Compressor:
    """Returns the fastest way to make a stream's blocks."""
    if isinstance(compression, Lz4Block) and compression.block_size <= kernels.MOST:
        return _Stretches(compression)
    return _Blocks(encoder, compression.block_size)


class _Blocks:
    """What any compression can do."""

    def __init__(self, encoder: Encoder, size: int) -> None:
        self._encoder, self._size = encoder, size

    def blocks(self, payload: Bytes, upto: int) -> Buffer:
        pieces = (
            payload[start : min(start + self._size, upto)] for start in range(0, upto, self._size)
        )
        return b"".join(self._encoder.block(piece.data) for piece in pieces)


class _Stretches:
    """LZ4: one loop compresses and sums up many blocks, while other threads run."""

    def __init__(self, compression: Lz4Block) -> None:
        self._size, self._level = compression.block_size, compression.level
        self._table = np.empty(kernels.TABLE, np.uint8)

    def blocks(self, payload: Bytes, upto: int) -> Buffer:
        count = -(-upto // self._size)
        stored = np.empty(upto + count * HEADER_SIZE + SLACK, np.uint8)
        end = kernels.pack(payload, upto, self._size, self._level, stored, self._table)
        return stored.data[:end]
