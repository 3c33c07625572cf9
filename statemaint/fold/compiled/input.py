"""Reading of a file's payload into a window: by block, or in stretches if that is faster."""

from collections.abc import Generator
from io import BytesIO
from typing import BinaryIO, Protocol, cast

import numpy as np

from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.errors import CodecError
from statemaint.fold.compiled.kernels import lz4 as kernels
from statemaint.fold.compiled.kernels.lz4 import (
    BLOCKS,
    CUT,
    DONE,
    FROM,
    NARROW,
    NEED,
    ODD,
    STATUS,
    TO,
    unpack,
)
from statemaint.fold.compiled.window import SLACK, Bytes, PayloadWindow
from statemaint.fold.source import Source

# A stretch should stay in a core's cache, together with the window that it is decoded into.
_STEP = 256 * 1024
_BLOCKS = 256


class UnsureError(Exception):
    """A compiled reader found bytes that it leaves to the reference reader."""


class Input(Protocol):
    """The payload of one file, from its start to its end."""

    def fill(self, window: PayloadWindow, wish: int) -> bool:
        """Appends payload until there are `wish` bytes; returns whether the file may have more.

        Raises:
            UnsureError: when the file has to be read by `Source.records` from the start.
            CodecError, StaleChecksumError, StorageError: as `Source.blocks` does.
        """
        ...

    def close(self) -> None:
        """Closes the file."""
        ...


def open_input(source: Source, path: str) -> Input:
    """Returns the fastest input for a file."""
    made = _Stretches if isinstance(source.compression, Lz4Block) else _Blocks
    return made(source, path)


class _Blocks:
    """The input for any compression."""

    def __init__(self, source: Source, path: str) -> None:
        self._blocks = source.blocks(path)

    def fill(self, window: PayloadWindow, wish: int) -> bool:
        while window.end < wish:
            block = next(self._blocks, None)
            if block is None:
                return False
            window.append(block, wish)
        return True

    def close(self) -> None:
        self._blocks.close()


class _Stretches:
    """The input for LZ4: one loop finds, decodes and checks many blocks, without the GIL."""

    def __init__(self, source: Source, path: str) -> None:
        self._steps = self._read(source, path)
        self._window, self._wish = PayloadWindow(), 0
        self._state = np.zeros(kernels.STATE, np.int64)
        self._places = np.empty((_BLOCKS, 4), np.int64)

    def fill(self, window: PayloadWindow, wish: int) -> bool:
        self._window, self._wish = window, wish
        while window.end < wish:
            if next(self._steps, None) is None:
                return False
        return True

    def close(self) -> None:
        self._steps.close()

    def _read(self, source: Source, path: str) -> Generator[int]:
        """Yields each time the window may have enough; ends at the end of the file."""
        rest = np.empty(0, np.uint8)
        with source.opened(path) as stream:
            while content := stream.read(max(_STEP, len(rest))):
                piece, end = _joined(rest, content)
                yield from self._unpack(piece, end)
                rest = piece[self._state[FROM] : end]
                if self._state[STATUS] == ODD:
                    break
            if len(rest):
                yield from self._clearly(_Rest(rest.tobytes(), stream))

    def _unpack(self, piece: Bytes, end: int) -> Generator[int]:
        """Takes the whole blocks in a piece of the file."""
        state = self._state
        state[FROM], state[STATUS] = 0, DONE
        while state[STATUS] not in (CUT, ODD):
            window, wish = self._window, self._wish
            state[TO] = window.end
            unpack(piece, end, window.buffer, window.room, wish, state, self._places)
            window.take(self._places[: state[BLOCKS]].tolist(), piece.data)
            if state[STATUS] == NARROW:
                window.reserve(int(state[NEED]), wish)
            elif state[STATUS] == DONE:
                yield window.end

    def _clearly(self, rest: "_Rest") -> Generator[int]:
        """Leaves the rest of the file to the reference reader, which accepts a little more."""
        try:
            for block in Lz4Block().blocks(cast("BinaryIO", rest)):
                self._window.append(block, self._wish)
                yield self._window.end
        except CodecError as error:
            raise UnsureError from error  # its offset does not count from the start


class _Rest:
    """A stream of the bytes that were read but not taken, followed by the rest of the file."""

    def __init__(self, rest: bytes, stream: BinaryIO) -> None:
        self._rest, self._stream = BytesIO(rest), stream

    def read(self, size: int) -> bytes:
        return self._rest.read(size) or self._stream.read(size)


def _joined(rest: Bytes, content: bytes) -> tuple[Bytes, int]:
    """Returns the rest and the next part of a file in one buffer, and their end."""
    end = len(rest) + len(content)
    piece = np.empty(end + SLACK, np.uint8)
    piece[: len(rest)] = rest
    piece[len(rest) : end] = np.frombuffer(content, np.uint8)
    return piece, end
