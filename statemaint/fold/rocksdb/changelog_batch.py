"""The changes of many changelogs together, in one buffer; only the newest of each key is read.

The twin of `changes.Pending` for the usual case, puts and deletes: a compiled loop finds them and
enters their keys in a table, and the newest changes are written to RocksDB in key order.
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb.changelog import read_header
from statemaint.errors import in_file
from statemaint.fold.compiled.input import Input, UnsureError, open_input
from statemaint.fold.compiled.kernels import changes as kernels
from statemaint.fold.compiled.kernels.records import BATCH
from statemaint.fold.compiled.window import PayloadWindow, Table
from statemaint.fold.rocksdb.changes import Pending, apply
from statemaint.fold.rocksdb.database import Change, KnownRows
from statemaint.fold.source import Source
from statemaint.model.files import Delta

_N = TypeVar("_N", bound=np.generic)
Numbers = npt.NDArray[np.uint32]

_LEAST = 8  # bytes of a change
_PIECE = 16384
# When at most one key in this many has to be compared again, each is compared separately.
_FEW = 100
# Beyond this many words sorting whole keys is faster than sorting by each word.
_MOST_WORDS = 16
# The payload is read in steps that stay in a core's cache.
_STEP = 1024 * 1024
# The payload for each stored byte, in most states.
_EXPANSION = 4
# No header is longer: the length of its lineage has two bytes.
_HEADER = 4 + 2 + 65535
_WITH_LINEAGE = (3, 4)


class ChangelogBatch:
    """Changes that wait to be written to a database; `enter` takes those in its window."""

    def __init__(self) -> None:
        self.window = PayloadWindow()
        self._work = np.zeros(kernels.WORK, np.int64)
        self._starts = np.empty(0, np.int64)
        self._keys, self._values = np.empty(0, np.int32), np.empty(0, np.int32)
        self._table = Table()

    @property
    def count(self) -> int:
        return int(self._work[kernels.COUNT])

    @property
    def left(self) -> int:
        """Returns the size of what is in the window and not yet taken as changes."""
        return self.window.end - int(self._work[kernels.AT])

    def more(self, payload: Input, step: int) -> bool:
        """Appends about `step` bytes of payload; returns whether the file may have more."""
        if self.window.end + step > self.window.room:
            self.window.reserve(step, 2 * self.window.end)
        return payload.fill(self.window, self.window.end + step)

    def begin(self, size: int, *, tagged: bool) -> None:
        """Begins a changelog, whose header of `size` bytes comes next in the window."""
        self._work[kernels.AT] += size
        self._work[kernels.TAGGED] = tagged

    def enter(self, share: float, *, first: bool) -> int:
        """Takes the whole changes in the window, after a `share` of all bytes with keys.

        Returns the reason for stopping; `first`: no changelog has been taken whole yet.
        """
        status = kernels.FULL
        while status == kernels.FULL:
            self._fit()
            window, changes = self.window, (self._starts, self._keys, self._values)
            entries, secret = self._table.entries, self._table.secret
            kernels.enter(window.buffer, window.end, self._work, *changes, entries, secret)
            status = int(self._work[kernels.STATUS])
            if status == kernels.FULL:
                self._table.grow(int(self._work[kernels.KEYS]), share, first=first)
        return status

    def _fit(self) -> None:
        """Makes room for every change that the window may contain."""
        self._work[kernels.CAPACITY] = self._table.capacity
        self._work[kernels.LIMIT] = self._table.limit
        need = self.count + self.left // _LEAST + BATCH
        if need > len(self._starts):
            size = max(need, 2 * self.count)
            self._starts = _grown(self._starts, size, self.count)
            self._keys = _grown(self._keys, size, self.count)
            self._values = _grown(self._values, size, self.count)

    def clear(self) -> None:
        self.window.shift(int(self._work[kernels.AT]))
        self._work[[kernels.AT, kernels.COUNT, kernels.KEYS]] = 0
        self._table = Table()

    # -- the newest changes

    def newest(self, *, removals: bool) -> Numbers:
        """Returns the numbers of the changes that count, in key order."""
        numbers = np.empty(int(self._work[kernels.KEYS]), np.uint32)
        kernels.newest(self._table.entries, self._table.capacity, numbers)
        picked = numbers if removals else numbers[self._values[numbers] >= 0]
        return picked[self._order(picked)] if len(picked) else picked

    def changes(self, picked: Numbers) -> Iterator[Change]:
        payload = self.window.buffer[: self.window.end].tobytes()
        pieces = (picked[at : at + _PIECE] for at in range(0, len(picked), _PIECE))
        return chain.from_iterable(self._pairs(payload, piece) for piece in pieces)

    def _pairs(self, payload: bytes, picked: Numbers) -> Iterator[Change]:
        """Returns a zip of keys and values, the fastest way to loop over both."""
        starts = self._starts[picked] + 4
        middles = starts + self._keys[picked]
        sizes = self._values[picked]
        of_keys = zip(starts.tolist(), middles.tolist(), strict=True)
        keys = [payload[begin:end] for begin, end in of_keys]
        of_values = zip((middles + 4).tolist(), (middles + 4 + sizes).tolist(), strict=True)
        values = [payload[begin:end] if begin <= end else None for begin, end in of_values]
        return zip(keys, values, strict=True)

    def digest(self, picked: Numbers, key: bytes) -> StateDigest:
        """Returns the digest of some rows, all of which have a value."""
        sums: npt.NDArray[np.uint64] = np.zeros(4, np.uint64)
        window, words = self.window.buffer, np.frombuffer(key, "<u8")
        kernels.digest(window, self._starts, self._keys, self._values, picked, sums, words)
        return StateDigest.of_words(sums)

    def families(self, picked: Numbers) -> dict[bytes, int]:
        """Returns the number of some keys by first two bytes; shorter keys count as empty bytes."""
        places = self._starts[picked] + 4
        low, high = (self.window.buffer[places + at].astype(np.uint16) for at in range(2))
        whole = self._keys[picked] >= 2  # noqa: PLR2004 -- bytes of a number
        numbers, counts = np.unique((low | high << 8)[whole], return_counts=True)
        prefixes = (int(number).to_bytes(2, "little") for number in numbers)
        counted = dict(zip(prefixes, counts.tolist(), strict=True))
        return counted if whole.all() else {**counted, b"": int((~whole).sum())}

    def _order(self, picked: Numbers) -> npt.NDArray[np.intp]:
        """Returns the places of the picked keys in their order."""
        begin = kernels.common(self.window.buffer, self._starts, self._keys, picked)
        first = self._word(picked, begin)
        order: npt.NDArray[np.intp] = np.argsort(first)
        tied = np.flatnonzero(first[order[1:]] == first[order[:-1]])
        if len(tied) * _FEW < len(order):
            return self._untied(picked, order, tied)
        words = -(-(int(self._keys[picked].max()) - begin) // 8)
        if words > _MOST_WORDS:
            return self._order_of_bytes(picked)
        others = [self._word(picked, begin + 8 * word) for word in range(words - 1, 0, -1)]
        sizes = self._keys[picked].astype(np.uint64)
        return np.lexsort(np.stack([sizes, *others, first]))

    def _untied(
        self, picked: Numbers, order: npt.NDArray[np.intp], tied: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.intp]:
        """Sorts by their whole bytes the runs of keys that one word did not distinguish.

        `tied` has the places whose next key has the same word.
        """
        for run in np.split(tied, np.flatnonzero(np.diff(tied) > 1) + 1) if len(tied) else ():
            places = slice(run[0], run[-1] + 2)
            order[places] = order[places][self._order_of_bytes(picked[order[places]])]
        return order

    def _word(self, picked: Numbers, offset: int) -> npt.NDArray[np.uint64]:
        words = np.empty(len(picked), np.uint64)
        kernels.words(self.window.buffer, self._starts, self._keys, picked, offset, words)
        return words

    def _order_of_bytes(self, picked: Numbers) -> npt.NDArray[np.intp]:
        payload = self.window.buffer.data
        starts = self._starts[picked] + 4
        places = zip(starts.tolist(), (starts + self._keys[picked]).tolist(), strict=True)
        keys = [bytes(payload[begin:end]) for begin, end in places]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.intp)


def _grown(numbers: npt.NDArray[_N], size: int, kept: int) -> npt.NDArray[_N]:
    grown = np.empty(size, numbers.dtype)
    grown[:kept] = numbers[:kept]
    return grown


class FastPath:
    """Applies changelogs of puts and deletes to a database by compiled loops.

    Any other change, mainly a merge or a range, ends it: the changes taken so far are written to
    the database, and the plain path continues with the next change.
    """

    def __init__(self, source: Source, pending: Pending) -> None:
        self._source, self._pending, self._batch = source, pending, ChangelogBatch()
        self._held = pending.limits.held
        self._handed = 0
        self._read, self._size = 0, 1
        self._known: KnownRows | None = None

    def apply(self, deltas: tuple[Delta, ...]) -> KnownRows | None:
        """Takes the changes of some changelogs, oldest first, and writes all to the database.

        Describes all rows, if the database was empty before and no changes had to be written in
        between.
        """
        self._size = max(1, sum(delta.entry.size for delta in deltas))
        # Memory that is never touched costs nothing; moving its content later is expensive.
        self._batch.window.reserve(min(self._held + _STEP, _EXPANSION * self._size), 0)
        for number, delta in enumerate(deltas):
            before = self._handed + self._batch.count
            if not self._take(delta):
                taken = self._handed + self._batch.count - before
                self._hand_over()
                apply(self._source, deltas[number:], self._pending, taken)
                return None
            self._read += delta.entry.size
        self._hand_over()
        return self._known

    def _take(self, delta: Delta) -> bool:
        """Returns whether all changes of a changelog are puts or deletes, which are now taken."""
        with closing(open_input(self._source, delta.entry.path)) as payload:
            try:
                self._begin(payload, delta)
                return self._enter(payload, delta)
            except UnsureError:
                return False

    def _begin(self, payload: Input, delta: Delta) -> None:
        window, begin = self._batch.window, self._batch.window.end
        self._batch.more(payload, _HEADER)
        content = window.buffer[begin : min(window.end, begin + _HEADER)].tobytes()
        with in_file(delta.entry.path):
            header = read_header([content])
            self._pending.begin(header)
        size = 0 if header.format == 1 else 4
        if header.format in _WITH_LINEAGE:
            size += 2 + int.from_bytes(content[4:6])
        self._batch.begin(size, tagged=header.column_families)

    def _enter(self, payload: Input, delta: Delta) -> bool:
        batch, step, more = self._batch, _STEP, True
        share = (self._read + delta.entry.size) / self._size
        while (status := batch.enter(share, first=not self._read)) == kernels.MORE:
            if not more:
                return False
            if batch.window.end > self._held:
                self._hand_over()
            step = max(step, batch.left)  # a large change doubles the data
            more = batch.more(payload, step)
        if status != kernels.END or batch.left:
            return False
        return not batch.more(payload, 1)

    def _hand_over(self) -> None:
        batch, database = self._batch, self._pending.database
        if self._handed and not batch.count:
            return
        picked = batch.newest(removals=not database.empty)
        self._known = None
        if database.empty:
            digest = batch.digest(picked, self._source.key)
            self._known = KnownRows(digest, batch.families(picked))
        if len(picked):
            put = database.ingest if database.empty else database.write
            put(batch.changes(picked))
        self._handed += batch.count
        batch.clear()
