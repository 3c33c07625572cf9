"""Checks a state file without decoding all of it: how it begins, and how it ends.

    begins   the first block of the compression, with the checksum that lz4 has; in it the first
             record of a delta or a snapshot, or the header of a changelog
    ends     lz4: the empty block after the last one

Nothing between the two is read, and the other compressions have no recognizable end. Every scan
reads the zips of RocksDB, and lists their SST files.
"""

from collections.abc import Callable
from io import SEEK_END
from typing import BinaryIO

from statemaint.codec.compression import lz4 as lz4_block
from statemaint.codec.compression.base import decode
from statemaint.codec.compression.lz4 import HEADER_SIZE, Lz4Block
from statemaint.codec.hdfs import records
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import Header
from statemaint.errors import CodecError
from statemaint.fold import Source
from statemaint.model.files import Delta, Snapshot


def seems_whole(
    source: Source,
    file: Delta | Snapshot,
    on_header: Callable[[Header], object] = lambda _: None,
) -> bool:
    """Returns whether a file begins and ends as its format requires.

    A file that does not is not necessarily damaged: Spark reads an lz4 stream without its end. Only
    reading the whole file decides.

    Args:
        source: where the file is, and how it is written.
        file: the file.
        on_header: called with the header of a changelog.

    Raises:
        NotFoundError: when it is missing; Superseded: when it is replaced while it is read.
    """
    with source.storage.open(file.entry.path) as stream:
        return _begins(source, file, stream, on_header) and _ends(source, stream)


def _begins(
    source: Source,
    file: Delta | Snapshot,
    stream: BinaryIO,
    on_header: Callable[[Header], object],
) -> bool:
    payload = decode(source.compression, stream)
    try:
        if file.entry.path.endswith(".changelog"):
            on_header(changelog.read_header(payload))
        else:
            removals = isinstance(file, Delta)
            decoded = records.decode(payload, row_checksums=source.row_checksums, removals=removals)
            next(decoded, None)
    except CodecError:
        return False
    return True


def _ends(source: Source, stream: BinaryIO) -> bool:
    if not isinstance(source.compression, Lz4Block):
        return True
    size = stream.seek(0, SEEK_END)
    stream.seek(max(0, size - HEADER_SIZE))
    return lz4_block.is_end(stream.read(HEADER_SIZE))
