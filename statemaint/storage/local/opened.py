"""Opening of files on a local disk, and the storage errors for those of the operating system."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from types import TracebackType
from typing import BinaryIO

from statemaint.errors import (
    AlreadyExistsError,
    CodecError,
    NotFoundError,
    StorageError,
    WrongKindError,
)
from statemaint.storage.base import MOST_READ, NO_FILE, must_be_small, own_link

# A file of up to this size is read when it is opened, in one call and without a separate buffer.
_SMALL = 64 * 1024
# The errors of fsync(2) on what cannot be synced, such as directories of some FUSE mounts.
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})


class Translated:
    """A block in which an error of the operating system becomes a storage error.

    It is a class because every request runs in such a block, and a generator takes three times as
    long.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(error, FileNotFoundError):
            raise NotFoundError(self._path) from error
        if isinstance(error, FileExistsError):
            raise AlreadyExistsError(self._path) from error
        if isinstance(error, OSError):
            raise StorageError.of_os(self._path, error) from error


def sync(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
        why = (
            f"its file system refuses fsync ({error.strerror}), so nothing that is written there "
            "is sure to survive a crash; keep the checkpoint on a file system that supports it"
        )
        raise OSError(error.errno, why) from error


@contextmanager
def readable(parent: int, name: str = ".") -> Iterator[int]:
    """Opens a directory in an open one, so that it can be synced and its access read."""
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


class Opened(AbstractContextManager[BinaryIO]):
    """An open regular file; a pipe in its place counts as a damaged file."""

    __slots__ = ("_open", "_path", "_small", "_stream")

    def __init__(
        self, opened: Callable[[str], tuple[int, int]], path: str, *, small: bool = False
    ) -> None:
        # `opened` returns the file's handle and size. A large file that should be small counts as
        # damaged, and nothing of it is read.
        self._open, self._path, self._small = opened, path, small

    def __enter__(self) -> BinaryIO:
        with Translated(self._path):
            handle, size = self._open(self._path)
            self._stream = _stream(handle, size)
            if self._small and size > MOST_READ:
                self._stream.close()
                must_be_small(size, self._path)
        return self._stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with Translated(self._path):
            self._stream.close()
        Translated(self._path).__exit__(kind, error, trace)


def open_regular(place: str, path: str, *, directory: int | None = None) -> tuple[int, int]:
    """Opens a regular file for reading; returns its handle and its size.

    In an open directory it may not be a link; otherwise links are followed.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer; for a regular file it has no effect.
    flags = os.O_RDONLY | os.O_NONBLOCK
    if directory is None:
        handle = os.open(place, flags)
    else:
        handle = open_no_link(place, flags, path, directory)
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        return handle, status.st_size
    os.close(handle)
    if stat.S_ISDIR(status.st_mode):
        raise WrongKindError(NO_FILE, path=path)
    raise CodecError("it is not a regular file", offset=0, path=path)


def open_no_link(name: str, flags: int, path: str, directory: int) -> int:
    """Opens a file of an open directory, unless it is a link; returns its handle."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise own_link(path) from None


def _stream(handle: int, size: int) -> BinaryIO:
    if size > _SMALL:
        return os.fdopen(handle, "rb")
    try:
        content = os.read(handle, size + 1)
    except OSError:
        os.close(handle)
        raise
    if len(content) != size:  # it has just grown or shrunk
        os.lseek(handle, 0, os.SEEK_SET)
        return os.fdopen(handle, "rb")
    os.close(handle)
    return BytesIO(content)


@contextmanager
def regular(place: tuple[int, str], path: str) -> Iterator[int]:
    """Opens a regular file of an open directory, given with its name, for the block's length."""
    directory, name = place
    handle, _ = open_regular(name, path, directory=directory)
    try:
        yield handle
    finally:
        os.close(handle)
