"""One RocksDB database in a local directory.

It is opened without automatic compactions, so that nothing happens behind our back while it is
filled; `settle` lets RocksDB do at the end what it would do in Spark.
"""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import cast

from rocksdict import (
    Checkpoint,
    IngestExternalFileOptions,
    Options,
    Rdict,
    RdictIter,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from statemaint.errors import CodecError, StorageError
from statemaint.fold.rocksdb import options

Row = tuple[bytes, bytes]
Change = tuple[bytes, bytes | None]
"""A key and its new value; `None` deletes it."""

_BATCH, _PIECE, _SAMPLE = 4096, 1024 * 1024, 16
_PAUSE = 0.002
_BUSY = ("rocksdb.compaction-pending", "rocksdb.num-running-compactions")
_FOLDER = re.compile(r"\S*/(?=[0-9A-Za-z-]+(?:\.\w+)?)")
# What RocksDB says of bytes that cannot be; and of a file that a zip should have had.
_DAMAGE = (
    "Corruption",
    "Not implemented",
    "Invalid argument",
    "NotFound",
    "IO error: No such file or directory",
)


class Database:
    """An open database. One thread at a time; nothing is in files before `flush`.

    Attributes:
        empty: whether it is new and nothing was put there yet.
    """

    def __init__(self, path: str, place: Path, delimiter: bytes | None, *, create: bool) -> None:
        """Opens a database.

        Args:
            path: the file that errors name.
            place: a directory with `db` in it, or with nothing where `create` is set.
            delimiter: what stands between merged operands.
            create: whether the database may be new.
        """
        self._path, self._place = path, place
        self.empty = create
        self._write = WriteOptions()
        # The stubs of `rocksdict` call it a method, and it is none.
        self._write.disable_wal = True  # type: ignore[method-assign, assignment]
        with _translated(path):
            self._options, family = options.load(place / "options", delimiter, create=create)
            self._db = Rdict(str(place / "db"), self._options, {"default": family})
        self._family: Options = family

    def close(self) -> None:
        """Closes the database; what was not flushed is lost."""
        self._db.close()

    def get(self, key: bytes) -> bytes | None:
        """Returns a key's value, merged where need be."""
        with _translated(self._path):
            found: bytes | None = self._db.get(key)
            return found

    def write(self, changes: Iterable[Change]) -> None:
        """Carries out some changes, each key once; in the order of their keys it is fastest."""
        left = iter(self._needed(changes))
        while batch := _batch(islice(left, _BATCH)):
            self._commit(batch)

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Deletes every key from the first up to, but not with, the end."""
        if not self.empty:
            batch = WriteBatch(raw_mode=True)
            batch.delete_range(first, end)
            self._commit(batch)

    def _needed(self, changes: Iterable[Change]) -> Iterable[Change]:
        """Leaves removals out where there is nothing to remove."""
        return (one for one in changes if one[1] is not None) if self.empty else changes

    def _commit(self, batch: WriteBatch) -> None:
        with _translated(self._path):
            self._db.write(batch, self._write)
        self.empty = False

    def ingest(self, rows: Iterable[Change]) -> None:
        """Fills an empty database with rows, at least one, that come in the order of their keys.

        They become one file, which is compressed once, at the bottom, and takes no memory.
        """
        file = str(self._place / "ingest.sst")
        with _translated(self._path):
            writer = SstFileWriter(self._family)
            writer.open(file)
            for key, value in rows:
                writer[key] = value
            writer.finish()
            move = IngestExternalFileOptions()
            move.set_move_files(True)
            self._db.ingest_external_file([file], move)
        self.empty = False

    def flush(self) -> None:
        """Writes what is in memory to a file."""
        with _translated(self._path):
            self._db.flush()

    def settle(self) -> None:
        """Lets RocksDB compact whatever it finds worth it, by the rules that Spark runs it with.

        Four files that cover the same keys are enough for that, so that neither files nor deleted
        rows pile up over many snapshots, each of which adds at most a few.
        """
        with _translated(self._path):
            self._db.set_options({"disable_auto_compactions": "false"})
            idle = 0
            while idle < len(_BUSY):
                idle = 0 if any(map(self._db.property_int_value, _BUSY)) else idle + 1
                self._must_work()
                time.sleep(_PAUSE)
            self._db.set_options({"disable_auto_compactions": "true"})

    def _must_work(self) -> None:
        if self._db.property_int_value("rocksdb.background-errors"):
            raise StorageError("the temporary directory", "RocksDB could not compact there")

    def checkpoint(self, target: Path) -> None:
        """Puts files that are the database into a directory that is not there yet."""
        with _translated(self._path):
            Checkpoint(self._db).create_checkpoint(str(target))

    def rows(self) -> Iterator[list[Row]]:
        """Yields all rows in the order of their keys, about a mebibyte at a time.

        Raises:
            CodecError: when a file of the database is damaged.
        """
        with _translated(self._path):
            items = cast("Iterator[Row]", self._db.items())
            last, count = None, 1
            while found := list(islice(items, count)):
                last = found[-1][0]
                yield found
                sample = found[::_SAMPLE]
                size = sum(len(key) + len(value) for key, value in sample) // len(sample)
                count = min(_PIECE // (size + 1) + 1, _BATCH)
            _must_end(self._db.iter(), last)


def _must_end(rows: RdictIter, last: bytes | None) -> None:
    """Tells an iteration that has ended from one that met damage: `rocksdict` ends both alike."""
    if last is None:
        rows.seek_to_first()
    else:
        rows.seek(last)
        rows.next()
    rows.status()
    if rows.valid():
        raise RuntimeError("NotFound: an iteration has ended early")  # pragma: no cover


def _batch(changes: Iterable[Change]) -> WriteBatch | None:
    batch = WriteBatch(raw_mode=True)
    for key, value in changes:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    return None if batch.is_empty() else batch


@contextmanager
def opened(
    path: str, place: Path, delimiter: bytes | None, *, create: bool = False
) -> Iterator[Database]:
    """Opens a database and closes it."""
    database = Database(path, place, delimiter, create=create)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """RocksDB knows two kinds of trouble: bytes that cannot be, and a disk that refuses."""
    try:
        yield
    except Exception as error:
        # `rocksdict` raises nothing but plain `Exception`, with RocksDB's own words.
        if type(error) is not Exception:
            raise
        # It names its own copies, which are gone when anybody could look.
        text = _FOLDER.sub("", str(error))
        if text.startswith(_DAMAGE):
            raise CodecError(f"RocksDB refuses it: {text}", offset=0, path=path) from error
        raise StorageError("the temporary directory", text) from error
