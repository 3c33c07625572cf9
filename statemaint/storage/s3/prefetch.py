"""Runs a few jobs in parallel and yields their results in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


def in_order(jobs: Iterable[Callable[[], _T]], *, threads: int) -> Generator[_T]:
    """Yields the jobs' results in order; at most `threads` jobs run at the same time.

    When a job or the iterable fails, or the caller stops, the running jobs are waited for and no
    other is started.
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
