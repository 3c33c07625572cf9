"""Rows, and the events of keys, in bounded memory and in key order.

Changes collect in a dictionary. Whenever it is full, it is written to a temporary file as one
*run*: the records of a delta (`codec.hdfs.records`) in the order of their keys. Reading merges the
runs and the dictionary; of each key the newest record counts, or in `SortedEvents` all of them. A
small state never leaves the dictionary.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from operator import itemgetter
from tempfile import TemporaryFile

from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.fold.temporary import temporary_directory

# The most bytes of changes in a dictionary, except for a single larger change.
HELD = 24 * 1024 * 1024
# The memory that a key and its value take in addition to their bytes.
_PER_KEY = 150
_PIECE = 64 * 1024
# Each run is an open file; more of them are merged into one.
_MOST_RUNS = 32


class _Sorted:
    """What is held in memory, `held` bytes of it at most, and the runs of the rest."""

    def __init__(self, held: int | None = None) -> None:
        self._held = HELD if held is None else held
        self._size = 0
        self._runs: tuple[_Run, ...] = ()

    def _spill(self, merged: Callable[[tuple["_Run", ...]], Iterable[Record]]) -> None:
        """Writes a run of what is held; of too many runs it becomes the only one."""
        full = len(self._runs) >= _MOST_RUNS
        run = _Run(merged(self._runs if full else ()))
        self._runs = (run,) if full else (*self._runs, run)
        self._size = 0


class SortedTable(_Sorted):
    """The rows that result from changes."""

    def __init__(self, held: int | None = None) -> None:
        super().__init__(held)
        self._newest: dict[bytes, bytes | None] = {}

    def apply(self, changes: Iterable[Record]) -> None:
        """Applies changes in their order; a value of `None` removes its key."""
        for key, value in changes:
            self.put(key, value)

    def put(self, key: bytes, value: bytes | None) -> None:
        self._newest[key] = value
        self._size += len(key) + len(value or b"") + _PER_KEY
        if self._size > self._held:
            self._make_room()

    def fork(self) -> "SortedTable":
        """Returns a table with the same rows, unaffected by further changes of this one."""
        other = SortedTable(self._held)
        other._newest, other._size, other._runs = dict(self._newest), self._size, self._runs
        return other

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields the rows in the order of their keys' bytes; no changes may follow."""
        for key, value in _newest((*self._runs, self._newest)):
            if value is not None:
                yield key, value

    def _make_room(self) -> None:
        """Writes the dictionary to a run, unless most changes were to keys that it already had."""
        self._size = sum(_size(key, value) for key, value in self._newest.items())
        if self._size <= self._held // 2:
            return
        self._spill(lambda runs: _newest((*runs, self._newest)))
        self._newest = {}


class SortedEvents(_Sorted):
    """The events of keys: all events of each key, in order."""

    def __init__(self, held: int | None = None) -> None:
        super().__init__(held)
        self._events: dict[bytes, bytes | bytearray] = {}

    def add(self, key: bytes, event: bytes) -> None:
        events = self._events.get(key)
        if events is None:
            self._events[key] = event  # most keys have one, which all of them may share
            self._size += len(key) + _PER_KEY
        elif isinstance(events, bytearray):
            events += event
        else:
            self._events[key] = bytearray(events + event)
        self._size += len(event)
        if self._size > self._held:
            self._make_room()

    def by_key(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields each key with its concatenated events, in the order of the keys' bytes.

        A key with many events is yielded several times in succession.
        """
        return _all(self._runs, self._events)

    def _make_room(self) -> None:
        self._spill(lambda runs: _all(runs, self._events))
        self._events = {}


def _size(key: bytes, value: bytes | None) -> int:
    return len(key) + len(value or b"") + _PER_KEY


class _Run:
    """Records in the order of their keys, in a file that no directory names.

    Forks share it, so it is closed with the last table that has it.
    """

    def __init__(self, content: Iterable[Record]) -> None:
        with temporary_directory():
            self._file = TemporaryFile()  # noqa: SIM115
            self._file.writelines(records.encode(content))
            self._file.flush()
            self._size = self._file.tell()

    def __del__(self) -> None:
        if file := getattr(self, "_file", None):
            file.close()

    def records(self) -> Iterator[Record]:
        return records.decode(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        """Yields the content; forks read one file side by side, so nothing moves its position."""
        for at in range(0, self._size, _PIECE):
            with temporary_directory():
                piece = os.pread(self._file.fileno(), _PIECE, at)
            yield piece


def _all(
    runs: Iterable[_Run], newest: Mapping[bytes, bytes | bytearray]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the records of each key, oldest first, in the order of the keys."""
    held = ((key, bytes(newest[key])) for key in sorted(newest))
    streams = [records.snapshot_rows(run.records()) for run in runs]
    # Equal keys come in the order of the runs.
    yield from merge(*streams, held, key=itemgetter(0)) if streams else held


def _newest(tables: Iterable[_Run | dict[bytes, bytes | None]]) -> Iterator[Record]:
    """Yields the newest record of each key, in the order of the keys; older tables come first."""
    streams = [_numbered(table, -number) for number, table in enumerate(tables)]
    last: bytes | None = None
    for key, _, value in merge(*streams):
        if key != last:
            last = key
            yield key, value


def _numbered(
    table: _Run | dict[bytes, bytes | None], number: int
) -> Iterator[tuple[bytes, int, bytes | None]]:
    if isinstance(table, _Run):
        return ((key, number, value) for key, value in table.records())
    return ((key, number, table[key]) for key in sorted(table))
