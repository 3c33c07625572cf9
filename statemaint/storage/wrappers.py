"""Storages that wrap other storages."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from io import BytesIO
from operator import attrgetter
from threading import Event
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

from statemaint.errors import NotFoundError, StorageError
from statemaint.listing import Entry
from statemaint.storage.base import Storage

_Method = TypeVar("_Method", bound=Callable[..., Any])
MOST_AHEAD = 16 * 1024 * 1024
"""The bytes of files that are fetched and not yet opened, unless a single one has more."""
# A storage prefetches the parts of larger files itself.
_MOST_OF_A_FILE = 8 * 1024 * 1024


def _passed_on(method: _Method, source: str = "_source") -> _Method:
    of = attrgetter(f"{source}.{method.__name__}")

    def passed(storage: Storage, *given: object, **options: object) -> Any:
        return of(storage)(*given, **options)

    return cast("_Method", passed)


def _refused(_method: _Method, what: str) -> _Method:
    def refuse(_storage: Storage, path: str, *_given: object, **_options: object) -> NoReturn:
        raise StorageError(path, f"this run is read-only, {what}")

    return cast("_Method", refuse)


class ReadOnly(Storage):
    """A storage that refuses every write, whatever its caller attempts (S13).

    All else is passed on, so a subclass has only what it changes.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage, self._root = storage, storage.root

    @property
    def _source(self) -> Storage:
        return self._storage

    list = _passed_on(Storage.list)
    folders = _passed_on(Storage.folders)
    stat = _passed_on(Storage.stat)
    read = _passed_on(Storage.read)
    open = _passed_on(Storage.open)
    links = _passed_on(Storage.links, "_storage")
    check_readable = _passed_on(Storage.check_readable, "_storage")
    now = _passed_on(Storage.now, "_storage")
    write = _refused(Storage.write, "the file is not written")
    append = _refused(Storage.append, "nothing is appended")
    delete = _refused(Storage.delete, "the file is not deleted")
    move = _refused(Storage.move, "the file is not moved")

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


class Stoppable(ReadOnly):
    """A storage whose reading threads can be stopped; each stops before its next file."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.stopped = Event()

    def stop(self) -> None:
        # Every further request raises `CancelledError`, in any thread.
        self.stopped.set()

    @property
    def _source(self) -> Storage:
        if self.stopped.is_set():
            raise CancelledError
        return self._storage


def stoppable(storage: Storage) -> Stoppable:
    return storage if isinstance(storage, Stoppable) else Stoppable(storage)


class Without(ReadOnly):
    """A storage as it would be without some files, which are given by their paths or by a rule."""

    def __init__(self, storage: Storage, hidden: Collection[str] | Callable[[str], bool]) -> None:
        super().__init__(storage)
        self._hides = hidden if callable(hidden) else frozenset(hidden).__contains__

    def list(self, prefix: str) -> Iterator[Entry]:
        return (entry for entry in self._storage.list(prefix) if not self._hides(entry.path))

    def stat(self, path: str) -> Entry:
        return self._storage.stat(self._seen(path))

    def read(self, path: str) -> bytes:
        return self._storage.read(self._seen(path))

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self._storage.open(self._seen(path))

    def check_readable(self, path: str, *, like: str) -> None:
        self._storage.check_readable(self._seen(path), like=self._seen(like))

    def _seen(self, path: str) -> str:
        if self._hides(path):
            raise NotFoundError(path, "is left out")
        return path


class Ahead(ReadOnly):
    """A storage that fetches the next files while one is read; for one reading thread.

    A file that is opened out of order, or again, is read as if it were not fetched; the ones before
    it in the order are dropped. A failure to fetch a file is raised when it is opened.
    """

    def __init__(self, storage: Storage, files: Iterable[tuple[str, int]], threads: int) -> None:
        # Each file has its size as it was listed; one that is larger is not fetched ahead.
        super().__init__(storage)
        self._waiting = deque(file for file in files if file[1] <= _MOST_OF_A_FILE)
        self._threads, self._pool = threads, ThreadPoolExecutor(threads)
        self._fetched: dict[str, tuple[int, Future[bytes | None]]] = {}
        self._held = 0
        self._more()

    @property
    def storage(self) -> Storage:
        return self._storage

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        content = self._content(path)
        return self._storage.open(path) if content is None else BytesIO(content)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _content(self, path: str) -> bytes | None:
        if path not in self._fetched:
            return None
        while next(iter(self._fetched)) != path:
            self._drop(next(iter(self._fetched)))
        fetched = self._drop(path)
        self._more()
        return fetched.result()

    def _drop(self, path: str) -> "Future[bytes | None]":
        size, fetched = self._fetched.pop(path)
        self._held -= size
        return fetched

    def _more(self) -> None:
        while self._waiting and len(self._fetched) < self._threads:
            path, size = self._waiting[0]
            if self._fetched and self._held + size > MOST_AHEAD:
                return
            self._waiting.popleft()
            self._fetched[path] = size, self._pool.submit(self._fetch, path, size)
            self._held += size

    def _fetch(self, path: str, size: int) -> bytes | None:
        with self._storage.open(path) as stream:
            content = stream.read(size + 1)
        return content if len(content) <= size else None
