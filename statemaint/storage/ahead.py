"""Fetches files of a far storage before they are opened, in the order in which they will be."""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from io import BytesIO
from typing import BinaryIO

from statemaint.storage.base import Storage
from statemaint.storage.wrappers import ReadOnly

MOST_AHEAD = 16 * 1024 * 1024
"""The bytes of files that are fetched and not yet opened, unless a single one has more."""
# A storage prefetches the parts of larger files itself.
_MOST_OF_A_FILE = 8 * 1024 * 1024


class Ahead(ReadOnly):
    """A storage that fetches the next files while one is read; for one reading thread.

    A file that is opened out of order, or again, is read as if it were not fetched; the ones before
    it in the order are dropped. A failure to fetch a file is raised when it is opened.
    """

    def __init__(self, storage: Storage, files: Iterable[tuple[str, int]], threads: int) -> None:
        """Begins to fetch some files at a time, in their order.

        Each has its size as it was listed; one that is larger is not fetched ahead.
        """
        super().__init__(storage)
        self._waiting = deque(one for one in files if one[1] <= _MOST_OF_A_FILE)
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
        """Ends the fetching; no thread is left."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _content(self, path: str) -> bytes | None:
        """Returns the content of a file that was fetched, and fetches further ones."""
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
        """Returns a file's content; `None` if it is larger than its listed size."""
        with self._storage.open(path) as stream:
            content = stream.read(size + 1)
        return content if len(content) <= size else None
