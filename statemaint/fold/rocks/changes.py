"""What a chain's changelogs do to the rows below them, carried out on a database.

    put, delete   the newest one of a key counts
    merge         the value that is there by then, the delimiter, the operand; the operand alone
                  where nothing is there: RocksDB's StringAppendOperator
    delete range  every key from the first up to, but not with, the second

Mirrors `RocksDB.replayChangelog`. `rocksdict` cannot write merges, so they are put as the values
that they lead to, which is what RocksDB makes of them when it compacts.
"""

from collections.abc import Iterable, Iterator

from statemaint.codec import changelog
from statemaint.codec.changelog import DELETE, MERGE, PUT
from statemaint.errors import CodecError
from statemaint.fold.rocks.database import Database
from statemaint.fold.source import Source
from statemaint.model.files import Delta

_Change = tuple[int, bytes, bytes | None]

# So many bytes of keys and values wait at most.
_MOST = 64 * 1024 * 1024
_PER_KEY = 150
_PLAIN = (PUT, DELETE)


class Pending:
    """The newest value of each changed key, on its way to a database."""

    def __init__(self, database: Database, delimiter: bytes | None) -> None:
        self._database, self._delimiter = database, delimiter
        self._values: dict[bytes, bytes | bytearray | None] = {}
        self._size = 0

    def take(self, changes: Iterable[_Change]) -> None:
        """Takes changes in their order.

        Raises:
            CodecError: when there is a merge, and nobody knows what stands between operands.
        """
        values = self._values
        for kind, key, value in changes:
            if kind in _PLAIN:
                values[key] = value
            elif kind == MERGE and value is not None:
                self._merge(key, value)
            elif value is not None:
                self._drop(key, value)
            self._size += len(key) + len(value or b"") + _PER_KEY
            if self._size > _MOST:
                self.flush()

    def flush(self) -> None:
        """Hands everything to the database."""
        self._database.write(self._rows())
        self._values.clear()
        self._size = 0

    def _rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        for key, value in self._values.items():
            yield key, value if value is None else bytes(value)

    def _merge(self, key: bytes, operand: bytes) -> None:
        if self._delimiter is None:
            raise CodecError("it merges, but its database has no merge operator", offset=0)
        there = self._values[key] if key in self._values else self._database.get(key)
        if there is None:
            self._values[key] = bytearray(operand)
            return
        grown = there if isinstance(there, bytearray) else bytearray(there)
        grown += self._delimiter
        grown += operand
        self._values[key] = grown

    def _drop(self, first: bytes, end: bytes) -> None:
        """Deletes a range, which must not touch what comes after it."""
        self._database.write(self._rows(), (first, end))
        self._values.clear()
        self._size = 0


def apply(source: Source, deltas: Iterable[Delta], pending: Pending) -> None:
    """Takes the changes of some changelogs, oldest first, and hands all to the database.

    Raises:
        CodecError: naming the file, when one does not follow the format.
        StaleChecksumError: when a checksum file is not of the file beside it.
        StorageError: when one cannot be read.
    """
    for delta in deltas:
        try:
            pending.take(decoded(source, delta))
        except CodecError as error:
            raise error if error.path else error.at(delta.entry.path) from error
    pending.flush()


def decoded(source: Source, delta: Delta) -> Iterator[_Change]:
    """Returns the changes of a changelog.

    Raises:
        CodecError: when it does not follow the format; its records raise it too.
    """
    payload = (bytes(block.payload) for block in source.blocks(delta.entry.path))
    _, changes = changelog.decode(payload)
    return changes
