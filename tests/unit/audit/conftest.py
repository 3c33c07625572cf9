"""What tests of a checkpoint in memory share."""

import pytest

from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint


@pytest.fixture
def storage() -> MemoryStorage:
    """Batches 16 to 24 are in the log of two partitions."""
    return write_checkpoint(MemoryStorage())
