"""Storage on a local (or mounted) disk."""

import errno
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from statemaint.errors import IncompleteListingError, StorageError, UnreadableError, WrongKindError
from statemaint.listing import Access, Entry
from statemaint.storage.access import of_file
from statemaint.storage.base import (
    NO_DIRECTORY,
    OURS,
    Chunks,
    Storage,
    Tally,
    file_time,
    is_ours,
    missing_newline,
    own_link,
    read_small,
)
from statemaint.storage.local.access import (
    Opened,
    Translated,
    access_of,
    give,
    make_directory,
    must_serve,
    open_no_link,
    open_regular,
    read_access,
    readable,
    regular,
    sync,
)
from statemaint.storage.local.directories import (
    Walk,
    check_way,
    directory_of,
    folders_in,
    links_below,
    real_path,
)
from statemaint.workers import nothing

_Place = tuple[int, str]
"""A file: its open directory, and its name in it."""
_Directory = AbstractContextManager[_Place]
# Only its creator may use a new file until it has its final rights.
_PRIVATE = 0o600
_CHUNK = 1 << 20
# The errors of link(2) on file systems without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class LocalStorage(Storage):
    """A directory. A write is a temp file, fsync, a link or rename, then fsync of the directory."""

    # Names that are made for every file are joined as text: a `Path` costs more than a request.

    def __init__(self, root: str | Path) -> None:
        self._root = str(Path(root))
        self._requests = Tally()
        self._links: bool | None = None
        self._access: dict[tuple[int, int, int], Access] = {}

    @property
    def requests(self) -> Mapping[str, int]:
        return self._requests.counts()

    def list(self, prefix: str) -> Iterator[Entry]:
        self._requests.add("list")
        prefix = prefix.strip("/")
        top = self._at(prefix) if prefix else self._root
        with Translated(prefix):
            if is_ours(prefix):
                check_way(self._root, prefix)
            try:
                directory = os.scandir(top)
            except FileNotFoundError:  # only this error means that the directory does not exist
                return
            except NotADirectoryError as error:
                what = prefix if Path(self._root).is_dir() else ""
                raise WrongKindError(NO_DIRECTORY, path=what or self._root) from error
            except OSError as error:
                refused = StorageError.of_os(prefix or self._root, error)
                raise IncompleteListingError([refused]) from error
            below = f"{prefix}/" if prefix else ""
            walk = Walk(self._listed, os.path.realpath(self._root))
            yield from walk.below(directory, below, os.path.realpath(top))
        if walk.refused:
            raise IncompleteListingError(walk.refused)

    def folders(self, prefix: str) -> Iterator[str]:
        self._requests.add("list")
        with Translated(prefix):
            yield from folders_in(self._root, prefix)

    def links(self, folder: str) -> tuple[str, ...]:
        self._requests.add("list")
        with Translated(folder):
            return tuple(sorted(links_below(self._root, folder)))

    def stat(self, path: str) -> Entry:
        self._requests.add("stat")
        with Translated(path):
            if not is_ours(path):
                return self._listed(path, os.stat(self._at(path)))
            with directory_of(self._root, path) as (directory, name):
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                raise own_link(path)
            return self._listed(path, status)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _listed(self, path: str, status: os.stat_result) -> Entry:
        if not stat.S_ISREG(status.st_mode):  # a pipe or a device has neither size nor end
            return Entry(path, 0, None)
        key = status.st_uid, status.st_gid, status.st_mode
        access = self._access.get(key)  # one object for all files with the same access
        if access is None:
            access = self._access[key] = access_of(status)
        return Entry(path, status.st_size, file_time(status.st_mtime), access=access)

    def read(self, path: str) -> bytes:
        self._requests.add("read")
        with Opened(self._open_regular, path, small=True) as stream:
            return read_small(stream, path)

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        self._requests.add("read")
        return Opened(self._open_regular, path)

    def _open_regular(self, path: str) -> tuple[int, int]:
        if not is_ours(path):
            return open_regular(self._at(path), path)
        with directory_of(self._root, path) as (directory, name):
            return open_regular(name, path, directory=directory)

    def _directory_of(self, path: str, *, serve: bool = False) -> _Directory:
        return directory_of(self._root, path, partial(make_directory, serve=serve))

    def write(
        self, path: str, chunks: Chunks, *, overwrite: bool = False, like: str | None = None
    ) -> Entry:
        self._requests.add("write")
        settle = self._settling(path, like)
        with Translated(path), self._directory_of(path, serve=like is not None) as place:
            directory, name = place
            _put(place, chunks, settle, overwrite=overwrite)
            _sync(directory)
            return self._listed(path, os.stat(name, dir_fd=directory))

    def _settling(self, path: str, like: str | None) -> Callable[[int], None]:
        """Returns the step that gives a new file its owner, group, mode and ACL or raises (S22)."""
        if like is None:
            with Translated(path):
                ours = of_file(read_access(self._root))
            return lambda handle: give(handle, ours)
        wanted = self._access_of(like)

        def settle(handle: int) -> None:
            give(handle, wanted, exact=True)
            must_serve(handle, path, wanted, like)

        return settle

    def append(self, path: str, lines: bytes) -> None:
        self._requests.add("append")
        with Translated(path), self._directory_of(path) as (directory, name):
            with self._for_appending(directory, name, path) as stream:
                if stream.tell():
                    stream.seek(-1, os.SEEK_END)
                    stream.write(missing_newline(stream.read(1)))
                stream.write(lines)
                stream.flush()
                sync(stream.fileno())
            _sync(directory)

    def _for_appending(self, directory: int, name: str, path: str) -> BinaryIO:
        flags = os.O_RDWR | os.O_APPEND
        try:
            handle = os.open(name, flags | os.O_CREAT | os.O_EXCL, _PRIVATE, dir_fd=directory)
        except FileExistsError:
            return os.fdopen(open_no_link(name, flags, path, directory), "a+b")
        give(handle, of_file(read_access(self._root)))
        return os.fdopen(handle, "a+b")

    def delete(self, path: str) -> None:
        self._requests.add("delete")
        with (
            Translated(path),
            suppress(FileNotFoundError),
            directory_of(self._root, path) as (directory, name),
        ):
            os.unlink(name, dir_fd=directory)

    def create_root(self) -> None:
        with Translated(self._root):
            Path(self._root).mkdir(parents=True, exist_ok=True)

    def delete_folders(self, folder: str) -> None:
        with (
            Translated(folder),
            suppress(FileNotFoundError),
            directory_of(self._root, folder) as (directory, name),
        ):
            for _, below, _, handle in os.fwalk(name, topdown=False, dir_fd=directory):
                for folder_below in below:
                    _delete_folder(folder_below, handle)
            _delete_folder(name, directory)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._requests.add("move")
        with (
            Translated(path),
            directory_of(self._root, path) as (directory, name),
            self._content_of(path, (directory, name)) as content,
        ):
            if like is not None:
                self._serve(content, path, to, like)
            with Translated(to), self._directory_of(to, serve=like is not None) as final:
                try:
                    _publish(content, final, overwrite=False)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    _copy(path, content, final)
                _sync(final[0])
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
            _sync(directory)

    def _content_of(self, path: str, place: _Place) -> _Directory:
        """Returns the place of a file's content: for a link, of the file that it leads to."""
        directory, name = place
        if not stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode):
            return nullcontext(place)
        if is_ours(path):
            raise own_link(path)
        os.stat(self._at(path))  # the file must exist
        return directory_of(self._root, real_path(self._root, path))

    def _serve(self, content: _Place, path: str, to: str, like: str) -> None:
        # The rights change only if they must.
        wanted = self._access_of(like)
        with Translated(path), regular(content, path) as handle:
            try:
                must_serve(handle, to, wanted, like)
            except UnreadableError:
                give(handle, wanted, exact=True)
                must_serve(handle, to, wanted, like)

    def check_readable(self, path: str, *, like: str) -> None:
        self._requests.add("stat", 2)
        wanted = self._access_of(like)
        with Translated(path):
            must_serve(self._at(path), path, wanted, like)

    def _access_of(self, like: str) -> Access:
        with Translated(like):
            return read_access(self._at(like))

    @property
    def exclusive(self) -> bool:
        if self._links is None:
            self._links = self._try_links()
        return self._links

    @property
    def obstacle(self) -> str:
        if self._links is not False:
            return ""
        return (
            "its file system has no hard links; keep the checkpoint on one that has them, or on S3 "
            "or HDFS"
        )

    def _try_links(self) -> bool:
        temp, link = (f".probe.{uuid.uuid4()}.tmp" for _ in range(2))
        with Translated(OURS), self._directory_of(f"{OURS}/{temp}") as (directory, _):
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            try:
                os.close(os.open(temp, flags, _PRIVATE, dir_fd=directory))
                os.link(temp, link, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return False
            finally:
                for name in (temp, link):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=directory)
        return True

    def now(self) -> float:
        return time.time()  # noqa: TID251 -- the one clock of this storage


def _delete_folder(name: str, directory: int) -> None:
    with suppress(OSError):  # it is not empty, a link, or has just been deleted
        os.rmdir(name, dir_fd=directory)


def _put(
    place: _Place,
    chunks: Chunks,
    settle: Callable[[int], None],
    *,
    finish: Callable[[int], None] = nothing,
    overwrite: bool = False,
) -> None:
    directory, name = place
    temp = directory, f".{name}.{uuid.uuid4()}.tmp"
    try:
        _fill(*temp, chunks, settle, finish)
        _publish(temp, place, overwrite=overwrite)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temp[1], dir_fd=directory)


def _copy(path: str, content: _Place, final: _Place) -> None:
    """Puts a file on another disk, or below another mount, with its rights and its time."""
    with regular(content, path) as source, os.fdopen(os.dup(source), "rb") as stream:
        before, access = os.fstat(source), read_access(source)
        times = before.st_atime_ns, before.st_mtime_ns
        _put(
            final,
            iter(partial(stream.read, _CHUNK), b""),
            lambda handle: give(handle, access, exact=True),
            finish=lambda handle: os.utime(handle, ns=times),
        )
        after = os.stat(content[1], dir_fd=content[0], follow_symlinks=False)
        same = os.path.samestat(before, after) and before.st_mtime_ns == after.st_mtime_ns
        if not (same and before.st_size == after.st_size):
            os.unlink(final[1], dir_fd=final[0])
            raise StorageError(path, "it was replaced while it was copied to another disk")


def _fill(
    directory: int,
    name: str,
    chunks: Chunks,
    settle: Callable[[int], None],
    finish: Callable[[int], None],
) -> None:
    # Private until it is settled, whatever the umask and the directory set: the final file must
    # never have been open to more users.
    with open(name, "xb", opener=partial(os.open, mode=_PRIVATE, dir_fd=directory)) as stream:
        settle(stream.fileno())
        stream.writelines(chunks)
        stream.flush()
        finish(stream.fileno())
        sync(stream.fileno())


def _publish(temp: _Place, final: _Place, *, overwrite: bool) -> None:
    (source, name), (target, wanted) = temp, final
    places = {"src_dir_fd": source, "dst_dir_fd": target}
    if overwrite:
        os.replace(name, wanted, **places)
        return
    try:
        # Unlike a rename, it refuses an existing name.
        os.link(name, wanted, **places, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Without links, a file that appears between the two requests is replaced: the same as when
        # Spark writes one name twice, and the read-back checks the resulting file.
        with suppress(FileNotFoundError):
            os.lstat(wanted, dir_fd=target)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(name, wanted, **places)


def _sync(directory: int) -> None:
    with readable(directory) as handle:
        sync(handle)
