"""A few jobs at once, their results in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


def in_order(jobs: Iterable[Callable[[], _T]], *, threads: int) -> Generator[_T]:
    """Yields what the jobs return, in their order; no more of them are begun than `threads`.

    When a job or the iterable fails, or the caller stops, those that run are waited for and no
    other is begun.
    """
    pool = ThreadPoolExecutor(threads)
    running: deque[Future[_T]] = deque()
    try:
        for job in jobs:
            running.append(pool.submit(job))
            if len(running) == threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
