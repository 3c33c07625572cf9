"""A run that slept until another one has completed its savepoint changes it no more (S8, S23)."""

from contextlib import suppress

import pytest

from statemaint.errors import (
    AlreadyExistsError,
    ConfigError,
    LeaseHeldError,
    LeaseLostError,
    Superseded,
)
from statemaint.model.checkpoint import Provider
from statemaint.records.savepoints import SAME, STORES, Shape
from statemaint.savepoint import savepoint
from statemaint.savepoint.plan import committed_batches
from statemaint.storage import MemoryStorage
from tests.support.archived import archived
from tests.support.faults import Clock, HookedStorage, each_crash
from tests.support.marks import long


class Source(MemoryStorage):
    """A checkpoint at an address of its own."""

    @property
    def root(self) -> str:
        return "memory:source"


DAYS = 3 * 86_400
KIND = ("4.3.0", "aggregation2")
LATE = (AlreadyExistsError, ConfigError, LeaseHeldError, LeaseLostError, Superseded)


def contents(dest: MemoryStorage) -> dict[str, bytes]:
    """Returns all files but leases, and records of stores, which name the savepoint they are of."""
    others = ("_statemaint/lease/", f"{STORES}/")
    return {path: one for path, one in dest.files.items() if not path.startswith(others)}


def late(source: MemoryStorage, left: MemoryStorage | None, at: int, to: Shape) -> set[str] | None:
    """Lets a run sleep before its nth request while another one completes the savepoint.

    Returns the files that it changes once it is awake; `None` if it ended before.
    """
    clock, requests, whole = Clock(), 0, dict[str, bytes]()
    dest = HookedStorage(left.files if left else None, clock=clock)
    clock.now += DAYS  # the lease of a killed run is over

    def sleep(_verb: str, _path: str) -> None:
        nonlocal requests, whole
        requests += 1
        if requests == at:
            dest.before = lambda _verb, _path: None
            clock.now += DAYS
            savepoint(source, dest, batch=committed_batches(source)[-1], shape=to)
            whole = contents(dest)

    dest.before = sleep
    with suppress(*LATE):
        savepoint(source, dest, batch=committed_batches(source)[-1], shape=to)
    if requests < at:
        return None
    assert "metadata" in whole
    now = contents(dest)
    return {path for path in whole.keys() | now.keys() if whole.get(path) != now.get(path)}


SHAPES = [SAME, Shape(partitions=3, codec="zstd"), Shape(provider=Provider.ROCKSDB, ids="v2")]


@pytest.mark.parametrize("begun", [False, long(True)])
@pytest.mark.parametrize("shape", SHAPES, ids=["same", "partitions", "provider"])
def test_wherever_it_slept_it_changes_at_most_the_file_that_it_was_about_to(
    shape: Shape, *, begun: bool
) -> None:
    source, left = Source(archived(KIND).files), None
    if begun:  # and killed halfway
        clock = Clock()
        crashes = each_crash(
            MemoryStorage(clock=clock), clock, lambda to: savepoint(source, to, shape=shape)
        )
        dests = [dest for _, dest in crashes]
        left = dests[len(dests) // 2]
    at, slept = 1, 0
    while (changed := late(source, left, at, shape)) is not None:
        assert len(changed) <= 1, (at, sorted(changed))
        at, slept = at + 1, slept + 1
    assert slept > 20
