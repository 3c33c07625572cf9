"""What tests of every room begin with."""

import pytest

from tests.support.faults import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
