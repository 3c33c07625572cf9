"""A checkpoint that is undone: in place, and where a move is a copy with a time of its own."""

import pytest

from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, CopyingStorage


@pytest.fixture(params=[MemoryStorage, CopyingStorage])
def storage(request: pytest.FixtureRequest, clock: Clock) -> MemoryStorage:
    """Batches 16 to 24 are in the log of one partition, whose chain begins with version 1."""
    found: MemoryStorage = write_checkpoint(request.param(clock=clock), partitions=1)
    clock.now += 60
    return found
