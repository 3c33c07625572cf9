"""The progress of work, for a receiver that the code which starts the work need not know."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

_T = TypeVar("_T")
STORE = "store"


class Observer(Protocol):
    """A receiver of the progress of some work; threads may call it concurrently."""

    def begin(self, jobs: int, size: int, noun: str = STORE) -> None:
        """Some work begins: the number of its jobs, the bytes that they read, what each is of."""

    def done(self, size: int, noun: str = STORE) -> None:
        """A job ends: the bytes that it has read, and what it was of."""


OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def watched(by: Observer | None) -> Iterator[None]:
    """Reports the jobs that begin in the block, in the caller's thread, to an observer, or none."""
    before = OBSERVER.set(by)
    try:
        yield
    finally:
        OBSERVER.reset(before)


def watched_results(results: Generator[_T], jobs: int, noun: str = STORE) -> Generator[_T]:
    """Yields the result of each job, which is done when the next is requested; closes `results`."""
    observer = OBSERVER.get()
    if observer is not None:
        observer.begin(jobs, 0, noun)
    with closing(results):
        for result in results:
            yield result
            if observer is not None:
                observer.done(0, noun)
