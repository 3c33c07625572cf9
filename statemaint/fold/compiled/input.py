"""Reading of a file's records, window by window: by block, or in stretches if that is faster."""

from collections import deque
from collections.abc import Generator, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, NoReturn, cast

import google_crc32c
import numpy as np
import numpy.typing as npt

from statemaint.codec.compression.base import Block
from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.errors import CodecError
from statemaint.fold.compiled.kernels import lz4, records
from statemaint.fold.compiled.window import SLACK, Bytes, PayloadWindow
from statemaint.fold.source import Source

# A stretch should stay in a core's cache, together with the window that it is decoded into.
_STEP = 256 * 1024
_BLOCKS = 256


class UnsureError(Exception):
    """A compiled reader found bytes that it leaves to the reference reader."""


class Input:
    """The payload of a file, block by block."""

    def __init__(self, source: Source, path: str) -> None:
        self._steps = self._read(source, path)
        self._window, self._wish = PayloadWindow(), 0

    def fill(self, window: PayloadWindow, wish: int) -> bool:
        """Appends payload until there are `wish` bytes; returns whether the file may have more.

        `_Stretches` raises `UnsureError` when `Source.records` has to read the file from the start.
        """
        self._window, self._wish = window, wish
        while window.end < wish:
            if next(self._steps, None) is None:
                return False
        return True

    def close(self) -> None:
        self._steps.close()

    def _read(self, source: Source, path: str) -> Generator[int]:
        """Yields each time the window may have enough; ends at the end of the file."""
        with closing(source.blocks(path)) as blocks:
            yield from self._append(blocks)

    def _append(self, blocks: Iterable[Block]) -> Generator[int]:
        for block in blocks:
            self._window.append(block, self._wish)
            yield self._window.end


class _Stretches(Input):
    """The input for LZ4: one loop finds, decodes and checks many blocks, without the GIL."""

    def __init__(self, source: Source, path: str) -> None:
        super().__init__(source, path)
        self._state = np.zeros(lz4.STATE, np.int64)
        self._places = np.empty((_BLOCKS, 4), np.int64)

    def _read(self, source: Source, path: str) -> Generator[int]:
        rest = np.empty(0, np.uint8)
        with source.opened(path) as stream:
            while content := stream.read(max(_STEP, len(rest))):
                end = len(rest) + len(content)
                piece = np.empty(end + SLACK, np.uint8)
                piece[: len(rest)] = rest
                piece[len(rest) : end] = np.frombuffer(content, np.uint8)
                yield from self._unpack(piece, end)
                rest = piece[self._state[lz4.FROM] : end]
                if self._state[lz4.STATUS] == lz4.ODD:
                    break
            if len(rest):
                yield from self._clearly(_Rest(rest.tobytes(), stream))

    def _unpack(self, piece: Bytes, end: int) -> Generator[int]:
        """Takes the whole blocks in a piece of the file."""
        state = self._state
        state[lz4.FROM], state[lz4.STATUS] = 0, lz4.DONE
        while state[lz4.STATUS] not in (lz4.CUT, lz4.ODD):
            window, wish = self._window, self._wish
            state[lz4.TO] = window.end
            lz4.unpack(piece, end, window.buffer, window.room, wish, state, self._places)
            window.take(self._places[: state[lz4.BLOCKS]].tolist(), piece.data)
            if state[lz4.STATUS] == lz4.NARROW:
                window.reserve(int(state[lz4.NEED]), wish)
            elif state[lz4.STATUS] == lz4.DONE:
                yield window.end

    def _clearly(self, rest: "_Rest") -> Generator[int]:
        """Leaves the rest of the file to the reference reader, which accepts a little more."""
        try:
            yield from self._append(Lz4Block().blocks(cast("BinaryIO", rest)))
        except CodecError as error:
            raise UnsureError from error  # its offset does not count from the start


class _Rest:
    """A stream of the bytes that were read but not taken, followed by the rest of the file."""

    def __init__(self, rest: bytes, stream: BinaryIO) -> None:
        self._rest, self._stream = BytesIO(rest), stream

    def read(self, size: int) -> bytes:
        return self._rest.read(size) or self._stream.read(size)


def open_input(source: Source, path: str) -> Input:
    made = _Stretches if isinstance(source.compression, Lz4Block) else Input
    return made(source, path)


# -- records

Work = npt.NDArray[np.int64]


def new_work() -> Work:
    return np.zeros(records.WORK, np.int64)


@dataclass(slots=True)
class Scanner:
    """One pass over a file: `start`, then a kernel on the window as long as it `goes_on`."""

    source: Source
    path: str
    snapshot: bool  # whether every record must have a value
    window: PayloadWindow
    work: Work
    step: int  # the least number of bytes that the window reads when it moves on
    whole: bool = False  # whether the window has reached the end of the file
    moved: int = 0  # the distance of the window's last move
    crc32c: int = 0  # of the payload of a file that did not fit into the window whole
    _summed: bool = False
    _behind: int = 0
    _input: Input | None = None

    def start(self, wish: int) -> None:
        self.window.clear()
        self._input = open_input(self.source, self.path)
        self.whole, self.crc32c = False, 0
        self._fill(wish)
        self._behind = 0
        self.work[records.AT] = 0
        self.work[records.SNAPSHOT] = self.snapshot
        self.work[records.CHECKED] = self.source.row_checksums

    def _fill(self, wish: int) -> None:
        begin = self.window.end
        self.whole = not self._more(wish)
        self._summed |= not (self.whole or self.snapshot)
        if self._summed:
            piece = self.window.buffer[begin : self.window.end]
            self.crc32c = google_crc32c.extend(self.crc32c, piece.tobytes())

    def _more(self, wish: int) -> bool:
        try:
            return self._input is not None and self._input.fill(self.window, wish)
        except UnsureError:
            self._raise_damage()

    @property
    def taken(self) -> int:
        return self._behind + int(self.work[records.AT])

    def goes_on(self, keep: int | None = None) -> bool:
        """Acts on the kernel's status; returns whether the kernel has to be called again.

        When the window moves, the byte at `keep` becomes its first, by default the first that the
        kernel has not taken.
        """
        status = self.work[records.STATUS]
        self.moved = 0
        if status == records.END:
            if self.work[records.AT] != self.window.end or self._more(self.window.end + 1):
                self._raise_damage()
            return False
        if status not in (records.MORE, records.PAUSED) or (status == records.MORE and self.whole):
            self._raise_damage()
        if status == records.MORE:
            self.moved = int(self.work[records.AT]) if keep is None else keep
            self.window.shift(self.moved)
            self.work[records.AT] -= self.moved
            self._behind += self.moved
            # A record larger than the window makes it grow, at most to twice its content.
            self._fill(self.window.end + max(self.step, self.window.end))
        return True

    def _raise_damage(self) -> NoReturn:
        """Raises the reference reader's error for the file, with its offset and message."""
        reader = self.source.rows if self.snapshot else self.source.records
        deque(reader(self.path), maxlen=0)
        raise CodecError("the two readers disagree about it", offset=0, path=self.path)

    def close(self) -> None:
        if self._input:
            self._input.close()


MOST_SMALL = 16 * 1024
"""The stored bytes below which a file is small."""
_MOST_PAYLOAD = 512 * 1024


class SmallReader:
    """Checks small deltas in LZ4: each is read at once, into buffers that all of them share."""

    def __init__(self) -> None:
        self._stored = np.empty(MOST_SMALL + SLACK, np.uint8)
        self._payload = np.empty(_MOST_PAYLOAD + SLACK, np.uint8)
        self._state = np.zeros(lz4.STATE, np.int64)
        self._places = np.empty((_BLOCKS, 4), np.int64)
        self._work, self._sums = new_work(), np.zeros((2, 4), np.uint64)
        self._key = np.frombuffer(bytes(16), "<u8")

    def is_whole(self, source: Source, path: str) -> bool:
        """Returns whether a delta is whole; of one that seems not, a `Scanner` finds the error."""
        with suppress(UnsureError), source.opened(path) as stream:
            content = stream.read(MOST_SMALL)
            if len(content) == MOST_SMALL or stream.read(1) or not self._fits(source, content):
                raise UnsureError
            return True
        return False

    def _fits(self, source: Source, content: bytes) -> bool:
        end, state, work = len(content), self._state, self._work
        self._stored.data[:end] = content
        state[lz4.FROM] = state[lz4.TO] = 0
        room = _MOST_PAYLOAD
        lz4.unpack(self._stored, end, self._payload, room, room + 1, state, self._places)
        place, taken, _, status, _ = state.tolist()
        if status != lz4.CUT or place != end:
            return False
        work[records.AT] = work[records.SNAPSHOT] = 0
        work[records.CHECKED] = source.row_checksums
        records.pick_all(self._payload, taken, work, self._sums, self._key)
        return bool(work[records.STATUS] == records.END and work[records.AT] == taken)
