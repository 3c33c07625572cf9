"""Counts the changes by the log of a store to its keys, while it is folded.

For each column family, over the versions of the log above the start of the fold:

    puts       records that put a value, or merge one in
    removes    records that remove a key, present or not; a deleted range counts the keys it removed
    added      puts of a missing key
    removed    removes of an existing key
    rewritten  keys that a version put and an older one already had, once for each version

Memory does not grow with the keys: their events are sorted by key (`fold.table`), and each key is
then followed through the versions on its own.
"""

import struct
from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain, groupby
from operator import itemgetter

from statemaint.codec.rocksdb.changelog import DELETE, DELETE_RANGE, Change
from statemaint.errors import UnsupportedError
from statemaint.fold.table import SortedEvents

_NUMBER = 2  # bytes of a column family's number, in front of a key
# An event of a key: its version, its kind, and the number of ranges deleted before.
_EVENT = struct.Struct(">QBI")
_PUT, _REMOVE, _RANGE = 0, 1, 2
MOST_RANGES = 100_000
"""The most deleted ranges in a store's log; all of them are held in memory."""


@dataclass(slots=True)
class Churn:
    """The changes by the log to a column family, or to a store without any; see the module.

    `carried` are the rows that existed before each version, summed over the versions; `recent` the
    keys added in the newer half of the versions.
    """

    puts: int = 0
    removes: int = 0
    added: int = 0
    removed: int = 0
    rewritten: int = 0
    carried: int = 0
    recent: int = 0

    def __add__(self, other: "Churn") -> "Churn":
        names = (number.name for number in fields(self))
        return Churn(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def changes(self) -> int:
        return self.puts + self.removes

    @property
    def removes_share(self) -> float | None:
        return self.removes / self.changes if self.changes else None

    @property
    def rewritten_share(self) -> float | None:
        """Returns the share of its rows that a version puts again, on average over all rows."""
        return self.rewritten / self.carried if self.carried else None


@dataclass(slots=True)
class Log:
    """Watches a fold (`fold.state.Watcher`), and then yields the keys with their last versions.

    Attributes:
        place: the directory of the store, for errors.
        first, last: the oldest and the newest version whose log it sees.
        families: the churn of each column family, by its number as keys begin with it; complete
            once `puts` has ended.
    """

    place: str
    first: int
    last: int
    events: SortedEvents = field(default_factory=SortedEvents)
    families: dict[bytes, Churn] = field(default_factory=dict)
    _ranges: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    _width: int = 0

    def begin(self, keys: Iterable[bytes], families: Mapping[int, str]) -> None:
        self._width = _NUMBER if families else 0
        there = _EVENT.pack(self.first - 1, _PUT, 0)
        for key in keys:
            self.events.add(key, there)

    def watch(self, version: int, changes: Iterator[Change]) -> Iterator[Change]:
        add = self.events.add
        put, remove = self._events_of(version)
        for change in changes:
            kind, key, value = change
            if kind == DELETE:
                add(key, remove)
            elif kind == DELETE_RANGE:
                if len(self._ranges) == MOST_RANGES:
                    what = f"a log with more than {MOST_RANGES:,} deleted ranges"
                    raise UnsupportedError(self.place, what, "fewer in a store")
                self._ranges.append((key, value or b"", version))
                put, remove = self._events_of(version)
            else:
                add(key, put)
            yield change

    def _events_of(self, version: int) -> tuple[bytes, bytes]:
        ranges = len(self._ranges)
        return _EVENT.pack(version, _PUT, ranges), _EVENT.pack(version, _REMOVE, ranges)

    def puts(self) -> Iterator[tuple[bytes, int]]:
        """Yields each key of the newest state, in order, and the version that put it last.

        That is `first - 1` for keys from before. It can be iterated once.
        """
        ranges = _Ranges(self._ranges) if self._ranges else None
        for key, pieces in groupby(self.events.by_key(), key=itemgetter(0)):
            family = key[: self._width]
            if family not in self.families:
                self.families[family] = Churn()
            fate = _Fate(self.families[family], self.first, self.last)
            events = chain.from_iterable(_EVENT.iter_unpack(packed) for _, packed in pieces)
            for version, kind, _ in ranges.among(key, events) if ranges else events:
                fate.put(version) if kind == _PUT else fate.remove(version, ranged=kind == _RANGE)
            if (put := fate.end()) is not None:
                yield key, put


_Event = tuple[int, int, int]
"""The version of an event of a key, its kind, and the number of ranges before it."""


@dataclass(slots=True)
class _Fate:
    """One key on its way through the versions."""

    churn: Churn
    first: int
    last: int
    newest: int | None = None  # the version that put it last, if it exists
    since: int = 0  # the version that added it

    def put(self, version: int) -> None:
        churn, before = self.churn, self.newest
        self.newest = version
        if before is None:
            self.since = version
        if version < self.first:
            return
        churn.puts += 1
        if before is None:
            churn.added += 1
            churn.recent += 2 * version > self.first + self.last
        elif before < version:
            churn.rewritten += 1

    def remove(self, version: int, *, ranged: bool) -> None:
        there = self.newest is not None
        self.churn.removes += there or not ranged
        if there:
            self.churn.removed += 1
            self.churn.carried += version - self.since
            self.newest = None

    def end(self) -> int | None:
        if self.newest is not None:
            self.churn.carried += self.last - self.since
        return self.newest


class _Ranges:
    """The deleted ranges, while keys pass in order."""

    def __init__(self, ranges: list[tuple[bytes, bytes, int]]) -> None:
        self._ranges = ranges
        self._coming = sorted(range(len(ranges)), key=lambda at: ranges[at][0], reverse=True)
        self._active: list[int] = []

    def among(self, key: bytes, events: Iterable[_Event]) -> Iterator[_Event]:
        """Yields each event of a key, and each range that contains it, in order."""
        covering = deque(self._covering(key))
        for event in events:
            while covering and covering[0] < event[2]:
                yield self._range(covering.popleft())
            yield event
        yield from map(self._range, covering)

    def _range(self, at: int) -> _Event:
        return self._ranges[at][2], _RANGE, at

    def _covering(self, key: bytes) -> list[int]:
        while self._coming and self._ranges[self._coming[-1]][0] <= key:
            insort(self._active, self._coming.pop())
        self._active = [at for at in self._active if key < self._ranges[at][1]]
        return self._active
