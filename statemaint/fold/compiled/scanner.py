"""The records of a file, window by window, for the kernel that takes them."""

from collections import deque
from dataclasses import dataclass
from typing import NoReturn

import google_crc32c
import numpy as np
import numpy.typing as npt

from statemaint.errors import CodecError
from statemaint.fold.compiled.input import Input, UnsureError, open_input
from statemaint.fold.compiled.kernels.records import (
    AT,
    CHECKED,
    END,
    MORE,
    PAUSED,
    SNAPSHOT,
    STATUS,
    WORK,
)
from statemaint.fold.compiled.window import PayloadWindow
from statemaint.fold.source import Source

Work = npt.NDArray[np.int64]


def new_work() -> Work:
    """Returns the numbers that kernels read and write, all zero."""
    return np.zeros(WORK, np.int64)


@dataclass(slots=True)
class Scanner:
    """One pass over a file: `start`, then a kernel on the window as long as it `goes_on`.

    Attributes:
        source: the files of the store that the file belongs to.
        path: the path of the file.
        snapshot: whether every record must have a value.
        window: the window over the payload; the kernel takes `buffer` up to `end`.
        work: the kernel's row of numbers.
        step: the least number of bytes that the window reads when it moves on.
        whole: whether the window has reached the end of the file.
        moved: the distance of the window's last move.
        crc32c: the CRC-32C of the payload of a file that did not fit into the window whole.
    """

    source: Source
    path: str
    snapshot: bool
    window: PayloadWindow
    work: Work
    step: int
    whole: bool = False
    moved: int = 0
    crc32c: int = 0
    _summed: bool = False
    _behind: int = 0
    _input: Input | None = None

    def start(self, wish: int) -> None:
        """Fills the window from the start of the file, up to `wish` bytes."""
        self.window.clear()
        self._input = open_input(self.source, self.path)
        self.whole, self.crc32c = False, 0
        self._fill(wish)
        self._behind = 0
        self.work[AT] = 0
        self.work[SNAPSHOT] = self.snapshot
        self.work[CHECKED] = self.source.row_checksums

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
        """Returns the number of payload bytes that the kernel has taken."""
        return self._behind + int(self.work[AT])

    def goes_on(self, keep: int | None = None) -> bool:
        """Acts on the kernel's status; returns whether the kernel has to be called again.

        Args:
            keep: the first byte of the window that is still needed; by default the first that the
                kernel has not taken. When the window moves, that byte becomes its first.
        """
        status = self.work[STATUS]
        self.moved = 0
        if status == END:
            self._must_end()
            return False
        if status not in (MORE, PAUSED) or (status == MORE and self.whole):
            self._raise_damage()
        if status == MORE:
            self._slide(int(self.work[AT]) if keep is None else keep)
        return True

    def _slide(self, keep: int) -> None:
        self.window.shift(keep)
        self.work[AT] -= keep
        self.moved = keep
        self._behind += keep
        # A record larger than the window makes it grow, at most to twice its content.
        wish = self.window.end + max(self.step, self.window.end)
        self._fill(wish)

    def _must_end(self) -> None:
        if self.work[AT] != self.window.end or self._more(self.window.end + 1):
            self._raise_damage()

    def _raise_damage(self) -> NoReturn:
        """Raises the reference reader's error for the file, with its offset and message."""
        records = self.source.rows if self.snapshot else self.source.records
        deque(records(self.path), maxlen=0)
        raise CodecError("the two readers disagree about it", offset=0, path=self.path)

    def close(self) -> None:
        """Closes the file."""
        if self._input:
            self._input.close()
