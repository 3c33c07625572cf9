"""Stores whose files are read ahead of the caller that takes their rows, in bounded memory."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from typing import Generic, TypeVar

from statemaint.fold.table import HELD
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.progress import watched_results
from statemaint.storage import Stoppable, Storage
from statemaint.workers import Workers

_T = TypeVar("_T")
BUFFERS = 64 * 1024 * 1024
"""The maximum number of bytes that a RocksDB store takes."""
AHEAD = 2 * BUFFERS
"""The maximum number of bytes that all stores that are read ahead take together."""
# In plain Python a row is an object; a small store takes at least this much.
_OBJECTS, _LEAST = 30, 256 * 1024


@dataclass(frozen=True, slots=True)
class StoreReading(Generic[_T]):
    """Reads and folds one store; the caller closes the result, which takes `need` bytes."""

    open: Callable[[Storage], AbstractContextManager[_T]]
    need: int


def need_of(store: Store, chain: Chain, *, tables: int = 1) -> int:
    """Returns an upper estimate of the bytes that an opened state takes."""
    most = BUFFERS if store.rocks else tables * HELD
    return min(most, _LEAST + tables * _OBJECTS * chain.size)


def opened_ahead(
    storage: Storage,
    readings: Iterable[StoreReading[_T]],
    *,
    workers: Workers | int | None = None,
    slowly: bool = False,
) -> Generator[_T]:
    """Yields the result of each reading, in their order; it is closed when the next is requested.

    One worker reads a store when it is requested, in the caller's own thread. Several read ahead,
    within the memory of `AHEAD` and of the workers; `slowly` begins with one at a time, for a
    caller that may not want them all. When a reading fails, or the caller stops, each of them ends
    before its next file.
    """
    crew, stores = Workers.of(workers), [*readings]
    threads = crew.number or storage.parallel
    if threads == 1:
        yield from watched_results(_one_by_one(storage, stores), len(stores))
        return
    most = min(AHEAD, crew.budget().total)
    with closing(_Window(storage, stores, threads, most)) as window:
        yield from watched_results(window.results(1 if slowly else threads), len(stores))


def _one_by_one(storage: Storage, readings: Iterable[StoreReading[_T]]) -> Generator[_T]:
    for reading in readings:
        with reading.open(storage) as opened:
            yield opened


class _Window(Generic[_T]):
    def __init__(
        self, storage: Storage, readings: Iterable[StoreReading[_T]], threads: int, memory: int
    ) -> None:
        self._storage, self._threads, self._memory = Stoppable(storage), threads, memory
        self._left = deque(readings)
        self._pool = ThreadPoolExecutor(threads)
        self._open = deque[tuple[int, Future[tuple[ExitStack, _T]]]]()

    def results(self, most: int) -> Generator[_T]:
        while self._left or self._open:
            self._begin(most)
            stack, opened = self._open[0][1].result()
            with stack:
                yield opened
            self._open.popleft()
            most = min(2 * most, self._threads)

    def _begin(self, most: int) -> None:
        """Begins readings in the caller's thread, so that none waits for one after it."""
        while self._left and len(self._open) < most:
            held = sum(need for need, _ in self._open)
            if self._open and held + self._left[0].need > self._memory:
                return
            reading = self._left.popleft()
            self._open.append((reading.need, self._pool.submit(self._read, reading)))

    def _read(self, reading: StoreReading[_T]) -> tuple[ExitStack, _T]:
        stack = ExitStack()
        return stack, stack.enter_context(reading.open(self._storage))

    def close(self) -> None:
        self._storage.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for _, future in self._open:
            if not future.cancelled() and future.exception() is None:
                future.result()[0].close()
