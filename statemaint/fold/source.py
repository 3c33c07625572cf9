"""The files of one store as a fold reads them."""

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Protocol, cast

import google_crc32c

from statemaint.codec.compression.base import Block, Compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity.checksum_file import parse_spark
from statemaint.codec.integrity.digest import StateDigest, digest_key
from statemaint.errors import CodecError, NotFoundError, StaleChecksumError
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot, spark_checksums
from statemaint.storage import Storage

_PIECE = 64 * 1024

Pieces = Generator[tuple[int, bytes], None, dict[int, StateDigest]]
"""The pieces of some files, each with its version, and in the end the digest of each version."""


class Folding:
    """One fold while it runs: pieces of the files of some versions, then a digest of each."""

    __slots__ = ("_digests", "_pieces")

    def __init__(self, pieces: Pieces) -> None:
        """Begins; nothing is read before the first piece or digest is asked for."""
        self._pieces, self._digests = pieces, dict[int, StateDigest]()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yields the pieces that are left, each with the version whose file it belongs to.

        Whoever stops in between leaves the rest to the next one who asks, or to `digests`.
        """
        while True:
            try:
                piece = next(self._pieces)
            except StopIteration as end:
                self._digests = self._digests or end.value  # it ends once, and says so once
                return
            yield piece

    @property
    def digests(self) -> dict[int, StateDigest]:
        """Returns the digest of each version's state; runs to the end, and drops what is left."""
        deque(self, maxlen=0)
        return self._digests


class Described(Protocol):
    """What a checkpoint, or a plan for it, says of all its state files."""

    @property
    def query_id(self) -> str:
        """Returns the query's id."""
        ...

    @property
    def codec(self) -> str:
        """Returns the compression, by Spark's short name."""
        ...

    @property
    def row_checksums(self) -> bool:
        """Tells whether every record carries a checksum."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """How to read the files of one store.

    Attributes:
        storage: where they are.
        compression: of every one of them.
        row_checksums: whether each row carries a checksum of its own.
        key: what digests are keyed by, 16 bytes.
        checksums: the path of Spark's checksum file of each file that has one.
        families: the zip that says how RocksDB is set up, for a chain that begins without one.
        sums: takes the CRC-32C of each file that is read whole, by path, where one is wanted.
    """

    storage: Storage
    compression: Compression
    row_checksums: bool
    key: bytes
    checksums: Mapping[str, str] = field(default_factory=dict)
    families: Snapshot | None = None
    sums: dict[str, int] | None = None

    @classmethod
    def of(cls, storage: Storage, store: Store, described: Described) -> "Source":
        """Returns the source of a store's files."""
        return cls(
            storage,
            COMPRESSIONS[described.codec],
            described.row_checksums,
            digest_key(described.query_id),
            spark_checksums(store.files),
        )

    def beside(self, path: str) -> "Source":
        """Returns the same source, looking for Spark's checksum file beside one more file."""
        return replace(self, checksums={**self.checksums, path: f"{path}.crc"})

    def blocks(self, path: str) -> Generator[Block]:
        """Yields a file's blocks, then compares the whole with its checksum file if it has one.

        Raises:
            CodecError: naming the file, when its bytes do not follow the format.
            StaleChecksumError: when its checksum file is not of these bytes.
            StorageError: when it cannot be read.
        """
        with self.opened(path) as stream:
            try:
                yield from self.compression.blocks(stream)
            except CodecError as error:
                raise error.at(path) from error

    @contextmanager
    def opened(self, path: str) -> Iterator[BinaryIO]:
        """Opens a file to be read to its end, and then compares it with its checksum file.

        Raises:
            CodecError, StaleChecksumError, StorageError: as `blocks` does.
        """
        with self.storage.open(path) as stream:
            if path not in self.checksums and self.sums is None:
                yield stream
                return
            summed = _Summed(stream)
            yield cast("BinaryIO", summed)  # nothing but `read` is asked of it
            summed.drain()
        if path in self.checksums:
            self._compare(path, summed)
        if self.sums is not None:
            self.sums[path] = summed.value

    def _compare(self, path: str, summed: "_Summed") -> None:
        beside = self.checksums[path]
        try:
            expected = parse_spark(self.storage.read(beside))
        except NotFoundError:
            return  # deleted since it was listed: Spark reads the file unchecked
        except CodecError as error:
            why = f"cannot be read ({error.detail}) beside"
            raise StaleChecksumError(beside, path, why) from error
        if not expected.fits(summed.value, summed.size):
            raise StaleChecksumError(beside, path)

    def records(self, path: str) -> Iterator[Record]:
        """Yields a file's records in order.

        Raises:
            CodecError, StaleChecksumError, StorageError: as `blocks` does.
        """
        payload = (bytes(block.payload) for block in self.blocks(path))
        try:
            yield from records.decode(payload, row_checksums=self.row_checksums)
        except CodecError as error:
            raise error.at(path) from error

    def rows(self, path: str) -> Iterator[tuple[bytes, bytes]]:
        """Yields a snapshot's rows in the order in which they are stored.

        Raises:
            CodecError, StaleChecksumError, StorageError: as `blocks` does.
        """
        try:
            yield from records.snapshot_rows(self.records(path))
        except CodecError as error:
            raise error.at(path) from error


class _Summed:
    """A stream that sums up what is read of it."""

    __slots__ = ("_ended", "_stream", "size", "value")

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._ended = stream, False
        self.value = self.size = 0

    def read(self, size: int = -1) -> bytes:
        if self._ended:  # a decoder asks twice at the end of each file, and most files are small
            return b""
        if content := self._stream.read(size):
            self.value = google_crc32c.extend(self.value, content)
            self.size += len(content)
        else:
            self._ended = size != 0
        return content

    def drain(self) -> None:
        """Reads what a decoder has left of the file behind the end of its format."""
        while self.read(_PIECE):
            pass


class Engine(Protocol):
    """Folds chains and reads files back; both engines give the same answers and errors.

    Raises:
        CodecError: naming the file, when one does not follow the format.
        StaleChecksumError: when a checksum file is not of the file beside it.
        Superseded: when one is replaced while it is read.
        StorageError: when one cannot be read.
    """

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        """Folds a chain once.

        Args:
            source: the chain's store.
            chain: what to fold.
            versions: the chain's own version, and at most one other that it passes on the way.
            write: yield the snapshot files of these versions; else only digest the states.
        """
        ...

    def digest(self, source: Source, path: str) -> StateDigest:
        """Returns the digest of a snapshot, read back whole."""
        ...

    def check(self, source: Source, path: str) -> None:
        """Reads a delta whole."""
        ...
