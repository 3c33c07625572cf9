"""Storage on a local (or mounted) disk."""

import errno
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from statemaint.errors import UnreadableError, WrongKindError
from statemaint.listing import Access, Entry
from statemaint.storage.access import USE, of_directory, of_file
from statemaint.storage.base import NO_DIRECTORY, file_time, nothing, read_small
from statemaint.storage.local.access import access_of, give, must_serve, read_access
from statemaint.storage.local.opened import Opened, Translated, open_regular
from statemaint.storage.local.walk import Walk
from statemaint.storage.tally import Tally

_OURS = "_statemaint"
# Only its creator may use a new file or directory until it has its final rights.
_PRIVATE, _PRIVATE_DIRECTORY = 0o600, 0o700
# The errors of link(2) on file systems without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class LocalStorage:
    """A directory. A write is a temp file, fsync, a link or rename, then fsync of the directory.

    Names that are made for every file are joined as text: a `Path` costs more than a request.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)
        self._top = str(self._root)
        self._requests = Tally()
        self._links: bool | None = None
        self._access: dict[tuple[int, int, int], Access] = {}

    @property
    def requests(self) -> Mapping[str, int]:
        """Returns the number of calls of each kind."""
        return self._requests.counts()

    @property
    def root(self) -> str:
        """Returns the directory's path."""
        return str(self._root)

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields every file below a directory."""
        self._requests.add("list")
        prefix = prefix.strip("/")
        top = self._at(prefix) if prefix else self._top
        with Translated(prefix):
            try:
                directory = os.scandir(top)
            except FileNotFoundError:  # only this error means that the directory does not exist
                return
            except NotADirectoryError as error:
                what = prefix if self._root.is_dir() else ""
                raise WrongKindError(NO_DIRECTORY, path=what or self.root) from error
            below = f"{prefix}/" if prefix else ""
            yield from Walk(self._listed).below(directory, below, os.path.realpath(top))

    def stat(self, path: str) -> Entry:
        """Returns one file's entry."""
        self._requests.add("stat")
        with Translated(path):
            return self._entry(path)

    def _at(self, path: str) -> str:
        return f"{self._top}/{path}"

    def _entry(self, path: str) -> Entry:
        return self._listed(path, os.stat(self._at(path)))

    def _listed(self, path: str, status: os.stat_result) -> Entry:
        if not stat.S_ISREG(status.st_mode):  # a pipe or a device has neither size nor end
            return Entry(path, 0, None)
        return Entry(path, status.st_size, file_time(status.st_mtime), access=self._shared(status))

    def _shared(self, status: os.stat_result) -> Access:
        """Returns the access to a file: one object for all files with the same access."""
        key = status.st_uid, status.st_gid, status.st_mode
        access = self._access.get(key)
        if access is None:
            access = self._access[key] = access_of(status)
        return access

    def read(self, path: str) -> bytes:
        """Returns a file's whole content."""
        self._requests.add("read")
        with Opened(self._at(path), path, small=True) as stream:
            return read_small(stream, path)

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Opens a file for reading."""
        self._requests.add("read")
        return Opened(self._at(path), path)

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        """Makes a file appear complete and durable in one step, or not at all."""
        self._requests.add("write")
        final = self._at(path)
        folder, _, name = final.rpartition("/")
        temp = f"{folder}/.{name}.{uuid.uuid4()}.tmp"
        settle = self._settling(path, like)
        with Translated(path):
            self._make_directory(folder, serve=like is not None)
            try:
                _fill(temp, chunks, settle)
                _publish(temp, final, overwrite=overwrite)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temp)
            _sync_directory(folder)
            return self._entry(path)

    def _settling(self, path: str, like: str | None) -> Callable[[int], None]:
        """Returns the step that gives a new file its owner, group, mode and ACL or raises (S22)."""
        if like is None:
            with Translated(path):
                ours = of_file(read_access(self._top))
            return lambda handle: give(handle, ours)
        with Translated(like):
            wanted = read_access(self._at(like))

        def settle(handle: int) -> None:
            give(handle, wanted, exact=True)
            must_serve(handle, path, wanted, like)

        return settle

    def replace(self, path: str, chunks: Iterable[bytes]) -> None:
        """Makes one of our records appear, whatever had its name."""
        self.write(path, chunks, overwrite=True)

    def append(self, path: str, lines: bytes) -> None:
        """Appends whole lines to a file, durable on return."""
        self._requests.add("append")
        file = self._at(path)
        folder = file.rpartition("/")[0]
        with Translated(path):
            self._make_directory(folder)
            with self._for_appending(file) as stream:
                if stream.tell() and _last_byte(stream) != b"\n":
                    stream.write(b"\n")
                stream.write(lines)
                stream.flush()
                os.fsync(stream.fileno())
            _sync_directory(folder)

    def _for_appending(self, file: str) -> BinaryIO:
        flags = os.O_RDWR | os.O_APPEND
        try:
            handle = os.open(file, flags | os.O_CREAT | os.O_EXCL, _PRIVATE)
        except FileExistsError:
            return os.fdopen(os.open(file, flags), "a+b")
        give(handle, of_file(read_access(self._top)))
        return os.fdopen(handle, "a+b")

    def delete(self, path: str) -> None:
        """Deletes a file; deleting a missing file is not an error."""
        self._requests.add("delete")
        with Translated(path), suppress(FileNotFoundError):
            os.unlink(self._at(path))

    def delete_all(self, paths: Sequence[str], *, before: Callable[[], object] = nothing) -> None:
        """Deletes files one by one, in the order given; the first refusal ends the work."""
        for path in paths:
            before()
            self.delete(path)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        """Renames a file in one durable step."""
        self._requests.add("move")
        source, final = self._at(path), self._at(to)
        with Translated(path):
            os.stat(source)
        if like is not None:
            self._serve(path, to, like)
        with Translated(to):
            folder = final.rpartition("/")[0]
            self._make_directory(folder, serve=like is not None)
            _publish(source, final, overwrite=False)
            _sync_directory(folder)
            with suppress(FileNotFoundError):
                os.unlink(source)
            _sync_directory(source.rpartition("/")[0])

    def _serve(self, path: str, to: str, like: str) -> None:
        """Lets every reader of one file read another, whose rights change only if they must."""
        with Translated(like):
            wanted = read_access(self._at(like))
        with Translated(path), _handle(self._at(path), path) as handle:
            try:
                must_serve(handle, to, wanted, like)
            except UnreadableError:
                give(handle, wanted, exact=True)
                must_serve(handle, to, wanted, like)

    def check_readable(self, path: str, *, like: str) -> None:
        """Checks that every reader of one file may read another."""
        self._requests.add("stat", 2)
        with Translated(like):
            wanted = read_access(self._at(like))
        with Translated(path):
            must_serve(self._at(path), path, wanted, like)

    @property
    def parallel(self) -> int:
        """Returns the number of requests that are worth making at a time."""
        return 1

    @property
    def exclusive(self) -> bool:
        """Returns whether the file system has hard links; tried once, at the first use."""
        if self._links is None:
            self._links = self._try_links()
        return self._links

    def _try_links(self) -> bool:
        folder = self._at(_OURS)
        temp, link = (Path(folder, f".probe.{uuid.uuid4()}.tmp") for _ in range(2))
        with Translated(_OURS):
            self._make_directory(folder)
            try:
                temp.touch(exist_ok=False)
                os.link(temp, link)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return False
            finally:
                temp.unlink(missing_ok=True)
                link.unlink(missing_ok=True)
        return True

    def now(self) -> float:
        """Returns the time by the machine's clock, which stamps the files of a local disk."""
        return time.time()  # noqa: TID251 -- the one clock of this storage

    def _make_directory(self, folder: str, *, serve: bool = False) -> None:
        """Creates a directory if there is none, for the users of its parent.

        Args:
            folder: the directory; the root is never created.
            serve: whether to fail rather than leave out any user of the parent.
        """
        if os.path.isdir(folder):
            return
        if not folder.startswith(f"{self._top}/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        parent = folder.rpartition("/")[0]
        self._make_directory(parent, serve=serve)
        try:
            os.mkdir(folder, _PRIVATE_DIRECTORY)
        except FileExistsError:  # another thread's
            return
        self._open_up(folder, parent, serve=serve)
        _sync_directory(parent)

    def _open_up(self, folder: str, parent: str, *, serve: bool) -> None:
        wanted = of_directory(read_access(parent))
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            give(handle, wanted)
            if serve:
                path, like = (os.path.relpath(one, self._top) for one in (folder, parent))
                must_serve(handle, path, wanted, like, bits=USE)
        except BaseException:
            with suppress(OSError):  # another thread has put a file into it
                os.rmdir(folder)
            raise
        finally:
            os.close(handle)


@contextmanager
def _handle(place: str, path: str) -> Iterator[int]:
    handle, _ = open_regular(place, path)
    try:
        yield handle
    finally:
        os.close(handle)


def _fill(temp: str, chunks: Iterable[bytes], settle: Callable[[int], None]) -> None:
    # Private until it is settled, whatever the umask and the directory set: the final file must
    # never have been open to more users.
    with open(temp, "xb", opener=partial(os.open, mode=_PRIVATE)) as stream:
        settle(stream.fileno())
        stream.writelines(chunks)
        stream.flush()
        os.fsync(stream.fileno())


def _publish(temp: str, final: str, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temp, final)
        return
    try:
        os.link(temp, final)  # unlike a rename, it refuses an existing name
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename_if_absent(temp, final)


def _rename_if_absent(temp: str, final: str) -> None:
    # If the file system has no links, a file that appears between the two lines is replaced:
    # the same as when Spark writes one name twice, and the read-back checks the resulting file.
    if os.path.lexists(final):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(temp, final)


def _last_byte(stream: BinaryIO) -> bytes:
    stream.seek(-1, os.SEEK_END)
    return stream.read(1)


def _sync_directory(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
