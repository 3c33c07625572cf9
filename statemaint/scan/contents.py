"""Reads and compares the stored bytes of files."""

import google_crc32c

from statemaint.errors import NotFoundError, Superseded
from statemaint.listing import Entry
from statemaint.storage import Storage

_PIECE = 1024 * 1024


def sum_of(storage: Storage, path: str) -> tuple[int, int]:
    size = total = 0
    with storage.open(path) as stream:
        while piece := stream.read(_PIECE):
            size, total = size + len(piece), google_crc32c.extend(total, piece)
    return size, total


def crc32c_of(storage: Storage, path: str) -> int:
    return sum_of(storage, path)[1]


def fingerprint(storage: Storage, path: str) -> tuple[int, int] | None:
    """Returns the size and the CRC-32C of a listed file; `None` when it does not exist any more."""
    try:
        return sum_of(storage, path)
    except NotFoundError:
        return None
    except Superseded:  # replaced during the read: not the file of any record
        return -1, 0


def is_same(one: Entry, other: Entry) -> bool:
    """Returns whether two listings of a path are of the same file, by its size and time."""
    return (one.path, one.size, one.modified) == (other.path, other.size, other.modified)


def equal(storage: Storage, one: str, other: str) -> bool:
    """Returns whether two files hold the same bytes; equal sizes prove nothing."""
    if storage.stat(one).size != storage.stat(other).size:
        return False
    with storage.open(one) as first, storage.open(other) as second:
        while piece := first.read(_PIECE):
            if piece != second.read(_PIECE):
                return False
    return True
