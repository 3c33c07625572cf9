"""Checks that precede writes and deletions; `lease` has the fence that asks the storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from statemaint.errors import NotFoundError, Superseded
from statemaint.records.pins import read_pins
from statemaint.storage.base import Check, Chunks, Storage

# The seconds for which a holder trusts the storage's last answer that it holds the lease.
TRUSTED = 2.0


class Fence:
    """A check that always passes: there is no lease."""

    @property
    def number(self) -> int:
        return 0

    def must_hold(self) -> None:
        """Makes sure, by asking the storage, that the lease is still held (S8)."""

    @property
    def is_fresh(self) -> bool:
        """Returns whether an answer of the last `TRUSTED` seconds confirms the lease."""
        return True

    def check(self) -> None:
        if not self.is_fresh:
            self.must_hold()


@dataclass(slots=True)
class PinWatch:
    """Looks for pins below the floor of a run's plan; the threads of the run share its answers.

    An answer counts for `TRUSTED` seconds, as the lease's does. A pin made while a run holds the
    lease is relied on only after longer than that.
    """

    storage: Storage
    floor: int | None  # the oldest version that the plan keeps loadable; none without deletions
    _looked: float = float("-inf")
    _lock: Lock = field(default_factory=Lock)

    @property
    def is_fresh(self) -> bool:
        """Returns whether no pin can be below the floor, or none was within `TRUSTED` seconds."""
        lowest = self.floor is None or self.floor <= 1
        return lowest or self.storage.now() - self._looked < TRUSTED

    def check(self) -> None:
        """Makes sure that no pin, made since the plan, holds versions that it deletes files of."""
        if not self.is_fresh:
            with self._lock:
                if not self.is_fresh:
                    self._look()

    def _look(self) -> None:
        now = self.storage.now()
        for pin in read_pins(self.storage):
            if self.floor is not None and pin.version < self.floor and pin.holds(now):
                what = "every batch" if pin.batch is None else f"batch {pin.batch}"
                raise Superseded(pin.path, f"pins {what}, which the plan does not keep")
        self._looked = now


@contextmanager
def superseded_if_missing(
    when: str = "the run was planned", *, only: str | None = None
) -> Iterator[None]:
    """Turns the error of a missing file, which existed at some time, into `Superseded`."""
    try:
        yield
    except NotFoundError as error:
        if only is not None and error.path != only:
            raise
        raise Superseded(error.path, f"existed when {when} and is missing") from error


def and_then(chunks: Chunks, before: Check) -> Iterator[bytes]:
    """Yields chunks, then calls `before`: a file appears in storage once its chunks have ended."""
    yield from chunks
    before()
