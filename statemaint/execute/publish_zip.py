"""Publishes a built database as a RocksDB snapshot: SST files first, then the zip (S7)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from statemaint.codec.integrity.crc32c import ChecksummedChunks
from statemaint.codec.rocksdb import snapshot_zip
from statemaint.errors import AlreadyExistsError, NotFoundError, StorageError, Superseded
from statemaint.execute.publish import Published, and_then, dated, write_checksum, write_like
from statemaint.fold import Source
from statemaint.plan import WriteSnapshot
from statemaint.scan.rocks import shared_paths
from statemaint.storage import Storage

if TYPE_CHECKING:
    from statemaint.fold.rocksdb import Built

_PIECE = 1024 * 1024


@contextmanager
def built(source: Source, actions: Sequence[WriteSnapshot]) -> "Iterator[tuple[Built, ...]]":
    """Folds once into databases on local disk, which are deleted at the end of the block.

    Each action's chain begins with the next one's.
    """
    from statemaint.fold.rocksdb import build  # noqa: PLC0415 -- RocksDB is large
    from statemaint.fold.rocksdb.engine import workplace  # noqa: PLC0415

    with workplace() as place:
        try:
            made = build(
                source,
                [action.chain for action in reversed(actions)],
                workdir=place,
                families_from=actions[0].families,
                reuse=actions[0].reuse,
            )
        except NotFoundError as error:
            detail = "existed when the run was planned and is missing"
            raise Superseded(error.path, detail) from error
        yield tuple(reversed(made))


def publish_zip(
    storage: Storage,
    action: WriteSnapshot,
    made: "Built",
    *,
    before: Callable[[], object],
    last: Callable[[], object],
) -> Published:
    """Uploads the new SST files of a database, then the zip that makes it a snapshot.

    A crash in between leaves SST files that no zip refers to: orphans, which a later run deletes.

    `before` is called before each SST file and the zip appear; whatever it raises prevents that.
    `last` is called once before the zip appears, and before `before`.

    Raises:
        Superseded: when `last` raises it; the new SST files are deleted.
    """
    directory = action.store.directory
    before()  # reading an SST file takes time
    parts = tuple(
        dated(
            storage,
            write_like(
                storage,
                action.like,
                f"{directory}/SSTs/{one.stored}",
                and_then(_pieces(one.local), before),
            ),
        )
        for one in made.new
    )
    refers = shared_paths(directory, made.metadata)
    content = snapshot_zip.render(made.members, made.metadata, mark=True)
    summed = ChecksummedChunks(and_then(and_then([content], last), before))
    try:
        entry = write_like(storage, action.like, action.path, summed)
    except AlreadyExistsError:  # Spark was first; a comparison follows
        storage.delete_all([part.path for part in parts])
        return Published(storage.stat(action.path), 0, made.digest, None)
    except Superseded:
        before()
        storage.delete_all([part.path for part in parts])
        raise
    beside = write_checksum(storage, action.like, summed.crc32c, entry) if action.checksum else None
    written = entry.size + sum(part.size for part in parts)
    return Published(entry, written, made.digest, beside, parts, refers)


def _pieces(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                yield piece
    except OSError as error:
        raise StorageError("the temporary directory", error.strerror or str(error)) from error
