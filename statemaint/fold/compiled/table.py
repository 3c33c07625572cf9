"""The table of decided keys, which grows as it fills."""

from secrets import token_bytes

import numpy as np

from statemaint.errors import UnsupportedError
from statemaint.fold.compiled.kernels import table as kernels
from statemaint.fold.compiled.kernels.records import BATCH
from statemaint.fold.compiled.window import Bytes

_SMALLEST = 4096
_LOAD = 0.7
_LEAST_GROWTH, _MARGIN = 1.25, 1.05
# Within the first delta nothing shows whether the others have the same keys.
_MOST_GROWTH_AT_FIRST, _MOST_GROWTH = 4.0, 16.0


class Table:
    """An open hash table of keys.

    Attributes:
        entries: the flat buffer that the kernels work on.
        capacity: the number of entries that it has room for.
        secret: the secret key of the hashes, known only to this table.
    """

    def __init__(self) -> None:
        self.capacity = _SMALLEST
        self.entries: Bytes = _empty(self.capacity)
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
    entries = np.empty(capacity * kernels.ENTRY, np.uint8)
    entries.fill(0)
    return entries
