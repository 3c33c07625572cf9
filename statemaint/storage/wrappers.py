"""Storages that wrap other storages."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from threading import Event
from typing import BinaryIO

from statemaint.errors import NotFoundError, StorageError
from statemaint.listing import Entry
from statemaint.storage.base import Storage


class ReadOnly(Storage):
    """A storage that refuses every write, whatever its caller attempts (S13).

    All else is passed on, so a subclass has only what it changes.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def _source(self) -> Storage:
        """Returns the storage that is listed and read."""
        return self._storage

    @property
    def root(self) -> str:
        return self._storage.root

    def list(self, prefix: str) -> Iterator[Entry]:
        return self._source.list(prefix)

    def folders(self, prefix: str) -> Iterator[str]:
        return self._source.folders(prefix)

    def stat(self, path: str) -> Entry:
        return self._source.stat(path)

    def read(self, path: str) -> bytes:
        return self._source.read(path)

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self._source.open(path)

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        del chunks, overwrite, like
        raise StorageError(path, "this run is read-only, the file is not written")

    def append(self, path: str, lines: bytes) -> None:
        del lines
        raise StorageError(path, "this run is read-only, nothing is appended")

    def delete(self, path: str) -> None:
        raise StorageError(path, "this run is read-only, the file is not deleted")

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        del to, like
        raise StorageError(path, "this run is read-only, the file is not moved")

    def check_readable(self, path: str, *, like: str) -> None:
        self._storage.check_readable(path, like=like)

    def links(self, folder: str) -> Sequence[str]:
        return self._storage.links(folder)

    @property
    def requests(self) -> Mapping[str, int]:
        return self._storage.requests

    @property
    def parallel(self) -> int:
        return self._storage.parallel

    @property
    def exclusive(self) -> bool:
        """Returns false: a storage may have to write to determine this."""
        return False

    @property
    def obstacle(self) -> str:
        return self._storage.obstacle

    def now(self) -> float:
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

    @property
    def _source(self) -> Storage:
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
        return (one for one in self._storage.list(prefix) if one.path not in self._hidden)

    def stat(self, path: str) -> Entry:
        return self._storage.stat(self._seen(path))

    def read(self, path: str) -> bytes:
        return self._storage.read(self._seen(path))

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self._storage.open(self._seen(path))

    def check_readable(self, path: str, *, like: str) -> None:
        self._storage.check_readable(self._seen(path), like=self._seen(like))

    def _seen(self, path: str) -> str:
        if path in self._hidden:
            raise NotFoundError(path, "is left out")
        return path
