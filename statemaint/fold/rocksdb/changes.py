"""The application of a chain's changelogs to the rows of a database.

    put, delete   the newest one of a key counts
    merge         the current value, the delimiter, the operand; the operand alone where there is no
                  value: RocksDB's StringAppendOperator
    delete range  every key from the first up to, but not including, the second

Mirrors `RocksDB.replayChangelog`. `rocksdict` cannot write merges, so their resulting values are
put instead; RocksDB does the same when it compacts.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, MERGE, PUT, Change, Header
from statemaint.errors import CodecError, in_file
from statemaint.fold.rocksdb.database import Database
from statemaint.fold.rocksdb.fetch import Zip
from statemaint.fold.source import Source
from statemaint.model.files import Delta

# The memory that a key and its value take in addition to their bytes.
_PER_KEY = 150
_PLAIN = (PUT, DELETE)


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds between ways of working."""

    compiled: int = 512 * 1024  # stored bytes: plain loops end sooner than compiled ones are loaded
    held: int = 64 * 1024 * 1024  # the most bytes of held changes, except for a single larger one


LIMITS = Limits()


class _Operands(bytearray):
    """Merged operands of a key whose value, if it has one, is still in the database.

    A value may be far larger than what is merged into it, so none waits in memory.
    """


class Pending:
    """The newest value of each changed key, not yet written to a database.

    `like` is a zip of the same store, which gives its families and delimiter.
    """

    def __init__(self, database: Database, like: Zip | None, limits: Limits = LIMITS) -> None:
        self.database, self.like, self.limits = database, like, limits
        self._delimiter = like.delimiter if like else None
        self.tagged = False  # whether a changelog had column families
        self._values: dict[bytes, bytes | bytearray | None] = {}
        self._size = 0

    def begin(self, header: Header) -> None:
        self.tagged |= header.column_families
        if self.like:
            families = bool(self.like.metadata.families)
            header.must_be_like(self.like.path, column_families=families)

    def take(self, changes: Iterable[Change]) -> None:
        values = self._values
        for kind, key, value in changes:
            if kind in _PLAIN:
                values[key] = value
            elif kind == MERGE and value is not None:
                self._merge(key, value)
            elif value is not None:
                self._drop(key, value)
            self._size += len(key) + len(value or b"") + _PER_KEY
            if self._size > self.limits.held:
                self.flush()

    def flush(self) -> None:
        changes = self._values.items()
        self.database.write((key, self._whole(key, value)) for key, value in changes)
        self._values.clear()
        self._size = 0

    def _whole(self, key: bytes, value: bytes | bytearray | None) -> bytes | None:
        if isinstance(value, _Operands) and (there := self.database.get(key)) is not None:
            return b"".join((there, self._delimiter or b"", value))
        return value if value is None else bytes(value)

    def _merge(self, key: bytes, operand: bytes) -> None:
        if self._delimiter is None:
            raise CodecError("it merges, and no snapshot names the operator", offset=0)
        there = self._values.get(key)
        if there is None:
            self._values[key] = (bytearray if key in self._values else _Operands)(operand)
            return
        grown = there if isinstance(there, bytearray) else bytearray(there)
        grown += self._delimiter
        grown += operand
        self._values[key] = grown

    def _drop(self, first: bytes, end: bytes) -> None:
        """Deletes a range, which must not affect later changes."""
        self.flush()
        if first < end:
            self.database.delete_range(first, end)


def apply(
    source: Source,
    deltas: Iterable[Delta],
    pending: Pending,
    skip: int = 0,
    watch: Callable[[int, Iterator[Change]], Iterator[Change]] = lambda _, changes: changes,
) -> None:
    """Takes the changes of some changelogs, oldest first, and writes all to the database.

    The first `skip` changes of the first changelog have already been taken; `watch` sees the
    changes of each version.
    """
    for delta in deltas:
        with in_file(delta.entry.path):
            header, changes = decoded(source, delta.entry.path)
            pending.begin(header)
            pending.take(watch(delta.version, islice(changes, skip, None)))
        skip = 0
    pending.flush()


def decoded(source: Source, path: str) -> tuple[Header, Iterator[Change]]:
    payload = (bytes(block.payload) for block in source.blocks(path))
    return changelog.decode(payload, row_checksums=source.row_checksums)
