"""The files of one store as a fold reads them."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Protocol, cast

from statemaint.codec.compression.base import Block, Compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity.checksum_file import MOST_BYTES, ChecksummedStream, parse_spark
from statemaint.codec.integrity.digest import StateDigest, digest_key
from statemaint.errors import CodecError, NotFoundError, StaleChecksumError, in_file
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta, Snapshot, spark_checksums
from statemaint.storage import Ahead, Storage, entry_shown, read_small

COMPILED_FROM = 512 * 1024
"""The stored bytes below which plain loops end before compiled ones would be loaded."""
Pieces = Generator[tuple[int, bytes], None, dict[int, StateDigest]]
"""The pieces of some files, each with its version, and finally the digest of each version."""


class Folding:
    """One fold while it runs: pieces of the files of some versions, then a digest of each.

    Nothing is read before the first piece or digest is requested.
    """

    __slots__ = ("_digests", "_pieces")

    def __init__(self, pieces: Pieces) -> None:
        self._pieces, self._digests = pieces, dict[int, StateDigest]()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yields the remaining pieces, each with the version whose file it belongs to.

        A caller that stops early leaves the rest to the next iteration, or to `digests`.
        """
        while True:
            try:
                piece = next(self._pieces)
            except StopIteration as end:
                self._digests = self._digests or end.value  # only the first end has a value
                return
            yield piece

    @property
    def digests(self) -> dict[int, StateDigest]:
        """Returns the digest of each version's state; runs to the end and drops what remains."""
        deque(self, maxlen=0)
        return self._digests


class Described(Protocol):
    """The facts of a checkpoint, or of its plan, that hold for all its state files."""

    @property
    def query_id(self) -> str: ...

    @property
    def codec(self) -> str: ...

    @property
    def row_checksums(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one store, and how to read them."""

    storage: Storage
    compression: Compression
    row_checksums: bool
    key: bytes  # of digests, 16 bytes
    checksums: Mapping[str, str] = field(default_factory=dict)  # Spark's, by the file they are of
    # The zip whose column families and merge operator apply to folds; by default the chain's base.
    families: Snapshot | None = None
    unnamed: bool = False  # folds may have rows of families without a name
    sums: dict[str, int] | None = None  # receives the CRC-32C of each file that is read whole
    entries: dict[str, Entry] = field(default_factory=dict)  # and its entry, if the storage has it
    ahead: int = 1  # the number of files that are fetched at a time if several will be read

    @classmethod
    def of(
        cls, storage: Storage, store: Store, described: Described, *, ahead: int = 1
    ) -> "Source":
        return cls(
            storage,
            COMPRESSIONS[described.codec],
            described.row_checksums,
            digest_key(described.query_id),
            spark_checksums(store.files),
            ahead=ahead,
        )

    def like(self, snapshot: Snapshot | None) -> "Source":
        """Returns the source for a fold that is compared with a snapshot.

        It takes families and merge operator from the snapshot, as the zip that its chain begins
        with may be older than a family. If the snapshot lacks one, the two differ.
        """
        return replace(self, families=snapshot, unnamed=True)

    @contextmanager
    def fetching(self, files: Iterable[Delta | Snapshot]) -> Iterator["Source"]:
        """Yields a source that fetches these files ahead; they will be read in this order."""
        if self.ahead == 1:
            yield self
            return
        behind = self.storage.storage if isinstance(self.storage, Ahead) else self.storage
        with closing(Ahead(behind, self._in_order(files), self.ahead)) as near:
            yield replace(self, storage=near)

    def _in_order(self, files: Iterable[Delta | Snapshot]) -> Iterator[tuple[str, int]]:
        for file in files:
            yield file.entry.path, file.entry.size
            if beside := self.checksums.get(file.entry.path):
                yield beside, MOST_BYTES

    @property
    def far(self) -> bool:
        return self.storage.parallel > 1

    def beside(self, path: str) -> "Source":
        """Returns the same source, which also checks one more file against its checksum file."""
        return replace(self, checksums={**self.checksums, path: f"{path}.crc"})

    def blocks(self, path: str) -> Generator[Block]:
        """Yields a file's blocks, then compares the whole file with its checksum file, if any."""
        with self.opened(path) as stream, in_file(path):
            yield from self.compression.blocks(stream)

    @contextmanager
    def opened(self, path: str) -> Iterator[BinaryIO]:
        """Opens a file for reading to its end, and then compares it with its checksum file."""
        with self.storage.open(path) as stream:
            if path not in self.checksums and self.sums is None:
                yield stream
                return
            summed = ChecksummedStream(stream)
            yield cast("BinaryIO", summed)  # callers use only `read`
            summed.drain()
            if entry := entry_shown(stream):
                self.entries[path] = entry
        if path in self.checksums:
            self._compare(path, summed)
        if self.sums is not None:
            self.sums[path] = summed.crc32c

    def _compare(self, path: str, summed: ChecksummedStream) -> None:
        beside = self.checksums[path]
        try:
            with self.storage.open(beside) as stream:
                expected = parse_spark(read_small(stream, beside, MOST_BYTES))
        except NotFoundError:
            return  # deleted since it was listed: Spark reads the file unchecked
        except CodecError as error:
            why = f"cannot be read ({error.detail}) beside"
            raise StaleChecksumError(beside, path, why) from error
        if not expected.fits(summed.crc32c, summed.size):
            raise StaleChecksumError(beside, path)

    def records(self, path: str) -> Iterator[Record]:
        payload = (bytes(block.payload) for block in self.blocks(path))
        with in_file(path):
            yield from records.decode(payload, row_checksums=self.row_checksums)

    def rows(self, path: str) -> Iterator[tuple[bytes, bytes]]:
        with in_file(path):
            yield from records.snapshot_rows(self.records(path))


class Engine(Protocol):
    """Folds chains and reads files back; both engines give the same results and errors.

    Besides `StorageError` they raise `CodecError`, naming the file, `StaleChecksumError`, and
    `Superseded` when a file is replaced while it is read.
    """

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        """Folds a chain once: its own version, and at most one other that the fold passes through.

        Without `write` there are only digests.
        """
        ...

    def digest(self, source: Source, path: str) -> StateDigest: ...

    def check(self, source: Source, delta: Delta) -> frozenset[int]:
        """Reads a delta whole; returns the column families, if any, that it needs a zip to name."""
        ...
