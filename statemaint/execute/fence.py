"""Checks that precede writes and deletions; `lease` has the fence that asks the storage."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from statemaint.errors import NotFoundError, Superseded


class Fence:
    """A check that always passes: there is no lease."""

    @property
    def number(self) -> int:
        """Returns the fencing number; 0 without a lease."""
        return 0

    def must_hold(self) -> None:
        """Makes sure, by asking the storage, that the lease is still held (S8).

        Raises:
            LeaseLostError: when another run holds it, or it was ended.
        """

    @property
    def is_fresh(self) -> bool:
        """Returns whether an answer of the last `TRUSTED` seconds confirms the lease."""
        return True

    def check(self) -> None:
        """Makes sure that the lease is held; queries the storage unless the last answer is fresh.

        Raises:
            LeaseLostError, StorageError: as `must_hold` does.
        """
        if not self.is_fresh:
            self.must_hold()


@contextmanager
def superseded_if_missing(when: str = "the run was planned") -> Iterator[None]:
    """Turns the error of a missing file, which existed at some time, into `Superseded`."""
    try:
        yield
    except NotFoundError as error:
        raise Superseded(error.path, f"existed when {when} and is missing") from error


def and_then(chunks: Iterable[bytes], before: Callable[[], object]) -> Iterator[bytes]:
    """Yields chunks, then calls `before`: a file appears in storage once its chunks have ended."""
    yield from chunks
    before()
