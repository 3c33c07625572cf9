"""Compression of payload into blocks: one by one, or in stretches if that is faster."""

from typing import Protocol

import numpy as np

from statemaint.codec.compression.base import Buffer, Compression, Encoder
from statemaint.codec.compression.lz4 import HEADER_SIZE, Lz4Block
from statemaint.fold.compiled.kernels import lz4 as kernels
from statemaint.fold.compiled.window import SLACK, Bytes


class Compressor(Protocol):
    """The maker of one stream's blocks."""

    def blocks(self, payload: Bytes, upto: int) -> Buffer:
        """Returns the blocks of the payload below a position; only the last may be short.

        The buffer continues for at least `SLACK` bytes after that position.
        """
        ...


def compressor_for(compression: Compression, encoder: Encoder) -> Compressor:
    """Returns the fastest compressor for a stream."""
    if isinstance(compression, Lz4Block) and compression.block_size <= kernels.MOST:
        return _Stretches(compression)
    return _Blocks(encoder, compression.block_size)


class _Blocks:
    """The compressor for any compression."""

    def __init__(self, encoder: Encoder, size: int) -> None:
        self._encoder, self._size = encoder, size

    def blocks(self, payload: Bytes, upto: int) -> Buffer:
        pieces = (
            payload[start : min(start + self._size, upto)] for start in range(0, upto, self._size)
        )
        return b"".join(self._encoder.block(piece.data) for piece in pieces)


class _Stretches:
    """The compressor for LZ4: one loop compresses and checksums many blocks, without the GIL."""

    def __init__(self, compression: Lz4Block) -> None:
        self._size, self._level = compression.block_size, compression.level
        self._table = np.empty(kernels.TABLE, np.uint8)

    def blocks(self, payload: Bytes, upto: int) -> Buffer:
        count = -(-upto // self._size)
        stored = np.empty(upto + count * HEADER_SIZE + SLACK, np.uint8)
        end = kernels.pack(payload, upto, self._size, self._level, stored, self._table)
        return stored.data[:end]
