"""One RocksDB database in a local directory, and the digests of its rows.

It is opened without automatic compactions, so that nothing changes in the background while it is
filled; `settle` then lets RocksDB compact as it would in Spark.

`rocksdict` has no method for a merge operator, but RocksDB makes one from the text of an options
file, of the same class that Spark uses. So every database is opened with a file that we write. Only
the options file in a store's zip has the delimiter between the operands of a merge
(`mergeOperatorVersion` 1: a comma, 2: nothing). One thread opens the files of a database: they are
local, and sixteen, RocksDB's default, take longer to start.

Mirrors the options in zips of Spark 4.0.5 and 4.3.0: LZ4, blocks of 4 KiB, a Bloom filter of 10
bits, table format 5, which every rocksdbjni since 8.3.2 (Spark 3.5) reads. Zips of Spark 3.5.9
have Snappy. One store may have SST files of both kinds: each block of one names its compression.

Importing this module raises `NotInstalledError` without `rocksdict`, an extra of this package.
"""

import re
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar, cast

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.integrity.digest import digest as clear_digest
from statemaint.codec.rocksdb.snapshot_zip import ZipMetadata
from statemaint.errors import CodecError, NotInstalledError, StorageError

try:
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
except ImportError as error:
    raise NotInstalledError("rocksdict, which reads RocksDB's files,", extra="rocksdb") from error

Row = tuple[bytes, bytes]
Change = tuple[bytes, bytes | None]
"""A key and its new value; `None` deletes it."""
_C = TypeVar("_C", bound=Change)

_BATCH, _PIECE = 4096, 1024 * 1024
_PAUSE = 0.002
_BUSY = ("rocksdb.compaction-pending", "rocksdb.num-running-compactions")
_FOLDER = re.compile(r"\S*/(?=[0-9A-Za-z-]+(?:\.\w+)?)")
# RocksDB's messages for invalid bytes, and for a file that is missing from a zip.
_DAMAGE = (
    "Corruption",
    "Not implemented",
    "Invalid argument",
    "NotFound",
    "IO error: No such file or directory",
)

_FAMILY = struct.Struct("<h")
_OPTIONS, _NUMBER = "OPTIONS-", "000001"
_OPERATOR = re.compile(r"^\s*merge_operator\s*=\s*(.*?)\s*$", re.MULTILINE)
_APPEND = re.compile(r"\{(?:id=)?StringAppendOperator;\s*delimiter=([^;{}\\#]?);?\s*\}")
_TEXT = """[Version]
  rocksdb_version=9.8.4
  options_file_version=1.1
[DBOptions]
  create_if_missing={create}
  max_open_files=512
  max_file_opening_threads=1
  max_background_jobs=2
  stats_dump_period_sec=0
  stats_persist_period_sec=0
  skip_stats_update_on_db_open=true
  keep_log_file_num=1
[CFOptions "default"]
  merge_operator={operator}
  compression=kLZ4Compression
  disable_auto_compactions=true
[TableOptions/BlockBasedTable "default"]
  format_version=5
  block_size=4096
  filter_policy=bloomfilter:10:false
"""


@dataclass(frozen=True, slots=True)
class RowTotals:
    """The digest of all rows, and the number of keys outside and in internal families."""

    digest: StateDigest
    keys: int
    internal: int


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The digest of all rows, and the number of keys by their first two bytes.

    A key begins with the number of its column family (<h) where the store has families.
    """

    digest: StateDigest
    prefixes: Mapping[bytes, int]

    def totals(self, families: ZipMetadata) -> RowTotals:
        """Counts keys as Spark's zips do: those of internal families separately."""
        names = {number: name for name, number in families.families.items()}
        internal = 0
        for prefix, count in self.prefixes.items() if names else ():
            number = _FAMILY.unpack(prefix)[0] if len(prefix) == _FAMILY.size else None
            if number not in names:
                raise CodecError(f"{count} keys of the unknown column family {number}", offset=0)
            internal += count if families.internal.get(names[number], False) else 0
        return RowTotals(self.digest, self.digest.rows - internal, internal)


class Database:
    """An open database, for one thread at a time; nothing is in files before `flush`.

    `empty`: it is new and nothing has been written to it yet.
    """

    def __init__(self, path: str, place: Path, delimiter: bytes | None, *, create: bool) -> None:
        """Opens the database in `place`/db; errors name the file at `path`."""
        self._path, self._place, self._delimiter = path, place, delimiter
        self.empty = create
        self._twin: Database | None = None
        self._write = WriteOptions()
        # The stubs of `rocksdict` wrongly declare it a method.
        self._write.disable_wal = True  # type: ignore[method-assign, assignment]
        with _translated(path):
            self._options, family = load_options(place / "options", delimiter, create=create)
            self._db = Rdict(str(place / "db"), self._options, {"default": family})
        self._family: Options = family

    def close(self) -> None:
        """Loses unflushed data."""
        self._db.close()

    def get(self, key: bytes) -> bytes | None:
        """Returns a key's value, merged if necessary."""
        with _translated(self._path):
            value: bytes | None = self._db.get(key)
            return value

    def write(self, changes: Iterable[Change]) -> None:
        """Writes some changes, each key once; key order is fastest."""
        if self.empty:
            changes = (pair for pair in changes if pair[1] is not None)
        for batch in _batches(changes):
            writes = WriteBatch(raw_mode=True)
            for key, value in batch:
                if value is None:
                    writes.delete(key)
                else:
                    writes.put(key, value)
            with _translated(self._path):
                self._db.write(writes, self._write)
            self.empty = False
            if self._twin:
                self._twin.write(batch)

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Deletes every key from `first` up to, but not including, `end`."""
        if not self.empty:
            with _translated(self._path):
                batch = WriteBatch(raw_mode=True)
                batch.delete_range(first, end)
                self._db.write(batch, self._write)
            if self._twin:
                self._twin.delete_range(first, end)

    @contextmanager
    def twin(self, place: Path) -> Iterator["Database"]:
        """Opens a database with the files of this one, to which nothing was written yet.

        While it is open, each write to this one goes to both. `place` does not exist yet, and is
        on the same file system.
        """
        place.mkdir()
        self.checkpoint(place / "db")
        with opened(self._path, place, self._delimiter) as twin:
            self._twin = twin
            try:
                yield twin
            finally:
                self._twin = None

    def ingest(self, rows: Iterator[Change]) -> None:
        """Fills an empty database with rows in key order.

        They become one file at the bottom level, which is compressed once and takes no memory.
        """
        if not (first := next(rows, None)):
            return
        file = str(self._place / "ingest.sst")
        with _translated(self._path):
            writer = SstFileWriter(self._family)
            writer.open(file)
            for key, value in chain((first,), rows):
                writer[key] = value
            writer.finish()
            move = IngestExternalFileOptions()
            move.set_move_files(True)
            self._db.ingest_external_file([file], move)
        self.empty = False

    def flush(self) -> None:
        with _translated(self._path):
            self._db.flush()

    def settle(self) -> None:
        """Lets RocksDB compact as it decides, by the rules that Spark uses.

        Four files that cover the same keys are enough for a compaction, so that neither files nor
        deleted rows pile up over many snapshots, each of which adds at most a few.
        """
        with _translated(self._path):
            self._db.set_options({"disable_auto_compactions": "false"})
            idle = 0
            while idle < len(_BUSY):
                idle = 0 if any(map(self._db.property_int_value, _BUSY)) else idle + 1
                if self._db.property_int_value("rocksdb.background-errors"):
                    raise StorageError("the temporary directory", "RocksDB could not compact there")
                time.sleep(_PAUSE)
            self._db.set_options({"disable_auto_compactions": "true"})

    def checkpoint(self, target: Path) -> None:
        with _translated(self._path):
            Checkpoint(self._db).create_checkpoint(str(target))

    def rows(self) -> Iterator[list[Row]]:
        """Yields all rows in key order, about a mebibyte at a time."""
        with _translated(self._path):
            items = cast("Iterator[Row]", self._db.items())
            last = None
            for batch in _batches(items):
                last = batch[-1][0]
                yield batch
            _must_end(self._db.iter(), last)

    def totals(self, key: bytes, families: ZipMetadata, *, compiled: bool) -> RowTotals:
        """Digests and counts all rows; only the families of the metadata are used."""
        counts: Counter[bytes] = Counter()
        rows = counted(self.rows(), counts) if families.families else self.rows()
        if not compiled:
            digest = clear_digest(chain.from_iterable(rows), key)
            return KnownRows(digest, counts).totals(families)
        from statemaint.fold.compiled.rows import Sums  # noqa: PLC0415 -- numba is large

        sums = Sums(key)
        for batch in rows:
            sums.add(batch)
        return KnownRows(sums.digest(), counts).totals(families)


def _batches(changes: Iterable[_C]) -> Iterator[list[_C]]:
    """Yields rows or changes, about a mebibyte at a time."""
    batch, size = list[_C](), 0
    for change in changes:
        key, value = change
        batch.append(change)
        size += len(key) + len(value or b"")
        if size >= _PIECE or len(batch) == _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def counted(batches: Iterator[list[Row]], counts: Counter[bytes]) -> Iterator[list[Row]]:
    """Yields rows, and counts their keys by the first two bytes."""
    for batch in batches:
        counts.update([row[0][: _FAMILY.size] for row in batch])
        yield batch


def _must_end(rows: RdictIter, last: bytes | None) -> None:
    """Raises if an iteration ended because of damage: `rocksdict` itself raises nothing then."""
    if last is None:
        rows.seek_to_first()
    else:
        rows.seek(last)
        rows.next()
    rows.status()
    if rows.valid():
        raise RuntimeError("NotFound: an iteration has ended early")  # pragma: no cover


@contextmanager
def opened(
    path: str, place: Path, delimiter: bytes | None, *, create: bool = False
) -> Iterator[Database]:
    database = Database(path, place, delimiter, create=create)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Translates RocksDB's errors: invalid bytes to `CodecError`, disk errors to `StorageError`."""
    try:
        yield
    except Exception as error:
        # `rocksdict` raises only plain `Exception`, with RocksDB's own message.
        if type(error) is not Exception:
            raise
        # The message names local copies, which are deleted before a user can inspect them.
        text = _FOLDER.sub("", str(error))
        if text.startswith(_DAMAGE):
            raise CodecError(f"RocksDB refuses it: {text}", offset=0, path=path) from error
        raise StorageError("the temporary directory", text) from error


# -- options


def delimiter_of(members: Mapping[str, bytes]) -> bytes | None:
    """Returns the bytes between merged operands in a zip's database; `None` without an operator."""
    numbers = (int(name[len(_OPTIONS) :]) for name in members if name.startswith(_OPTIONS))
    newest = max(numbers, default=0)
    content = members.get(f"{_OPTIONS}{newest:06}", b"")
    match = _OPERATOR.search(content.decode(errors="replace"))
    if match is None:
        raise CodecError("no merge operator is named in the options of the zip", offset=0)
    text = match[1]
    if text == "nullptr":
        return None
    if text == "StringAppendOperator":  # how RocksDB writes an empty delimiter
        return b""
    if delimited := _APPEND.fullmatch(text):
        return delimited[1].encode()
    raise CodecError(f"merge operator {text[:80]!r} is not one of Spark's", offset=0)


def load_options(place: Path, delimiter: bytes | None, *, create: bool) -> tuple[Options, Options]:
    """Returns the options of a database and of its only column family, by a file in `place`."""
    place.mkdir(parents=True, exist_ok=True)
    operator = "nullptr"
    if delimiter is not None:
        operator = f"{{id=StringAppendOperator;delimiter={delimiter.decode()};}}"
    text = _TEXT.format(create=str(create).lower(), operator=operator)
    (place / f"{_OPTIONS}{_NUMBER}").write_text(text)
    (place / "CURRENT").write_text(f"MANIFEST-{_NUMBER}\n")
    (place / "rocksdict-config.json").write_text('{"raw_mode":true,"prefix_extractors":{}}')
    options, families = Options.load_latest(str(place))
    return options, families["default"]
