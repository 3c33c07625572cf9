"""From a snapshot in storage to a directory that RocksDB can open.

Mirrors `RocksDBFileManager.loadCheckpointFromDfs`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from statemaint.codec.rocksdb import log_records, snapshot_zip
from statemaint.codec.rocksdb.snapshot_zip import METADATA, ImmutableFile, ZipMetadata
from statemaint.errors import CodecError, MissingSstError, NotFoundError, Superseded, in_file
from statemaint.fold.rocksdb.database import delimiter_of
from statemaint.fold.source import Source
from statemaint.fold.temporary import temporary_directory
from statemaint.model.files import Snapshot
from statemaint.storage import read_small

SSTS, LOGS = "SSTs", "logs"
_MANIFEST, _LOG = "MANIFEST-", ".log"
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Zip:
    """A snapshot's zip, with RocksDB's own small files."""

    path: str
    metadata: ZipMetadata
    members: Mapping[str, bytes]
    delimiter: bytes | None  # between merged operands; `None` without a merge operator


def read_zip(source: Source, snapshot: Snapshot) -> Zip:
    """Reads a zip without the files beside it."""
    path = snapshot.entry.path
    with source.opened(path) as stream:
        content = read_small(stream, path)
    with in_file(path):
        members = snapshot_zip.members(content)
        for name, member in members.items():
            if name.endswith(_LOG) or name.startswith(_MANIFEST):
                log_records.check(member)
        return Zip(path, snapshot_zip.metadata_of(members), members, delimiter_of(members))


def fetch(source: Source, archive: Zip, target: Path) -> None:
    """Creates a directory with the members of a zip and the SST files that it names.

    A file whose size differs from the zip's record is not read: a stray one may be of any size.
    Archived logs are not copied: RocksDB does not read them to open a database.
    """
    with temporary_directory():
        target.mkdir(parents=True)
        for name, content in archive.members.items():
            if name != METADATA:
                (target / name).write_bytes(content)
    for sst in archive.metadata.ssts:
        _fetch(source, archive.path, sst, target / sst.local)


@contextmanager
def blaming(archive: Zip | None) -> Iterator[None]:
    """Adds the SST file that RocksDB reports to errors, if it belongs to the zip."""
    try:
        yield
    except CodecError as error:
        for sst in archive.metadata.ssts if archive else ():
            if archive and error.path == archive.path and sst.local in error.detail:
                at = stored_at(archive.path, sst.stored)
                raise CodecError(error.detail, offset=error.offset, path=at) from error
        raise


def stored_at(zip_path: str, name: str, folder: str = SSTS) -> str:
    return f"{zip_path.rpartition('/')[0]}/{folder}/{name}"


def _fetch(source: Source, owner: str, sst: ImmutableFile, target: Path) -> None:
    path = stored_at(owner, sst.stored)
    try:
        _must_have(sst, source.storage.stat(path).size, owner, path)
        with source.opened(path) as stream, temporary_directory(), target.open("xb") as copy:
            size = sum(copy.write(piece) for piece in iter(lambda: stream.read(_PIECE), b""))
    except NotFoundError as error:
        _must_be_there(source, owner)
        raise MissingSstError(owner, path) from error
    _must_have(sst, size, owner, path)


def _must_have(sst: ImmutableFile, size: int, owner: str, path: str) -> None:
    if size != sst.size:
        text = f"it has {size} bytes, {owner} records {sst.size}"
        raise CodecError(text, offset=min(size, sst.size), path=path)


def _must_be_there(source: Source, owner: str) -> None:
    """Checks that a zip that lacks an SST file still exists: clean-ups delete SST files first."""
    try:
        source.storage.stat(owner)
    except NotFoundError as error:
        raise Superseded(owner, "was deleted while it was read") from error
