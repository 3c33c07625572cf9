"""Listings of Hadoop file systems, many directories in one request to Java.

Each call to Java takes a fifth of a millisecond, so a call for each entry's name, size and time
costs more than everything else. Instead, Hadoop itself writes the statuses as bytes (the `Writable`
form of `FileStatus`), a whole array of them into one file:

    uint32 count, then of each status: uint32 length and a protobuf message `FileStatusProto`:
        1 fileType (1 is a directory)   2 path   3 length   4 permission: { 1 perm }
        5 owner   6 group   7 modification_time (milliseconds)

A file is used because on the connection an answer above 8 KiB waits 40 ms for TCP.
"""

import re
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from statemaint.errors import (
    IncompleteListingError,
    NotFoundError,
    StorageError,
    WrongKindError,
)
from statemaint.listing import Access
from statemaint.storage.base import NO_DIRECTORY, named_as_file
from statemaint.storage.hadoop.jvm import Jvm, local_stream, on_this_machine, translated

# The number of directories listed in one call. Java holds all their entries in memory together.
_DIRECTORIES = 64
_DIRECTORY = 1
_KIND, _PATH, _LENGTH, _PERMISSION, _OWNER, _GROUP, _MODIFIED = range(1, 8)
_VARINT, _BYTES, _FIXED = 0, 2, {1: 8, 5: 4}  # kinds of fields
_MORE = 0x80  # the bit that marks a byte of a varint as followed by another
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


class Status(NamedTuple):
    """One entry as Hadoop reports it."""

    path: str  # from the file system's own root
    is_directory: bool
    size: int
    modified: float
    access: Access | None = None  # if it costs no separate requests


Lister = Callable[[Sequence[str]], list[Status]]


def walk(top: str, lister: Lister) -> Iterator[Status]:
    """Yields every file below a directory, and the directories that are `named_as_file`."""
    level, refused = [top], list[StorageError]()
    while level:
        below: list[str] = []
        for first in range(0, len(level), _DIRECTORIES):
            for status in _list(level[first : first + _DIRECTORIES], lister, refused):
                if status.is_directory:
                    below.append(status.path)
                if not status.is_directory or named_as_file(status.path.rpartition("/")[2]):
                    yield status
        level = below
    if refused:  # after everything else
        raise IncompleteListingError(refused)


def _list(
    directories: Sequence[str], lister: Lister, refused: list[StorageError]
) -> Iterable[Status]:
    try:
        statuses = lister(directories)
    except StorageError as error:
        if not (error.lasting or isinstance(error, NotFoundError)):
            raise
        if len(directories) == 1:
            refused += [error] if error.lasting else []
            return []
        # One of them vanished, or is refused: each is listed alone, so no other is left out.
        return [status for alone in directories for status in _list([alone], lister, refused)]
    for status in statuses:
        if status.path in directories:  # Hadoop lists a file as itself
            raise WrongKindError(NO_DIRECTORY, path=status.path)
    return statuses


def batched_lister(jvm: Jvm, files: Any) -> Lister:
    # A dozen calls to Java for any number of entries.
    def lister(directories: Sequence[str]) -> list[Status]:
        top = directories[0]
        with on_this_machine(top), tempfile.NamedTemporaryFile() as local, translated(jvm, top):
            strings = jvm.java("org.apache.hadoop.util.StringUtils")
            paths = strings.stringToPath(strings.getStrings("\0".join(directories), "\0"))
            statuses = files.listStatus(paths)
            _save(jvm, statuses, local_stream(jvm, "Output", local.name, top))
            return decode_statuses(local.read())

    return lister


def _save(jvm: Jvm, statuses: Any, file: Any) -> None:
    # py4j finds a constructor by the exact type of an array, so this must be a Writable[].
    writables = jvm.array("org.apache.hadoop.io.Writable", size=(count := len(statuses)))
    jvm.java("java.lang.System").arraycopy(statuses, 0, writables, 0, count)
    of = jvm.java("java.lang.Class").forName("org.apache.hadoop.fs.FileStatus")
    stream = jvm.java("java.io.DataOutputStream")(jvm.java("java.io.BufferedOutputStream")(file))
    try:
        jvm.java("org.apache.hadoop.io.ArrayWritable")(of, writables).write(stream)
    finally:
        stream.close()


def single_lister(jvm: Jvm, files: Any) -> Lister:
    # For local disks: there a status written as bytes includes the owner, and without Hadoop's
    # native library Java starts a program for each file to find the owner.
    make = jvm.java("org.apache.hadoop.fs.Path")

    def lister(directories: Sequence[str]) -> list[Status]:
        with translated(jvm, directories[0]):
            return [
                status_of(status, path_part(status.getPath().toString()))
                for directory in directories
                for status in files.listStatus(make(directory))
            ]

    return lister


def status_of(status: Any, path: str) -> Status:
    modified = status.getModificationTime() / 1000
    return Status(path, status.isDirectory(), status.getLen(), modified)


def path_part(uri: str) -> str:
    match = _AUTHORITY.match(uri)
    return uri[match.end() :] if match else uri


def decode_statuses(content: bytes) -> list[Status]:
    statuses: list[Status] = []
    alike: dict[Access, Access] = {}
    try:
        (count,) = struct.unpack_from(">I", content)
        end = 4
        for _ in range(count):
            at = end + 4
            end = at + struct.unpack_from(">I", content, end)[0]
            statuses.append(_status(content, at, end, alike))
    except (struct.error, IndexError) as error:
        raise StorageError("the listing", "Hadoop's answer is cut short") from error
    return statuses


def _status(content: bytes, at: int, end: int, alike: dict[Access, Access]) -> Status:
    if end > len(content):
        raise IndexError(end)
    fields: dict[int, Any] = {}
    while at < end:
        tag, at = _varint(content, at)
        fields[tag >> 3], at = _field(content, at, tag & 7)
    access = None
    with suppress(KeyError, TypeError):  # a file system without owners, groups and modes
        mode, _ = _varint(fields[_PERMISSION], 1)
        access = Access(str(fields[_OWNER], "utf-8"), str(fields[_GROUP], "utf-8"), mode)
    return Status(
        path_part(str(fields[_PATH], "utf-8")),
        fields[_KIND] == _DIRECTORY,
        fields.get(_LENGTH, 0),
        fields.get(_MODIFIED, 0) / 1000,
        alike.setdefault(access, access) if access else None,
    )


def _field(content: bytes, at: int, kind: int) -> tuple[int | bytes, int]:
    if kind in _FIXED:
        return 0, at + _FIXED[kind]
    number, at = _varint(content, at)
    if kind == _VARINT:
        return number, at
    if kind != _BYTES:
        raise IndexError(kind)
    return content[at : at + number], at + number


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := content[at]) >= _MORE:
        value |= (byte - _MORE) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1
