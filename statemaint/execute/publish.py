"""Publishes the snapshots that one fold gives; of RocksDB SST files first, then the zip (S7)."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING

from statemaint.codec.integrity import checksum_file
from statemaint.codec.integrity.checksum_file import ChecksummedChunks
from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb import snapshot_zip
from statemaint.errors import AlreadyExistsError, CheckpointError, StorageError, Superseded
from statemaint.execute.fence import Fence, and_then, superseded_if_missing
from statemaint.fold import Engine, Folding, Source, must_equal
from statemaint.fold.temporary import workplace
from statemaint.listing import Entry
from statemaint.plan.actions import WriteSnapshot
from statemaint.scan.rocks import shared_paths
from statemaint.storage.base import Check, Chunks, Storage
from statemaint.workers import nothing

if TYPE_CHECKING:
    from statemaint.fold.rocksdb import Built

# The second file of a fold waits until the first is in place: in memory up to this size, beyond
# that in the temporary directory.
_IN_MEMORY = 4 * 1024 * 1024
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot that is in place."""

    entry: Entry
    written: int  # its bytes; 0 when another writer's file was there first
    digest: StateDigest  # of the state that it must hold
    checksum: Entry | None  # Spark's checksum file that was written with it
    parts: tuple[Entry, ...] = ()  # the shared files that were written for it
    # The paths of all shared files that it refers to, with their sizes.
    refers: Mapping[str, int] = field(default_factory=dict)


def publish(
    storage: Storage,
    actions: Sequence[WriteSnapshot],
    folding: Folding,
    *,
    like: str | None,
    before: Check,
) -> Iterator[Published]:
    """Yields each snapshot as soon as it is in place; the next is written only on request.

    `like` is the file whose readers they get. What `before` raises keeps a file from appearing.
    """
    first, *later = actions
    with SpooledTemporaryFile(_IN_MEMORY) as spool:
        fold = _Split(folding, first.version, spool)
        yield _published(storage, first, like, and_then(fold, before), fold)
        for action in later:
            spool.seek(0)
            pieces = iter(lambda: spool.read(_PIECE), b"")
            yield _published(storage, action, like, and_then(pieces, before), fold)


class _Split:
    """Splits the pieces of a fold: those of one version pass through, all others are spooled."""

    def __init__(self, folding: Folding, version: int, spool: IO[bytes]) -> None:
        self._folding, self._version, self._spool = folding, version, spool

    def __iter__(self) -> Iterator[bytes]:
        for version, piece in self._folding:
            if version == self._version:
                yield piece
            else:
                with _storage_errors():
                    self._spool.write(piece)

    def digest(self, version: int) -> StateDigest:
        deque(self, maxlen=0)  # a storage that refuses an existing name may have read nothing
        return self._folding.digests[version]


def _published(
    storage: Storage, action: WriteSnapshot, like: str | None, chunks: Chunks, fold: _Split
) -> Published:
    summed = ChecksummedChunks(chunks)
    try:
        entry = write_like(storage, like, action.path, summed)
    except AlreadyExistsError:  # Spark was first; a comparison follows
        return Published(storage.stat(action.path), 0, fold.digest(action.version), None)
    beside = write_checksum(storage, like, summed.crc32c, entry) if action.checksum else None
    return Published(entry, entry.size, fold.digest(action.version), beside)


def write_like(storage: Storage, like: str | None, path: str, chunks: Chunks) -> Entry:
    """Writes a snapshot's file for all readers of the newest change that it is made from (S22)."""
    with superseded_if_missing(only=like or ""):
        return storage.write(path, chunks, like=like)


def dated(storage: Storage, written: Entry, shown: Entry | None = None) -> Entry:
    """Returns the entry, with its time, of a file that was written `like` another.

    A later entry of it, if a read has `shown` one, saves a request.
    """
    if written.modified is not None or (written.tag is None and shown is None):
        return written
    shown = shown or storage.stat(written.path)
    if (shown.size, shown.tag) != (written.size, written.tag):
        raise Superseded(written.path, "was replaced after it was written")
    return shown


def write_checksum(storage: Storage, like: str | None, value: int, owner: Entry) -> Entry:
    """Writes Spark's checksum file, after its owner: in between Spark reads the owner unchecked."""
    path, content = f"{owner.path}.crc", checksum_file.spark(value, owner.size, storage.now())
    try:
        return dated(storage, write_like(storage, like, path, [content]))
    except AlreadyExistsError:  # Spark's own; reading back compares it with the file
        return storage.stat(path)


def read_back(
    engine: Engine, source: Source, path: str, digest: StateDigest, fence: Fence
) -> StateDigest:
    try:
        actual = engine.digest(source, path)
        must_equal(path, actual, digest)
    except CheckpointError:
        fence.must_hold()
        raise
    return actual


@contextmanager
def built(source: Source, actions: Sequence[WriteSnapshot]) -> "Iterator[tuple[Built, ...]]":
    """Folds once into databases, which are deleted at the end of the block.

    Each action's chain begins with the next one's.
    """
    from statemaint.fold.rocksdb import build  # noqa: PLC0415 -- RocksDB is large

    chains, reuse = [action.chain for action in reversed(actions)], actions[0].reuse
    with workplace() as place:
        with superseded_if_missing():
            families = actions[0].families
            made = build(source, chains, workdir=place, families_from=families, reuse=reuse)
        yield tuple(reversed(made))


def publish_zip(
    storage: Storage,
    action: WriteSnapshot,
    made: "Built",
    *,
    like: str | None,
    before: Check,
    last: Check = nothing,
) -> Published:
    """Uploads the new SST files of a database, then the zip that makes it a snapshot.

    A crash in between leaves SST files that no zip refers to: orphans, which a later run deletes.
    `before` is called before each file appears, and may prevent that. `last` is called once before
    the zip appears, and before `before`; if it raises `Superseded`, the new SST files are deleted.
    """
    directory = action.store.directory
    before()  # reading an SST file takes time
    parts = []
    for table in made.new:
        path, chunks = f"{directory}/SSTs/{table.stored}", and_then(_pieces(table.local), before)
        parts.append(dated(storage, write_like(storage, like, path, chunks)))
    refers = shared_paths(directory, made.metadata)
    content = snapshot_zip.render(made.members, made.metadata, mark=True)
    summed = ChecksummedChunks(and_then(and_then([content], last), before))
    try:
        entry = write_like(storage, like, action.path, summed)
    except AlreadyExistsError:  # Spark was first; a comparison follows
        storage.delete_all([part.path for part in parts])
        return Published(storage.stat(action.path), 0, made.digest, None)
    except Superseded:
        before()
        storage.delete_all([part.path for part in parts])
        raise
    beside = write_checksum(storage, like, summed.crc32c, entry) if action.checksum else None
    written = entry.size + sum(part.size for part in parts)
    return Published(entry, written, made.digest, beside, tuple(parts), refers)


def _pieces(file: Path) -> Iterator[bytes]:
    with _storage_errors(), file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            yield piece


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError("the temporary directory", error.strerror or str(error)) from error
