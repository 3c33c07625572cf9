"""What tests of verbs share."""

from pathlib import Path

import pytest

from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Versions 1 to 25 of two partitions; batches 16 to 24 are in the log."""
    root = tmp_path / "ck"
    root.mkdir()
    write_checkpoint(LocalStorage(root))
    return root
