"""Pins a batch, so that maintenance keeps what it needs (S3): for a while, or during other work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from statemaint.errors import ConfigError
from statemaint.execute.lease import QUIET, renewing
from statemaint.model.pins import Pin
from statemaint.model.policy import duration
from statemaint.planning import chains_at, scan_checkpoint
from statemaint.records.claims import newest, pause
from statemaint.records.pins import MOST_SECONDS, end_pin, read_pins, renew_pin, write_pin
from statemaint.scan.identity import must_be_checkpoint
from statemaint.storage import Storage

Pause = Callable[[float], object]


@contextmanager
def pinned(
    storage: Storage, batch: int, *, by: str, for_seconds: float = 600.0, wait: Pause = pause
) -> Iterator[Pin]:
    """Holds a pin of a batch while the block runs, renewing it from another thread.

    What a scan within the block shows of the batch, maintenance leaves there until the block ends.
    Spark's own clean-up heeds no pin. A killed process leaves a pin that ends by itself,
    `for_seconds` after its last renewal; it is renewed three times as often.
    """
    pin = _written(storage, batch, by, for_seconds, wait)
    try:
        with renewing(partial(renew_pin, storage, pin, for_seconds), for_seconds, "pin"):
            yield pin
    finally:
        end_pin(storage, pin)


def pin_batch(
    storage: Storage, batch: int, *, by: str, for_seconds: float, wait: Pause = pause
) -> Pin:
    """Pins a batch for a while, and makes sure that it loads; otherwise it is not pinned."""
    must_be_checkpoint(storage)
    pin = _written(storage, batch, by, for_seconds, wait)
    try:
        chains_at(scan_checkpoint(storage), batch, f"batch {batch} cannot be pinned")
    except BaseException:
        end_pin(storage, pin)
        raise
    return pin


def list_pins(storage: Storage) -> tuple[Pin, ...]:
    """Returns the pins that hold, by id."""
    must_be_checkpoint(storage)
    now = storage.now()
    return tuple(pin for pin in read_pins(storage) if pin.holds(now))


def end_pin_of(storage: Storage, pin: str) -> Pin:
    must_be_checkpoint(storage)
    found = next((existing for existing in read_pins(storage) if existing.id == pin), None)
    if found is None:
        raise ConfigError(f"{storage.root}: there is no pin {pin!r}; `statemaint pins` lists them")
    end_pin(storage, found)
    return found


def _written(storage: Storage, batch: int, by: str, for_seconds: float, wait: Pause) -> Pin:
    """Returns a new pin that every deletion from now on has seen.

    A run that holds the lease may have looked for pins a moment ago, and its request may be under
    way: it `wait`s for that. Any other run looks before its first deletion.
    """
    if not 0 < for_seconds <= MOST_SECONDS:
        most, given = duration(MOST_SECONDS), duration(for_seconds)
        raise ConfigError(f"a pin lasts more than 0s and at most {most}, not {given}")
    pin = write_pin(storage, batch, by=by, seconds=for_seconds)
    try:
        current = newest(storage)
        if current and current.deadline > storage.now():
            wait(QUIET)
    except BaseException:
        end_pin(storage, pin)
        raise
    return pin
