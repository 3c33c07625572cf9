"""The files of one store as the provider sees them, and their bytes.

Spark's provider reads names slightly differently from `model.chain`, which serves planning: a
snapshot hides the delta of its version, and a name with two parts must begin with a number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity.checksum_file import spark
from statemaint.codec.integrity.crc32c import ChecksummedChunks
from statemaint.errors import CheckpointError, CodecError, NotFoundError, StaleChecksumError
from statemaint.execute import Neighbours
from statemaint.fold import Source
from statemaint.listing import Entry
from statemaint.model.files import Delta, Snapshot, classify, disables_spark
from statemaint.provider.conf import StateStoreConf
from statemaint.storage import Storage

_ROW_CHECKSUM = 4
_WORD = 8


class CannotLoadStateStoreError(CheckpointError):
    """A version of a store cannot be loaded; the text is Spark's, so that operators can find it."""

    code = "CANNOT_LOAD_STATE_STORE"

    def __str__(self) -> str:
        return self.detail


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A delta or a snapshot. Mirrors `HDFSBackedStateStoreProvider.StoreFile`."""

    version: int
    path: str
    is_snapshot: bool


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Reads and writes the files of one store.

    Attributes:
        storage: where the checkpoint lives.
        directory: the directory of the store.
        conf: the settings of the query.
        owner: the provider's name in error texts.
        neighbours: finds the file beside each new one, whose access rights the new one gets.
    """

    storage: Storage
    directory: str
    conf: StateStoreConf
    owner: str
    neighbours: Neighbours

    def fetch(self) -> tuple[StoreFile, ...]:
        """Returns the file of each version, ascending; a snapshot hides the delta of its version.

        Raises:
            CheckpointError: when a name has two parts and no number, which also stops Spark.
        """
        by_version: dict[int, StoreFile] = {}
        for entry in self._entries():
            match classify(entry):
                case Snapshot(version=version):
                    by_version[version] = StoreFile(version, entry.path, is_snapshot=True)
                case Delta(version=version):
                    by_version.setdefault(
                        version, StoreFile(version, entry.path, is_snapshot=False)
                    )
                case _ if disables_spark(entry):
                    stem = entry.name.partition(".")[0]
                    raise CheckpointError(entry.path, f'For input string: "{stem}"')
                case _:
                    continue
        return tuple(by_version[version] for version in sorted(by_version))

    def _entries(self) -> Iterator[Entry]:
        """Yields the entries of the directory itself; other stores and schemas are below it."""
        for entry in self.storage.list(self.directory):
            if entry.path == f"{self.directory}/{entry.name}":
                yield entry

    def path(self, version: int, kind: str) -> str:
        """Returns the path of a version's delta or snapshot."""
        return f"{self.directory}/{version}.{kind}"

    def delta(self, version: int) -> Iterator[Record]:
        """Yields the changes of a version.

        Raises:
            CannotLoadStateStoreError: when its delta is missing or not valid.
        """
        return self._read(version, "delta")

    def snapshot(self, version: int) -> Iterator[tuple[bytes, bytes]]:
        """Yields the rows of a version's snapshot.

        Raises:
            CannotLoadStateStoreError: when the snapshot is missing or not valid.
        """
        return records.snapshot_rows(self._read(version, "snapshot"))

    def _read(self, version: int, kind: str) -> Iterator[Record]:
        path, summed = self.path(version, kind), self.conf.row_checksum_enabled
        compression = COMPRESSIONS[self.conf.compression_codec]
        source = Source(self.storage, compression, summed, bytes(16)).beside(path)
        payload = (bytes(block.payload) for block in source.blocks(path))
        try:
            decoded = records.decode(payload, row_checksums=summed, removals=kind == "delta")
            yield from map(self._bare, decoded)
        except NotFoundError as error:
            raise self._cannot_read(kind, path, f"{self._place(path)} does not exist.") from error
        except (CodecError, StaleChecksumError) as error:
            raise self._cannot_read(kind, path, f"{error.detail}.") from error

    def _bare(self, record: Record) -> Record:
        key, value = record
        if value is None:
            return record
        row = value[_ROW_CHECKSUM:] if self.conf.row_checksum_enabled else value
        # Spark before 2.3 added four bytes to some values; all later versions drop them like this.
        return key, row[: len(row) // _WORD * _WORD]

    def _cannot_read(self, kind: str, path: str, why: str) -> CannotLoadStateStoreError:
        text = f"Error reading {kind} file {self._place(path)} of {self.owner}: {why}"
        return CannotLoadStateStoreError(path, text)

    def _place(self, path: str) -> str:
        return f"{self.storage.root}/{path}"

    def write(self, version: int, kind: str, changes: Iterable[Record]) -> Entry:
        """Makes a version's delta or snapshot appear complete, replacing any earlier file.

        A crash leaves the old file without its checksums, or the new file.
        """
        path = self.path(version, kind)
        self._forget_checksums(path)  # first: Spark refuses a file with an older file's checksum
        payload = records.encode(changes, row_checksums=self.conf.row_checksum_enabled)
        summed = ChecksummedChunks(encode(COMPRESSIONS[self.conf.compression_codec], payload))
        like = self.neighbours.of(path)
        entry = self.storage.write(path, summed, overwrite=True, like=like)
        if self.conf.file_checksum_enabled:
            content = spark(summed.crc32c, entry.size, self.storage.now())
            self.storage.write(f"{path}.crc", [content], overwrite=True, like=like)
        self.neighbours.note(path)
        return entry

    def delete(self, files: Sequence[StoreFile]) -> None:
        """Deletes files, each after its checksums."""
        for file in files:
            self._forget_checksums(file.path)
            self.storage.delete(file.path)

    def _forget_checksums(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        for side in (f"{name}.crc", f".{name}.crc.crc", f".{name}.crc"):
            self.storage.delete(f"{folder}/{side}")
