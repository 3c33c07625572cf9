"""Rows of several partitions, put apart in bounded memory.

Rows collect in a list for each partition. When all lists together are full, each is sorted and
added to one temporary file as a *run*: the records of a snapshot (`codec.hdfs.records`) in the
order of their keys. A partition's runs are merged when it is read.
"""

import os
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

from statemaint.codec.hdfs import records
from statemaint.codec.integrity.digest import StateDigest
from statemaint.fold.compiled.rows import Sums
from statemaint.fold.temporary import temporary_directory

HELD = 64 * 1024 * 1024
"""The most bytes of rows in memory, except for a single larger row."""
# Rows are in memory before they are written, and sorted once more.
_TIMES = 3
# The memory that a row takes in addition to its bytes.
_PER_ROW = 150
_PIECE, _BATCH = 64 * 1024, 512

_LENGTHS = 8  # of a row in the file
Row = tuple[bytes, bytes]


def taken_by(rows: int, size: int) -> tuple[int, int]:
    """Returns the most that rows take in memory while they are written, and in the file."""
    held = size + rows * _PER_ROW
    return _TIMES * min(held, HELD), size + rows * _LENGTHS if held > HELD else 0


class Spill:
    """The rows of some partitions; a temporary file has what memory has no room for.

    Attributes:
        spilled: the bytes in the file.
    """

    def __init__(self, partitions: int, key: bytes, held: int | None = None) -> None:
        """Prepares a number of partitions; `key` is the key of their digests."""
        self._held = HELD if held is None else held
        self._size, self.spilled = 0, 0
        self._rows: list[list[Row]] = [[] for _ in range(partitions)]
        self._runs: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
        self._sums = [Sums(key) for _ in range(partitions)]
        with temporary_directory():
            self._file = TemporaryFile()  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, partition: int, row: Row) -> None:
        self._rows[partition].append(row)
        self._size += len(row[0]) + len(row[1]) + _PER_ROW
        if self._size > self._held:
            self._flush()

    def end(self) -> list[StateDigest]:
        """Ends the adding of rows, and returns the digest of each partition."""
        self._sort()
        return [sums.digest() for sums in self._sums]

    def rows(self, partition: int) -> Iterator[Row]:
        """Yields a partition's rows in the order of their keys, once all are added."""
        runs = (records.snapshot_rows(self._records(*run)) for run in self._runs[partition])
        return merge(*runs, self._rows[partition], key=itemgetter(0))

    def _sort(self) -> None:
        for rows, sums in zip(self._rows, self._sums, strict=True):
            rows.sort()
            for start in range(0, len(rows), _BATCH):
                sums.add(rows[start : start + _BATCH])

    def _flush(self) -> None:
        self._sort()
        for rows, runs in zip(self._rows, self._runs, strict=True):
            if rows:
                before = self.spilled
                with temporary_directory():
                    for piece in records.encode(rows):
                        self.spilled += self._file.write(piece)
                runs.append((before, self.spilled))
                rows.clear()
        with temporary_directory():
            self._file.flush()
        self._size = 0

    def _records(self, begin: int, end: int) -> Iterator[records.Record]:
        return records.decode(self._pieces(begin, end))

    def _pieces(self, begin: int, end: int) -> Iterator[bytes]:
        for at in range(begin, end, _PIECE):
            with temporary_directory():
                piece = os.pread(self._file.fileno(), min(_PIECE, end - at), at)
            yield piece
