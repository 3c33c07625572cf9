"""Threads that work in parallel, within a budget of memory (`memory`)."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import Generic, TypeVar

from statemaint.memory import Budget, available_memory, resident_memory
from statemaint.progress import OBSERVER, STORE

_T = TypeVar("_T")
_WORTH_A_CORE = 32 * 1024 * 1024
# While one store waits for the disk, another one computes.
_PER_CORE = 2
# The memory for stores if the process itself takes most of its memory: one of them has to run.
_LEAST_SHARE = 4


@dataclass(frozen=True, slots=True)
class Workers:
    """The number of stores that are worked on at a time, and their memory.

    Attributes:
        number: the stores at a time; `None` for a number that suits the storage and the bytes.
        memory: the bytes that the process should not exceed; `None` for half of the available
            memory. The limit is kept by working on fewer stores at a time: one store always runs.
    """

    number: int | None = None
    memory: int | None = None

    @classmethod
    def of(cls, requested: "Workers | int | None") -> "Workers":
        return requested if isinstance(requested, Workers) else cls(requested)

    def split(self, parts: int) -> "Workers":
        """Returns the workers of each of some runs at a time: one store, and its part of memory."""
        return Workers(1, resident_memory() + self._shared(0) // parts)

    def threads(self, parallel: int, size: int) -> int:
        # few bytes are folded in plain Python, on one core
        return self.number or max(parallel, _PER_CORE * cores() if size >= _WORTH_A_CORE else 1)

    def ahead(self, parallel: int, jobs: int, size: int) -> int:
        """Returns the number of files that a job fetches at a time, so that all use the storage."""
        return max(1, parallel // max(1, min(self.threads(parallel, size), jobs)))

    def budget(self, loading: int = 0) -> "Budget":
        """Returns the memory that stores may share, without that of the process itself.

        The process still grows by the bytes that it is `loading`, whatever the stores are.
        """
        return Budget(partial(self._shared, loading))

    def _shared(self, loading: int) -> int:
        own = resident_memory() + loading
        memory = self.memory or own + available_memory() // 2
        return max(memory - own, memory // _LEAST_SHARE, 1)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(jobs: Iterable[Callable[[], _T]], *, threads: int) -> Generator[_T]:
    """Yields the results of jobs in their order; up to `threads` of them run at a time.

    With one thread they run in the caller's own, where a signal reaches them. With more, when a job
    or the iterable fails, or the caller stops, the running jobs are waited for and no other starts.
    """
    if threads == 1:
        for job in jobs:
            yield job()
        return
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


@dataclass(frozen=True, slots=True)
class Job(Generic[_T]):
    """An iterator that a thread makes and consumes."""

    start: Callable[[], Iterator[_T]]
    need: int | Callable[[], int] = 0  # the bytes of memory that it takes; estimated in that thread
    size: int = 0  # the bytes that it reads; the largest job starts first
    noun: str = STORE  # what it works on, for the progress

    def memory(self) -> int:
        return self.need() if callable(self.need) else self.need


def _notifying(jobs: Sequence[Job[_T]]) -> Sequence[Job[_T]]:
    """Returns jobs that notify the observer, if there is one, when they end."""
    observer = OBSERVER.get()
    if observer is None:
        return jobs

    def notified(job: Job[_T]) -> Iterator[_T]:
        yield from job.start()
        observer.done(job.size, job.noun)

    nouns = {job.noun for job in jobs}
    noun = nouns.pop() if len(nouns) == 1 else "piece"
    observer.begin(len(jobs), sum(job.size for job in jobs), noun)
    return [replace(job, start=partial(notified, job)) for job in jobs]


def nothing(*_: object) -> None:
    """Does nothing."""


def as_they_come(
    jobs: Sequence[Job[_T]],
    *,
    threads: int,
    budget: Budget | None = None,
    stop: Callable[[], object] = nothing,
) -> Generator[_T]:
    """Yields the items of all jobs, each as soon as a thread has it; those of one job in order.

    With one thread the jobs run one after another in the caller's own, and an item is made only on
    request. With more the largest job starts first, the threads run ahead of the caller, and they
    share the budget of memory. When a job raises, or the caller stops, each running job ends after
    its current item, and no other one starts; `stop` is called before they are waited for, and may
    end them within an item.
    """
    jobs = _notifying(jobs)
    if threads == 1 or len(jobs) < 2:  # noqa: PLR2004
        for job in jobs:
            yield from job.start()
        return
    items: SimpleQueue[tuple[_T] | BaseException | None] = SimpleQueue()
    running, stopped, pool = len(jobs), Event(), ThreadPoolExecutor(threads)
    for job in sorted(jobs, key=lambda job: job.size, reverse=True):
        pool.submit(_run, job, budget, stopped, items.put)
    try:
        while running:
            item = items.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                yield item[0]
    finally:
        stopped.set()
        if running:
            stop()
        pool.shutdown(wait=True, cancel_futures=True)


def _run(
    job: Job[_T],
    budget: Budget | None,
    stopped: Event,
    put: Callable[[tuple[_T] | BaseException | None], None],
) -> None:
    """Puts each item of a job, and at its end `None`, or what it raised."""
    try:
        with nullcontext() if budget is None or stopped.is_set() else budget.hold(job.memory()):
            _consume(job.start, stopped, put)
    except BaseException as error:  # noqa: BLE001 -- raised again in the caller's thread
        put(error)
    else:
        put(None)


def _consume(
    start: Callable[[], Iterator[_T]], stopped: Event, put: Callable[[tuple[_T]], None]
) -> None:
    if stopped.is_set():
        return
    with closing(_closable(start())) as items:
        for item in items:
            put((item,))
            if stopped.is_set():
                return


def _closable(items: Iterator[_T]) -> Generator[_T]:
    yield from items


def in_turn(
    jobs: Sequence[Job[_T]],
    *,
    threads: int,
    budget: Budget | None = None,
    stop: Callable[[], object] = nothing,
) -> list[_T]:
    """Returns the only item of each job, in the order of the jobs; runs them as `as_they_come`."""

    def numbered(number: int, job: Job[_T]) -> Iterator[tuple[int, _T]]:
        yield from ((number, item) for item in job.start())

    all_numbered = [
        Job(partial(numbered, number, job), job.need, job.size, job.noun)
        for number, job in enumerate(jobs)
    ]
    results = dict(as_they_come(all_numbered, threads=threads, budget=budget, stop=stop))
    return [results[number] for number in range(len(jobs))]
