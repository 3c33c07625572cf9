"""Storages that wrap other storages."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from threading import Event
from typing import BinaryIO

from statemaint.errors import NotFoundError, StorageError
from statemaint.listing import Entry
from statemaint.storage.base import Storage, nothing


class ReadOnly:
    """A storage that refuses every write, whatever its caller attempts (S13)."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def root(self) -> str:
        """Returns the root of the wrapped storage."""
        return self._storage.root

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields every file below a directory."""
        return self._storage.list(prefix)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields the names of the folders directly in a directory."""
        return self._storage.folders(prefix)

    def stat(self, path: str) -> Entry:
        """Returns one file's entry."""
        return self._storage.stat(path)

    def read(self, path: str) -> bytes:
        """Returns a file's whole content."""
        return self._storage.read(path)

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Opens a file for reading."""
        return self._storage.open(path)

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        """Refuses."""
        del chunks, overwrite, like
        raise StorageError(path, "this run is read-only, the file is not written")

    def replace(self, path: str, chunks: Iterable[bytes]) -> None:
        """Refuses."""
        self.write(path, chunks)

    def append(self, path: str, lines: bytes) -> None:
        """Refuses."""
        del lines
        raise StorageError(path, "this run is read-only, nothing is appended")

    def delete(self, path: str) -> None:
        """Refuses."""
        raise StorageError(path, "this run is read-only, the file is not deleted")

    def delete_all(self, paths: Sequence[str], *, before: Callable[[], object] = nothing) -> None:
        """Refuses."""
        del before
        for path in paths:
            self.delete(path)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        """Refuses."""
        del to, like
        raise StorageError(path, "this run is read-only, the file is not moved")

    def move_all(
        self,
        moves: Sequence[tuple[Entry, str]],
        *,
        before: Callable[[], object] = nothing,
        after: Callable[[Entry], object] = nothing,
    ) -> None:
        """Refuses."""
        del before, after
        for entry, to in moves:
            self.move(entry.path, to)

    def check_readable(self, path: str, *, like: str) -> None:
        """Checks that every reader of one file may read another."""
        self._storage.check_readable(path, like=like)

    def links(self, folder: str) -> Sequence[str]:
        """Returns the paths of all links at or below a folder."""
        return self._storage.links(folder)

    @property
    def requests(self) -> Mapping[str, int]:
        """Returns the requests of the wrapped storage."""
        return self._storage.requests

    @property
    def parallel(self) -> int:
        """Returns the wrapped storage's number."""
        return self._storage.parallel

    @property
    def exclusive(self) -> bool:
        """Returns false: a storage may have to write to determine this."""
        return False

    @property
    def obstacle(self) -> str:
        """Returns why the wrapped storage is not exclusive, as far as is known."""
        return self._storage.obstacle

    def now(self) -> float:
        """Returns the time by the wrapped storage's clock."""
        return self._storage.now()


class Stoppable(ReadOnly):
    """A storage whose reading threads can be stopped; each stops before its next file.

    Attributes:
        stopped: whether they were stopped.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.stopped = Event()

    def stop(self) -> None:
        """Makes every further request raise `CancelledError`, in any thread."""
        self.stopped.set()

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields every file below a directory."""
        return self._on().list(prefix)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields the names of the folders directly in a directory."""
        return self._on().folders(prefix)

    def stat(self, path: str) -> Entry:
        """Returns one file's entry."""
        return self._on().stat(path)

    def read(self, path: str) -> bytes:
        """Returns a file's whole content."""
        return self._on().read(path)

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Opens a file for reading."""
        return self._on().open(path)

    def _on(self) -> Storage:
        if self.stopped.is_set():
            raise CancelledError
        return self._storage


def stoppable(storage: Storage) -> Stoppable:
    """Returns a storage that can be stopped: the given one, if it can."""
    return storage if isinstance(storage, Stoppable) else Stoppable(storage)


class Without(ReadOnly):
    """A storage as it would be without some files, on which a plan is proved beforehand."""

    def __init__(self, storage: Storage, hidden: Collection[str]) -> None:
        """Hides files by their paths; the wrapped storage is not changed."""
        super().__init__(storage)
        self._hidden = frozenset(hidden)

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields every file below a directory, except hidden files."""
        return (one for one in self._storage.list(prefix) if one.path not in self._hidden)

    def stat(self, path: str) -> Entry:
        """Returns one file's entry, unless it is hidden."""
        return self._storage.stat(self._seen(path))

    def read(self, path: str) -> bytes:
        """Returns a file's whole content, unless it is hidden."""
        return self._storage.read(self._seen(path))

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Opens a file for reading, unless it is hidden."""
        return self._storage.open(self._seen(path))

    def check_readable(self, path: str, *, like: str) -> None:
        """Checks that every reader of one file may read another, unless either is hidden."""
        self._storage.check_readable(self._seen(path), like=self._seen(like))

    def _seen(self, path: str) -> str:
        if path in self._hidden:
            raise NotFoundError(path, "is left out")
        return path
