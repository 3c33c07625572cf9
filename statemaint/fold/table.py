"""Rows, and the events of keys, in bounded memory and in key order.

Changes collect in memory. Whenever they are too many, they are written to a temporary file as one
*run*: records in the order of their keys. Reading merges the runs and what is in memory; of each
key the newest record counts, or in `SortedEvents` all of them. A small state never leaves memory.
"""

import os
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from tempfile import TemporaryFile
from typing import Self, cast

from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity.digest import StateDigest
from statemaint.fold.temporary import temporary_directory

Row = tuple[bytes, bytes]

# The most bytes of changes in a dictionary, except for a single larger change.
HELD = 24 * 1024 * 1024
# The most bytes of rows in a `Spill`, except for a single larger row.
SPILL_HELD = 64 * 1024 * 1024
# The memory that a key and its value take in addition to their bytes.
_PER_KEY = 150
# The rows of a `Spill` are in memory before they are written, and sorted once more.
_TIMES = 3
_PIECE, _BATCH = 256 * 1024, 512
_LENGTHS = 16  # of a row in a file
# Each run is an open file; more of them are merged into one.
_MOST_RUNS = 32


class _RunFile:
    """Runs, one after the other, in a file that no directory names."""

    def __init__(self) -> None:
        with temporary_directory():
            self._file = TemporaryFile()  # noqa: SIM115
        self.size = 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def close(self) -> None:
        self._file.close()

    def add(self, content: Iterable[Record]) -> "_Run":
        begin, count = self.size, 0
        with temporary_directory():
            for some in _batches(iter(content)):
                count += len(some)
                self.size += self._file.write(_block(some))
            self._file.flush()
        return _Run(self, begin, self.size, count)

    def read(self, at: int, size: int) -> bytes:
        """Returns a part; several readers share the file, so nothing moves its position."""
        with temporary_directory():
            return os.pread(self._file.fileno(), size, at)


@dataclass(frozen=True, slots=True)
class _Run:
    """Records in the order of their keys; the file is closed with the last run of it."""

    file: _RunFile
    begin: int
    end: int
    count: int

    @property
    def held(self) -> int:
        """Returns the memory that its records take."""
        return self.end - self.begin + self.count * _PER_KEY

    def records(self) -> Iterator[Record]:
        at = self.begin
        while at < self.end:
            count, size = _HEAD.unpack(self.file.read(at, _HEAD.size))
            at += _HEAD.size
            yield from _decoded(self.file.read(at, size), count)
            at += size

    def rows(self) -> Iterator[Row]:
        """Yields the records of a run that removes no key."""
        return cast("Iterator[Row]", self.records())


# A block has the lengths of its keys and values, then these; a removed key's value has -1.
_HEAD = struct.Struct("<qq")  # the number of records, and the bytes that follow


def _batches(content: Iterator[Record]) -> Iterator[list[Record]]:
    """Yields records, about 256 KiB at a time, or a single larger one."""
    count = 1
    while some := [*islice(content, count)]:
        yield some
        size = sum(map(len, filter(None, chain.from_iterable(some)))) // len(some)
        count = min(_BATCH, _PIECE // (size + 1) + 1)


def _block(some: list[Record]) -> bytes:
    parts = [*chain.from_iterable(some)]
    sizes = array("q", [-1 if part is None else len(part) for part in parts])
    body = sizes.tobytes() + b"".join(filter(None, parts))
    return _HEAD.pack(len(some), len(body)) + body


def _decoded(block: bytes, count: int) -> Iterator[Record]:
    sizes = array("q")
    at = 2 * count * sizes.itemsize
    sizes.frombytes(block[:at])
    for key, value in zip(sizes[::2], sizes[1::2], strict=True):
        middle = at + key
        end = middle + max(value, 0)
        yield block[at:middle], block[middle:end] if value >= 0 else None
        at = end


class _Sorted:
    """What is held in memory, `held` bytes of it at most, and the runs of the rest."""

    def __init__(self, held: int | None = None) -> None:
        self._held = HELD if held is None else held
        self._size = 0
        self._runs: tuple[_Run, ...] = ()

    def _spill(self, merged: Callable[[tuple[_Run, ...]], Iterable[Record]]) -> None:
        """Writes a run of what is held; of too many runs it becomes the only one."""
        full = len(self._runs) >= _MOST_RUNS
        run = _RunFile().add(merged(self._runs if full else ()))
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

    def rows(self) -> Iterator[Row]:
        """Yields the rows in the order of their keys' bytes; no changes may follow."""
        for key, value in _newest((*self._runs, self._newest)):
            if value is not None:
                yield key, value

    def _make_room(self) -> None:
        """Writes the dictionary to a run, unless most changes were to keys that it already had."""
        changes = self._newest.items()
        self._size = sum(len(key) + len(value or b"") + _PER_KEY for key, value in changes)
        if self._size > self._held // 2:
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
            self._spill(lambda runs: _all(runs, _in_order(self._events)))
            self._events = {}

    def by_key(self) -> Iterator[Row]:
        """Yields each key with its concatenated events, in the order of the keys' bytes.

        A key with many events is yielded several times in succession.
        """
        return _all(self._runs, _in_order(self._events))


class Spill:
    """The rows of some partitions; one temporary file has what memory has no room for."""

    def __init__(self, partitions: int, key: bytes, held: int | None = None) -> None:
        """Prepares a number of partitions; `key` is the key of their digests."""
        from statemaint.fold.compiled.rows import Sums  # noqa: PLC0415 -- numba is large

        self._held = SPILL_HELD if held is None else held
        self._size = 0
        self._rows: list[list[Row]] = [[] for _ in range(partitions)]
        self._runs: list[list[_Run]] = [[] for _ in range(partitions)]
        self._sums = [Sums(key) for _ in range(partitions)]
        self._file = _RunFile()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def spilled(self) -> int:
        """Returns the bytes in the file."""
        return self._file.size

    def add(self, partitions: Iterable[int], rows: Sequence[Row]) -> None:
        """Adds some rows, each to a partition."""
        for partition, row in zip(partitions, rows, strict=True):
            self._rows[partition].append(row)
        self._size += sum(map(len, chain.from_iterable(rows))) + len(rows) * _PER_KEY
        if self._size > self._held:
            self._sort()
            for held, runs in zip(self._rows, self._runs, strict=True):
                if held:
                    runs.append(self._file.add(held))
                    held.clear()
            self._size = 0

    def end(self) -> list[StateDigest]:
        """Ends the adding of rows, and returns the digest of each partition."""
        self._sort()
        return [sums.digest() for sums in self._sums]

    def rows(self, partition: int) -> Iterator[Row]:
        """Yields a partition's rows in the order of their keys, once all are added."""
        runs, held = self._runs[partition], self._rows[partition]
        if sum(run.held for run in runs) > self._held:
            return _all(runs, held)
        rows = [*chain.from_iterable(run.rows() for run in runs), *held]
        rows.sort(key=itemgetter(0))
        return iter(rows)

    def _sort(self) -> None:
        for rows, sums in zip(self._rows, self._sums, strict=True):
            rows.sort()
            sums.add_all(rows)


def taken_by(rows: int, size: int) -> tuple[int, int]:
    """Returns the most that rows of a `Spill` take in memory while written, and on disk."""
    held = size + rows * _PER_KEY
    return _TIMES * min(held, SPILL_HELD), size + rows * _LENGTHS if held > SPILL_HELD else 0


def _all(runs: Iterable[_Run], held: Iterable[Row]) -> Iterator[Row]:
    """Merges runs and what is held, in the order of keys; of equal keys the oldest comes first."""
    streams = [run.rows() for run in runs]
    return merge(*streams, held, key=itemgetter(0)) if streams else iter(held)


def _in_order(events: Mapping[bytes, bytes | bytearray]) -> Iterator[Row]:
    return ((key, bytes(events[key])) for key in sorted(events))


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
